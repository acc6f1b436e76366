/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_LIVE_RULES_H
#define FLMEM_RULES_LIVE_RULES_H

/*
 * Rules about live processes: what their settings came to. Each is a row with a function that looks
 * at the report of one process; nothing is read from the process here.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/process_report.h>

#include "base/release.h"

/* What a check function found. */
struct flmem_live_remark {
	const char *path;   /* static: the setting, or the figure of `detect --json` */
	char current[128];  /* "" : absent */
	char proposed[128]; /* "" : nothing to write instead */
	char detail[192];   /* behind the row's message, or "" */
	const enum flmem_severity *severity; /* when not the row's */
};

/* Where a finding that is in no document belongs. */
struct flmem_finding_place {
	const char *file;  /* "process 4711", or a recording */
	const char *owner; /* before the remark's path, or NULL */
	unsigned line;	   /* of the file; 0: none */
};

struct flmem_live_row {
	struct flmem_rule rule;
	bool offload; /* only where a job that was checked has tensors offloaded to disk */
	bool (*check)(const struct flmem_process_report *process, struct flmem_live_remark *remark);
};

extern const struct flmem_live_row flmem_live_rows[];
extern const size_t flmem_live_row_count;

/* The value of a setting that the process was started with; NULL: none, or not to be read. */
const char *flmem_live_setting(const struct flmem_process_report *process, const char *name);

/* The allocator that plain malloc reaches; NULL when it could not be told. */
const struct flmem_allocator_report *flmem_live_malloc(const struct flmem_process_report *process);

/* Makes a finding of a remark. FLMEM_EFAILED when memory is out. */
int flmem_live_finding_add(const struct flmem_rule *rule, const struct flmem_finding_place *place,
			   const struct flmem_live_remark *remark,
			   struct flmem_recommendations *found, struct flmem_error *err);

/* Holds all rows against one process. FLMEM_EFAILED when memory is out. */
int flmem_live_rules_run(const struct flmem_process_report *process,
			 const struct flmem_release *release, struct flmem_recommendations *found,
			 struct flmem_error *err);

#endif
