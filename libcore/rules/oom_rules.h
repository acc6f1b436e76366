/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_OOM_RULES_H
#define FLMEM_RULES_OOM_RULES_H

/* Rules about a process that the kernel killed because memory ran out, and about GPU memory. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/oom.h>

#include "rules/live_rules.h"

struct flmem_oom_row {
	struct flmem_rule rule;
	bool (*check)(const struct flmem_oom_log *log, struct flmem_live_remark *remark);
};

extern const struct flmem_oom_row flmem_oom_rows[];
extern const size_t flmem_oom_row_count;

/* Checks the last kill in the log `file` against all rows. FLMEM_EFAILED when out of memory. */
int flmem_oom_rules_run(const struct flmem_oom_log *log, const char *file,
			struct flmem_recommendations *found, struct flmem_error *err);

/* "LABEL12 MiB", or "LABELunknown". */
void flmem_oom_put_bytes(const char *label, struct flmem_u64 bytes, char *out, size_t size);

struct flmem_gpu_oom_row {
	struct flmem_rule rule;
	bool (*check)(const struct flmem_gpu_oom *oom, struct flmem_live_remark *remark);
};

extern const struct flmem_gpu_oom_row flmem_gpu_oom_rows[];
extern const size_t flmem_gpu_oom_row_count;

/* The same for the last failure in the log of a job. */
int flmem_gpu_oom_rules_run(const struct flmem_gpu_oom *oom, const char *file,
			    struct flmem_recommendations *found, struct flmem_error *err);

#endif
