/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_RULES_H
#define FLMEM_RULES_RULES_H

/*
 * Rules about configuration files. A framework's rules are rows of a table; each row names the kind
 * of file that it looks at and a function that looks at one file, or at one entry of a list in it,
 * and reports what it finds. rules.c lists the tables.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/finding.h>

#include "base/release.h"
#include "documents/document.h"

/* Sources that many rules rest on. */
#define FLMEM_SOURCE_NVFLARE_GUIDE "NVFlare guide \"Memory Management\""
#define FLMEM_SOURCE_NVFLARE_CODE  "NVFlare code, 2.7.2 to 2.9"

/* What two rules say, of a live process and of what starts one. */
#define FLMEM_OFFLOAD_IN_MEMORY                                                                \
	"tensors are offloaded to a directory that is memory itself, which it then holds all " \
	"over; point TMPDIR to a disk"

enum flmem_input_kind {
	FLMEM_INPUT_UNKNOWN, /* its content tells */
	FLMEM_INPUT_NVFLARE_META,
	FLMEM_INPUT_NVFLARE_SERVER,
	FLMEM_INPUT_NVFLARE_CLIENT,
	FLMEM_INPUT_NVFLARE_PYTHON,
	FLMEM_INPUT_NVFLARE_LAUNCH,
	FLMEM_INPUT_APPFL_SERVER,
	FLMEM_INPUT_APPFL_CLIENT,
	FLMEM_INPUT_FLOWER_PROJECT,
	FLMEM_INPUT_RECORDING, /* of flmem watch; no document */
	FLMEM_INPUT_OOM_LOG,   /* of a kernel; no document */
};

#define FLMEM_INPUT_BIT(kind) (1U << (kind))

/* One file. */
struct flmem_input {
	enum flmem_input_kind kind;
	const char *file; /* as the user named it */
	const char *app;  /* NVFlare: the name of its app in the job */
	struct flmem_document document;
};

/* Files that are read together: those of one job, or of one folder. */
struct flmem_bundle {
	const struct flmem_input *inputs;
	size_t count;
};

/* What a check function gets. */
struct flmem_check {
	const struct flmem_bundle *bundle;
	const struct flmem_input *input;
	const struct flmem_node *subject; /* root of the file, or the workflow or executor */
	const struct flmem_node *args;	  /* `args` of the subject, or NULL */
	struct flmem_release release;	  /* of the framework; count 0: unknown */
	const struct flmem_rule_row *row;
	struct flmem_recommendations *found;
	bool failed; /* memory was out */
};

struct flmem_rule_row {
	struct flmem_rule rule;
	unsigned inputs; /* FLMEM_INPUT_BIT of the kinds */
	bool parts;	 /* looks at each workflow or executor; else at the file as a whole */
	void (*check)(struct flmem_check *check);
};

struct flmem_rule_table {
	const struct flmem_rule_row *rows;
	size_t count;
};

/* What a check function found; the rest comes from its row. */
struct flmem_remark {
	const struct flmem_node *node; /* the value, or the map that lacks the key `missing` */
	const char *missing;
	const char *proposed;		     /* what to write as the value, or NULL */
	const char *path;		     /* NULL: the way to the node */
	const char *detail;		     /* behind the row's message, or NULL */
	const struct flmem_input *input;     /* where `node` is, when not in the file at hand */
	const enum flmem_severity *severity; /* when not the row's */
};

/* What is told of jobs as long as none was checked. */
#define FLMEM_RECOMMENDATIONS_INIT                                                              \
	{                                                                                       \
		.server_gc_rounds = FLMEM_UNKNOWN("no job of NVFlare that has it was checked"), \
		.client_gc_rounds = FLMEM_UNKNOWN("no job of NVFlare that has it was checked"), \
		.clear_cache = FLMEM_UNKNOWN("no Python that sends by NVFlare was checked"),    \
		.cuda_empty_cache = FLMEM_UNKNOWN("no job of NVFlare that has it was checked"), \
	}

/* Findings of one run that are kept; hostile files could make any number. */
#define FLMEM_FINDINGS_MAX 10000U

/* Whether the version that is asked for, if any, is one that the rule holds for. */
bool flmem_rule_holds(const struct flmem_rule *rule, const struct flmem_release *release);

/* Takes over what the finding owns; false when memory is out. */
bool flmem_findings_add(struct flmem_recommendations *found, struct flmem_finding *finding);

/* The same of a problem. */
bool flmem_problems_add(struct flmem_recommendations *found, struct flmem_input_problem *problem);

/* Frees what the finding owns. */
void flmem_finding_clear(struct flmem_finding *finding);

void flmem_check_report(struct flmem_check *check, const struct flmem_remark *remark);

/*
 * The value itself, or what it stands for where it is a string that names a key of the outermost
 * map: NVFlare's "{name}", HOCON's ${name}. NULL for one that stays open.
 */
const struct flmem_node *flmem_check_resolve(const struct flmem_input *input,
					     const struct flmem_node *value);

/* Runs the rules of a table on the files of a bundle. FLMEM_EFAILED when memory is out. */
int flmem_rules_run(const struct flmem_rule_table *table, const struct flmem_bundle *bundle,
		    const struct flmem_release *release, struct flmem_recommendations *found,
		    struct flmem_error *err);

#endif
