/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LIMITS_H
#define FLMEM_FRAMEWORKS_LIMITS_H

/*
 * Memory limits that files set for processes of a federation, compared with the peaks that a plan
 * predicts for them.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/roles.h>

#include "rules/rules.h"

/* The messages of rules about them. */
#define FLMEM_LIMIT_LOW_MESSAGE                                                                 \
	"the memory limit is too low for what the plan for the model predicts, and the kernel " \
	"kills a process that exceeds it; raise the limit"
#define FLMEM_LIMIT_UNCLEAR_MESSAGE \
	"cannot tell whether the memory limit suffices for what the plan for the model predicts"

/* How a size is written; the same letter is 1000 or 1024. */
enum flmem_limit_style {
	FLMEM_LIMIT_DOCKER,	/* 8g, 512m, 1.5gb: powers of 1024; 0: no limit */
	FLMEM_LIMIT_KUBERNETES, /* 8Gi, and 8G of powers of 1000 */
	FLMEM_LIMIT_SLURM,	/* 8G of powers of 1024; MiB without a letter; 0: all of the node */
	FLMEM_LIMIT_SYSTEMD,	/* 8G of powers of 1024; infinity */
	FLMEM_LIMIT_MEBIBYTES,	/* a number */
};

/* The memory that processes below one limit need: all of `least`, and no more than `most`. */
struct flmem_limit_need {
	uint64_t least, most;
	const char *whose; /* static: "a client" */
	const char *doubt; /* static: why both differ; NULL: they do not */
};

struct flmem_limit {
	const struct flmem_node *node; /* the value, with its place in the checked file */
	const char *path;	       /* NULL: that of the node */
	const char *missing;	       /* the key that the node lacks, as another file has it */
	const char *text;	       /* the value without quotes */
	enum flmem_limit_style style;
	struct flmem_limit_need need;
	const char *doubt; /* static: why it may not be the limit that applies; NULL: it is */
};

/* What one rule reports of each limit. */
enum flmem_limit_outcome {
	FLMEM_LIMIT_LOW,
	FLMEM_LIMIT_UNCLEAR,
};

/* The number of bytes; UINT64_MAX for no limit. False if the text does not decide it. */
bool flmem_limit_parse(enum flmem_limit_style style, const char *text, uint64_t *ret_bytes);

/* The need of one process of a role, and of one whose role is not known (NONE). */
struct flmem_limit_need flmem_limit_need_of(const struct flmem_plan_peaks *peaks,
					    enum flmem_role role);

/* Reports a limit if it has that outcome; with LOW also counts those that the plan decides. */
void flmem_limit_compare(struct flmem_check *check, enum flmem_limit_outcome outcome,
			 const struct flmem_limit *limit);

/* Those of scripts, units, Compose and Kubernetes files. Nothing without a plan. */
extern const struct flmem_rule_table flmem_limit_rules;

#endif
