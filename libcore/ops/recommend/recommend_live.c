/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_live.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "frameworks/framework.h"
#include "ops/recommend/recommend_leftovers.h"

static int add_process_problem(struct flmem_recommendations *found, pid_t pid,
			       struct flmem_error *why, struct flmem_error *err)
{
	char file[32];

	snprintf(file, sizeof(file), "process %d", (int)pid);
	if (flmem_recommendations_add_problem(found, file, 0, why))
		return 0;
	return flmem_error_nomem(err, "cannot store the problem of process %d", (int)pid);
}

/*
 * Returns true for an inaccessible process: of a process of another user little is read that a rule
 * could check.
 */
static bool is_closed(const struct flmem_process_report *process)
{
	return process->denied_why && process->allocators_unknown && process->settings_unknown;
}

int flmem_recommend_process(const struct flmem_process_report *process,
			    const struct flmem_version_number *release,
			    struct flmem_recommendations *found, struct flmem_error *err)
{
	size_t findings = found->finding_count;
	struct flmem_error why = {0};
	int rc = 0;

	if (process->denied_why) {
		flmem_error_set(&why, FLMEM_EPERM, 0, "no permission to read its memory: %s; %s",
				process->denied_why, process->denied_how);
		rc = add_process_problem(found, process->pid, &why, err);
	}
	if (!rc)
		rc = flmem_live_rules_run(process, release, found, err);
	if (!is_closed(process) || found->finding_count > findings) {
		found->file_count++;
		found->process_count++;
	}
	return rc;
}

int flmem_recommend_skipped(const struct flmem_skipped *skipped,
			    struct flmem_recommendations *found, struct flmem_error *err)
{
	struct flmem_error why = {0};

	flmem_error_set(&why, skipped->code, 0, "%s", skipped->message);
	return add_process_problem(found, skipped->pid, &why, err);
}

int flmem_recommend_processes(const struct flmem_detect_report *report,
			      const struct flmem_recommend_options *options,
			      struct flmem_recommendations *ret_recommendations,
			      struct flmem_error *err)
{
	FLMEM_AUTO(flmem_recommendations_clear)
	struct flmem_recommendations found = {0};
	struct flmem_version_number release = {0};
	int rc = 0;

	flmem_recommendations_init(&found);
	found.disk_offload = options && options->beside && options->beside->disk_offload;
	if (options && options->framework_version)
		rc = flmem_version_number_option(options->framework_version, &release, err);
	for (size_t i = 0; i < report->process_count && !rc; i++)
		rc = flmem_recommend_process(&report->processes[i], &release, &found, err);
	for (size_t i = 0; i < report->skipped_count && !rc; i++)
		rc = flmem_recommend_skipped(&report->skipped[i], &found, err);
	if (!rc && options && options->search_leftovers)
		rc = flmem_recommend_leftovers(report, options->leftovers_of_host, &release, &found,
					       err);
	if (rc)
		return rc;
	*ret_recommendations = found;
	found = (struct flmem_recommendations){0};
	return 0;
}
