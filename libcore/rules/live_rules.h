/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_LIVE_RULES_H
#define FLMEM_RULES_LIVE_RULES_H

/*
 * Rules about live processes: they report which settings are in effect. Each rule is a row with a
 * function that checks the report of one process; nothing is read from the process here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/finding.h>
#include <flmem/process_report.h>

#include "base/text/version_number.h"

/* What a check function found. */
struct flmem_live_remark {
	const char *path;   /* static: the setting, or the figure of `detect --json` */
	char current[128];  /* "" : absent */
	bool in_bytes;	    /* `current` is a number of bytes */
	char proposed[128]; /* "" : no replacement */
	char detail[512];   /* appended to the row's message, or "" */
	const enum flmem_severity *severity; /* overrides the row's; NULL: the row's */
};

/* The location of a finding that is not in a document. */
struct flmem_finding_place {
	const char *file;  /* "process 4711", or the path of a recording or log */
	const char *owner; /* put before the remark's path, or NULL */
	unsigned line;	   /* line of the file; 0: none */
};

/* One rule about live processes. */
struct flmem_live_row {
	struct flmem_rule rule;
	bool offload; /* applies only if a checked job offloads tensors to disk */
	/*
	 * In a table of a framework: id of the rule about any process after which this rule is put
	 * in reports and lists; NULL: after all of them.
	 */
	const char *after;
	/* Fills the remark and returns true if the process has what the rule reports. */
	bool (*check)(const struct flmem_process_report *process, struct flmem_live_remark *remark);
};

struct flmem_live_table {
	const struct flmem_live_row *rows;
	size_t count;
};

/*
 * Directories that processes of a framework create among temporary files, and leave behind when
 * killed.
 */
struct flmem_leftover_row {
	const char *prefix; /* prefix of their names; the id of the job and "_xxxxxxxx" follow */
	struct flmem_rule rule; /* reports directories that no process uses */
};

/* Rules about processes of any framework. */
extern const struct flmem_live_table flmem_live_rules;

/* Rules about releases and modes of the C library and of CPython. */
extern const struct flmem_live_table flmem_live_runtime_rules;

/* The value of a setting with which the process was started; NULL if not set, or not readable. */
const char *flmem_live_setting(const struct flmem_process_report *process, const char *name);

/* The allocator that serves plain malloc; NULL when it is not known. */
const struct flmem_allocator_report *flmem_live_malloc(const struct flmem_process_report *process);

/* Whether the allocator that serves plain malloc is known and of this kind. */
bool flmem_live_malloc_is(const struct flmem_process_report *process,
			  enum flmem_allocator_kind kind);

/*
 * Name of the setting that limits the arenas, whether it takes effect or not; NULL if there is
 * none.
 */
const char *flmem_live_arena_setting(const struct flmem_process_report *process);

/* Reads the limit of arenas that the settings of glibc request. Returns false if there is none. */
bool flmem_live_requested_arenas(const struct flmem_process_report *process, uint64_t *ret_arenas);

/* Copies text of the process into a field of a remark, with control characters escaped. */
void flmem_live_put(char *field, size_t size, const char *text);

/* Makes a number of bytes the current value of a remark; "unknown" if it is not known. */
void flmem_live_put_bytes(struct flmem_live_remark *remark, struct flmem_u64 bytes);

/* Adds a remark as a finding. FLMEM_EFAILED when out of memory. */
int flmem_live_finding_add(const struct flmem_rule *rule, const struct flmem_finding_place *place,
			   const struct flmem_live_remark *remark,
			   struct flmem_recommendations *found, struct flmem_error *err);

/*
 * Checks one process against a rule, if the rule applies to the release. FLMEM_EFAILED when out of
 * memory.
 */
int flmem_live_row_run(const struct flmem_live_row *row, const struct flmem_process_report *process,
		       const struct flmem_version_number *release,
		       struct flmem_recommendations *found, struct flmem_error *err);

#endif
