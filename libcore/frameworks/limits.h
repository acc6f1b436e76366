/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LIMITS_H
#define FLMEM_FRAMEWORKS_LIMITS_H

/*
 * Compares memory limits that files set for processes of a federation with the peaks that a plan
 * predicts for them.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/roles.h>

#include "rules/rules.h"

/* Messages of the rules about these limits. */
#define FLMEM_LIMIT_LOW_MESSAGE                                                                 \
	"the memory limit is too low for what the plan for the model predicts, and the kernel " \
	"kills a process that exceeds it; raise the limit"
#define FLMEM_LIMIT_UNCLEAR_MESSAGE \
	"cannot tell whether the memory limit suffices for what the plan for the model predicts"

/* How a size is written. The same letter is a power of 1000 in one style and of 1024 in another. */
enum flmem_limit_style {
	FLMEM_LIMIT_DOCKER,	/* 8g, 512m, 1.5gb: powers of 1024; 0: no limit */
	FLMEM_LIMIT_KUBERNETES, /* 8Gi, and 8G of powers of 1000 */
	FLMEM_LIMIT_SLURM,	/* 8G of powers of 1024; MiB without a letter; 0: all of the node */
	FLMEM_LIMIT_SYSTEMD,	/* 8G of powers of 1024; infinity */
	FLMEM_LIMIT_MEBIBYTES,	/* a number without a unit */
};

/* The bytes that the processes below one limit need: at least `least`, and at most `most`. */
struct flmem_limit_need {
	uint64_t least, most; /* `most` is UINT64_MAX if it is not known */
	const char *whose;    /* static: the process or processes, as "a client" */
	const char *doubt;    /* static: why the two differ; NULL: they are equal */
};

/* A limit in a file. */
struct flmem_limit {
	const struct flmem_node *node; /* the value, with its place in the checked file */
	const char *path;	       /* shown as its place; NULL: path of the node */
	/* Key that the node lacks, since another file sets the limit; or NULL. */
	const char *missing;
	const char *text; /* the value without quotes */
	enum flmem_limit_style style;
	struct flmem_limit_need need;
	const char *doubt; /* static: why another limit may apply; NULL: this one applies */
};

/* The two rules about limits; each reports those of one outcome. */
enum flmem_limit_outcome {
	/* The limit is too low. */
	FLMEM_LIMIT_LOW,
	/* The file and the plan do not decide whether it suffices. */
	FLMEM_LIMIT_UNCLEAR,
};

/*
 * Reads the bytes of a limit; UINT64_MAX for no limit. Returns false if the text does not decide
 * it.
 */
bool flmem_limit_parse(enum flmem_limit_style style, const char *text, uint64_t *ret_bytes);

/* What one process of a role needs; with NONE, one whose role is not known. */
struct flmem_limit_need flmem_limit_need_of(const struct flmem_plan_peaks *peaks,
					    enum flmem_role role);

/* Reports a limit that has this outcome. With LOW, also counts the limits that are decided. */
void flmem_limit_compare(struct flmem_check *check, enum flmem_limit_outcome outcome,
			 const struct flmem_limit *limit);

/*
 * Rules about limits in scripts, units, Compose and Kubernetes files. They report nothing without a
 * plan.
 */
extern const struct flmem_rule_table flmem_limit_rules;

#endif
