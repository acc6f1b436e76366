/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_recording.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "frameworks/framework.h"

/*
 * Returns how often the process cleans up. Facts of the checked jobs hold for processes of a
 * framework whose jobs have such facts.
 */
static struct flmem_u64 gc_rounds_of(const struct flmem_watch_process *process,
				     const struct flmem_process_report *live,
				     const struct flmem_recommendations *found)
{
	const struct flmem_framework_ops *framework = flmem_framework_ops_of(process->framework);

	if (!framework || !framework->facts)
		return FLMEM_UNKNOWN("jobs of its framework do not set it");
	if (flmem_role_is_server(process->role))
		return found->server_gc_rounds;
	return live ? flmem_gc_rounds_of(live, found->client_gc_rounds) : found->client_gc_rounds;
}

int flmem_recommend_recorded(const struct flmem_watch_result *result,
			     const struct flmem_process_report *live, const char *file,
			     const struct flmem_version_number *release,
			     struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_recorded recorded = {
		.result = result,
		.gc_rounds = gc_rounds_of(&result->process, live, found),
	};
	int rc = 0;

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !rc; f++)
		if ((*f)->trend_rules)
			rc = flmem_trend_rules_run((*f)->trend_rules, &recorded, file, release,
						   found, err);
	return rc ? rc
		  : flmem_trend_rules_run(&flmem_trend_rules, &recorded, file, release, found, err);
}

static int check_results(const struct flmem_watch_summary *summary, const char *path,
			 const struct flmem_version_number *release,
			 struct flmem_recommendations *found, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < summary->count && !rc; i++)
		rc = flmem_recommend_recorded(&summary->results[i], NULL, path, release, found,
					      err);
	return rc;
}

/* Stores the summary, of which it takes ownership. */
static bool store_summary(struct flmem_recommendations *found, const char *path,
			  struct flmem_watch_summary *summary)
{
	struct flmem_checked_recording *grown =
		reallocarray(found->recordings, found->recording_count + 1, sizeof(*grown));
	FLMEM_AUTO_FREE char *file = strdup(path);
	struct flmem_watch_summary *kept = malloc(sizeof(*kept));

	if (grown)
		found->recordings = grown;
	if (!grown || !file || !kept) {
		free(kept);
		return false;
	}
	*kept = *summary;
	*summary = (struct flmem_watch_summary){0};
	grown[found->recording_count++] =
		(struct flmem_checked_recording){.file = FLMEM_TAKE(file), .summary = kept};
	return true;
}

static int replay_recording(const char *path, const struct flmem_recommend_options *options,
			    struct flmem_watch_summary *ret_summary, struct flmem_error *why)
{
	if (!options || !options->replay)
		return flmem_error_set(why, FLMEM_EUNSUPPORTED, 0,
				       "recording not read: the caller gave no replay function");
	return options->replay(path, ret_summary, why);
}

/* Reports a damaged part, which may have held what the rules check. */
static int report_damaged_part(const struct flmem_watch_summary *summary, const char *path,
			       struct flmem_recommendations *found, struct flmem_error *err)
{
	char count[FLMEM_TEXT_COUNTED_MAX];
	struct flmem_error why = {0};

	if (!summary->record_skipped_bytes)
		return 0;
	flmem_error_set(
		&why, FLMEM_EUSAGE, 0,
		"%s of the recording %s %s and not checked; copy it again, with all "
		"its bytes",
		flmem_text_counted(summary->record_skipped_bytes, "byte", count, sizeof(count)),
		summary->record_skipped_bytes == 1 ? "is" : "are", summary->record_skipped_why);
	return flmem_recommendations_store_problem(found, path, 0, &why, err);
}

/* If a process is in both watches, only the later watch is checked. */
static int report_overlaps(const struct flmem_watch_summary *summary, const char *path,
			   struct flmem_recommendations *found, struct flmem_error *err)
{
	struct flmem_error why = {0};
	int rc;

	if (!summary->record_overlaps)
		return 0;
	flmem_error_set(&why, FLMEM_EUSAGE, 0,
			"the recording has watches that overlap in time: a process in several is "
			"checked in the last of them only; check the recordings one by one");
	rc = flmem_recommendations_store_problem(found, path, 0, &why, err);
	if (!rc)
		found->problems[found->problem_count - 1].warning = true;
	return rc;
}

int flmem_recommend_recording(const char *path, const struct flmem_recommend_options *options,
			      const struct flmem_version_number *release,
			      struct flmem_recommendations *found, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};
	struct flmem_error why = {0};
	int rc;

	if (replay_recording(path, options, &summary, &why)) {
		return flmem_recommendations_store_problem(found, path, 0, &why, err);
	}
	found->file_count++;
	rc = report_damaged_part(&summary, path, found, err);
	if (!rc)
		rc = report_overlaps(&summary, path, found, err);
	if (!rc)
		rc = check_results(&summary, path, release, found, err);
	if (!rc && !store_summary(found, path, &summary))
		rc = flmem_error_nomem(err, "cannot store the summary of '%s'", path);
	return rc;
}
