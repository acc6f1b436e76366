/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/oom_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"

#define MOST_PERCENT 50U /* percent of the limit, or of the memory of the process */

static const char *format_known_bytes(struct flmem_u64 value, char out[FLMEM_TEXT_BYTES_MAX])
{
	return value.unknown ? "unknown" : flmem_text_bytes(value.value, out, FLMEM_TEXT_BYTES_MAX);
}

/* Writes the owner of the limit: a group with its path, or the host. */
static void put_oom_limit(const struct flmem_oom_kill *kill, char *out, size_t size)
{
	char limit[FLMEM_TEXT_BYTES_MAX], group[128];

	if (kill->of_group)
		snprintf(out, size, "the limit of %s of %s",
			 format_known_bytes(kill->limit_bytes, limit),
			 *kill->group ? flmem_text_escape(kill->group, group, sizeof(group))
				      : "its control group");
	else
		snprintf(out, size, "no limit other than the host's memory");
}

static bool report_kill(const struct flmem_oom_log *log, struct flmem_live_remark *remark)
{
	const struct flmem_oom_kill *kill = &log->last;
	char held[FLMEM_TEXT_BYTES_MAX], limit[200], others[48] = "", name[48];

	put_oom_limit(kill, limit, sizeof(limit));
	if (log->kills > 1)
		snprintf(others, sizeof(others), "; the last of %zu kills", log->kills);
	remark->path = "anon-rss";
	flmem_live_put_bytes(remark, kill->anon_bytes);
	snprintf(remark->detail, sizeof(remark->detail), "%s, process %d: %s anonymous, %.110s%s",
		 flmem_text_escape(kill->name, name, sizeof(name)), (int)kill->pid,
		 format_known_bytes(kill->anon_bytes, held), limit, others);
	return true;
}

/* Reports shared memory and tmpfs: they count for the group, and no allocator can release them. */
static bool report_shared_memory(const struct flmem_oom_log *log, struct flmem_live_remark *remark)
{
	const struct flmem_oom_kill *kill = &log->last;
	struct flmem_u64 anon = kill->anon_bytes, shmem = kill->shmem_bytes;
	char held[FLMEM_TEXT_BYTES_MAX];

	if (anon.unknown || shmem.unknown || shmem.value < anon.value || !shmem.value)
		return false;
	remark->path = "shmem-rss";
	flmem_live_put_bytes(remark, shmem);
	snprintf(remark->detail, sizeof(remark->detail), "%s of shared memory",
		 format_known_bytes(shmem, held));
	return true;
}

/* Reports that other processes than the killed one filled the group. */
static bool report_other_processes(const struct flmem_oom_log *log,
				   struct flmem_live_remark *remark)
{
	const struct flmem_oom_kill *kill = &log->last;

	if (kill->tasks.unknown || kill->share_percent.unknown || kill->tasks.value < 2 ||
	    kill->share_percent.value >= MOST_PERCENT)
		return false;
	remark->path = "tasks";
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64, kill->tasks.value);
	snprintf(remark->detail, sizeof(remark->detail),
		 "it held %" PRIu64 " %% of what %" PRIu64 " tasks held", kill->share_percent.value,
		 kill->tasks.value);
	return true;
}

const struct flmem_oom_row flmem_oom_rows[] = {
	{.rule = {.id = "OOM-KILLED",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a kernel log that reports a process killed because memory ran out",
		  .message = "the kernel killed a process because memory ran out; run flmem "
			     "recommend --troubleshoot with this log for the next steps",
		  .source = "Linux, mm/oom_kill.c"},
	 .check = report_kill},
	{.rule = {.id = "OOM-SHARED",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a killed process that held more shared than anonymous memory",
		  .message = "shared memory and files in tmpfs (/dev/shm, data loaders with "
			     "workers) count against the limit, and no allocator or garbage "
			     "collector releases them",
		  .source = "Linux documentation, cgroup-v2, \"memory.stat\", shmem"},
	 .check = report_shared_memory},
	{.rule = {.id = "OOM-OTHERS",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "a killed process that held less than half of the memory of all "
			       "tasks that the kernel could have killed",
		  .message = "several processes together reached the limit; count the clients and "
			     "data loaders that share it",
		  .source = "Linux, mm/oom_kill.c"},
	 .check = report_other_processes},
};

const size_t flmem_oom_row_count = FLMEM_ARRAY_SIZE(flmem_oom_rows);

int flmem_oom_rules_run(const struct flmem_oom_log *log, const char *file,
			struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_finding_place place = {.file = file, .line = log->last.line};
	int rc = 0;

	for (size_t i = 0; i < flmem_oom_row_count && !rc; i++) {
		struct flmem_live_remark remark = {0};

		if (flmem_oom_rows[i].check(log, &remark))
			rc = flmem_live_finding_add(&flmem_oom_rows[i].rule, &place, &remark, found,
						    err);
	}
	return rc;
}
