/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_OOM_RULES_H
#define FLMEM_RULES_OOM_RULES_H

/*
 * Rules about a process that the kernel killed because memory ran out, and about GPU memory that
 * ran out. Each checks the log of the failure.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/oom.h>

#include "rules/live_rules.h"

/* One rule about a kill by the kernel. */
struct flmem_oom_row {
	/* Fills the remark and returns true if the log shows what the rule reports. */
	struct flmem_rule rule;
	bool (*check)(const struct flmem_oom_log *log, struct flmem_live_remark *remark);
};

extern const struct flmem_oom_row flmem_oom_rows[];
extern const size_t flmem_oom_row_count;

/*
 * Checks the last kill in a log against all rows. `file` is the path of the log. FLMEM_EFAILED when
 * out of memory.
 */
int flmem_oom_rules_run(const struct flmem_oom_log *log, const char *file,
			struct flmem_recommendations *found, struct flmem_error *err);

/* Writes "LABEL12 MiB", or "LABELunknown". */
void flmem_oom_put_bytes(const char *label, struct flmem_u64 bytes, char *out, size_t size);

/* One rule about GPU memory that ran out. */
struct flmem_gpu_oom_row {
	struct flmem_rule rule;
	bool (*check)(const struct flmem_gpu_oom *oom, struct flmem_live_remark *remark);
};

extern const struct flmem_gpu_oom_row flmem_gpu_oom_rows[];
extern const size_t flmem_gpu_oom_row_count;

/*
 * Checks the last failure in the log of a job against all rows. `file` is the path of the log.
 * FLMEM_EFAILED when out of memory.
 */
int flmem_gpu_oom_rules_run(const struct flmem_gpu_oom *oom, const char *file,
			    struct flmem_recommendations *found, struct flmem_error *err);

#endif
