/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_RULES_H
#define FLMEM_RULES_RULES_H

/*
 * Rules about configuration files. Rules are rows of tables, which the operations of a framework
 * name (framework.h). Each row names the kinds of files that it applies to, and a function that
 * checks one file, or one entry of a list in it, and reports findings.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/finding.h>

#include "base/text/version_number.h"
#include "documents/document.h"

/* Source of many rules, also of some about processes of any framework. */
#define FLMEM_SOURCE_NVFLARE_GUIDE "NVFlare guide \"Memory Management\""

/* Message of the rule about a live process, and of the one about the script that starts it. */
#define FLMEM_OFFLOAD_IN_MEMORY                                                              \
	"tensors are offloaded to a directory in memory, which then holds all of them; set " \
	"TMPDIR to a directory on a disk"

/*
 * Which reader a file is meant for. Rules of document_rules.h are about a content, not about a
 * kind.
 */
enum flmem_file_content {
	FLMEM_CONTENT_OTHER,
	FLMEM_CONTENT_CONFIG, /* JSON by Python's json module, YAML by OmegaConf */
	FLMEM_CONTENT_PYTHON,
};

/* A kind of file that has rules. Each kind is one constant object of a framework. */
struct flmem_input_kind {
	const char *parts; /* key of the list whose entries rows with `parts` check; NULL: none */
	const char *part;  /* key in the entry of what is checked; NULL: the entry itself */
	/* Whether rules are about the part; NULL: they always are. */
	bool (*is_part)(const struct flmem_node *part);
	bool any_root; /* its rules also check a document whose root is not a map */
	/*
	 * For kinds that are not identified by their name, as other programs use it, too: whether
	 * the text, not parsed yet, could be of this kind, and whether the parsed document is.
	 */
	bool (*is_likely)(enum flmem_syntax syntax, const struct flmem_buf *text);
	bool (*is_one)(const struct flmem_document *document);
	bool by_words; /* words anywhere identify it: a kind that keys identify takes precedence */
	enum flmem_file_content content;
};

/* Further kinds that one file may have. */
#define FLMEM_KINDS_MORE 3U

/* One file that was read. */
struct flmem_rule_input {
	const struct flmem_input_kind *kind;
	/* Further kinds whose rules check it, as Python may use two frameworks; NULL: no more. */
	const struct flmem_input_kind *more[FLMEM_KINDS_MORE];
	const char *file; /* path as the user gave it */
	const char *app;  /* name of its app; NULL in a job without apps */
	struct flmem_document document;
};

/*
 * Memory, in bytes, that a plan predicts for the processes of a job. Limits in files are compared
 * with it.
 */
struct flmem_plan_peaks {
	enum flmem_framework framework;
	const char *strategy;		     /* the strategy that the plan chose */
	uint64_t server, client;	     /* peak of one such process */
	const char *lower;		     /* the strategy with the lowest peak of the server */
	uint64_t lower_server, lower_client; /* peaks with `lower` */
	/* Peak of the server and all clients together; 0: no simulator is planned. */
	uint64_t simulator;
};

/* Files that are read together: those of one job, or of one folder. The caller owns them. */
struct flmem_bundle {
	const struct flmem_rule_input *inputs;
	size_t count;
	/* Texts that no rule checks, but that may start a file which is checked. */
	const struct flmem_rule_input *others;
	size_t other_count;
	bool passes_shown; /* code in Markdown that is only shown is not checked */
	const struct flmem_plan_peaks *peaks; /* NULL: without a plan */
};

struct flmem_check;

/* A value that is the same for a whole file, or its job, whatever part of it is checked. */
struct flmem_memo {
	int64_t number;
	const char *texts[2]; /* texts of the files, or static ones */
};

/* Computes such a value for the checked file. */
typedef void flmem_memo_compute(const struct flmem_check *check, struct flmem_memo *ret_value);

#define FLMEM_MEMO_MAX 8U

/* The values computed last, by function and file; the oldest row is replaced first. */
struct flmem_memo_entry {
	struct {
		flmem_memo_compute *compute;
		const struct flmem_rule_input *input;
		struct flmem_memo value;
	} rows[FLMEM_MEMO_MAX];
	size_t next;
};

/* The arguments of a check function, and where its findings are added. */
struct flmem_check {
	const struct flmem_bundle *bundle;
	const struct flmem_rule_input *input;
	const struct flmem_input_kind *kind; /* the kind of the input to which the row applies */
	const struct flmem_node *subject;    /* root of the file, or the part that is checked */
	const struct flmem_node *args;	     /* `args` of the subject, or NULL */
	struct flmem_version_number release; /* release of the framework; count 0: unknown */
	const struct flmem_rule_row *row;
	struct flmem_recommendations *found;
	struct flmem_memo_entry *kept; /* values kept during one run of a table */
	bool failed;		       /* out of memory */
};

#define FLMEM_ROW_INPUTS 8

/* One rule and the files that it checks. */
struct flmem_rule_row {
	struct flmem_rule rule;
	/* Kinds that it checks; ends in NULL if it has fewer. */
	const struct flmem_input_kind *inputs[FLMEM_ROW_INPUTS];
	/* Any kind with this content is checked, too; OTHER: none. */
	enum flmem_file_content content;
	bool parts; /* checks each entry of the kind's `parts`, not the file as a whole */
	void (*check)(struct flmem_check *check);
};

struct flmem_rule_table {
	const struct flmem_rule_row *rows;
	size_t count;
};

/* What a check function found; the row supplies severity and message. */
struct flmem_remark {
	const struct flmem_node *node; /* the value; with `missing`, the map that lacks that key */
	const char *missing;
	const char *proposed; /* the new value, or NULL */
	const char *path;     /* shown as the place of the finding; NULL: path of the node */
	const char *detail;   /* appended to the row's message, or NULL */
	/* The file that `node` is in; NULL: the checked file. */
	const struct flmem_rule_input *input;
	const enum flmem_severity *severity; /* overrides the row's; NULL: the row's */
};

/*
 * Recommendations without facts about jobs; flmem_recommendations_init() also lets frameworks state
 * their reasons.
 */
#define FLMEM_RECOMMENDATIONS_INIT                                              \
	{                                                                       \
		.server_gc_rounds = FLMEM_UNKNOWN("no checked job sets it"),    \
		.client_gc_rounds = FLMEM_UNKNOWN("no checked job sets it"),    \
		.clear_cache = FLMEM_UNKNOWN("no checked Python file sets it"), \
		.cuda_empty_cache = FLMEM_UNKNOWN("no checked job sets it"),    \
	}

/* Limit on the findings of one run: hostile files could produce any number. */
#define FLMEM_FINDINGS_MAX 10000U

/*
 * Whether a rule applies to the requested release. If none was requested, every rule applies except
 * those marked `certain`.
 */
bool flmem_rule_holds(const struct flmem_rule *rule, const struct flmem_version_number *release);

/* Adds a finding and takes ownership of its contents. Returns false when out of memory. */
bool flmem_findings_add(struct flmem_recommendations *found, struct flmem_finding *finding);

/* Adds a problem and takes ownership of its contents. Returns false when out of memory. */
bool flmem_problems_add(struct flmem_recommendations *found, struct flmem_input_problem *problem);

/*
 * Adds a problem with copies of the texts; a `line` of 0 means the whole file. Returns false when
 * out of memory.
 */
bool flmem_recommendations_add_problem(struct flmem_recommendations *found, const char *file,
				       unsigned line, const struct flmem_error *why);

/* The same, but returns 0 or, when out of memory, FLMEM_EFAILED with an error. */
int flmem_recommendations_store_problem(struct flmem_recommendations *found, const char *file,
					unsigned line, const struct flmem_error *why,
					struct flmem_error *err);

/* Frees the contents of the finding. */
void flmem_finding_clear(struct flmem_finding *finding);

/*
 * Reports a finding at a node, unless a comment in the file suppresses the rule there. Sets
 * check->failed when out of memory.
 */
void flmem_check_report(struct flmem_check *check, const struct flmem_remark *remark);

/*
 * Returns the value that `compute` has for the checked file. It is computed once, not for each
 * part, so that a file with many parts takes time in proportion to its length.
 */
struct flmem_memo flmem_check_memo(const struct flmem_check *check, flmem_memo_compute *compute);

/*
 * Returns `value`, or if it is a string that refers to a key of the outermost map (NVFlare's
 * "{name}", HOCON's ${name}), the value of that key; NULL if there is no such key.
 */
const struct flmem_node *flmem_check_resolve(const struct flmem_rule_input *input,
					     const struct flmem_node *value);

/* Limit on the workflows, executors or calls of a file that are checked. */
#define FLMEM_PARTS_MAX 1024U

/* Whether the rules check all parts of a file; false if it has more than FLMEM_PARTS_MAX. */
bool flmem_rules_reach(const struct flmem_rule_input *input);

/*
 * Checks the files of a bundle against a table and adds what is found. FLMEM_EFAILED when out of
 * memory.
 */
int flmem_rules_run(const struct flmem_rule_table *table, const struct flmem_bundle *bundle,
		    const struct flmem_version_number *release, struct flmem_recommendations *found,
		    struct flmem_error *err);

#endif
