/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_RULES_H
#define FLMEM_RULES_RULES_H

/*
 * Rules about configuration files. A framework's rules are rows of a table; each row names the kind
 * of file that it applies to and a function that checks one file, or one entry of a list in it, and
 * reports findings. A framework's table of operations names its tables of rules.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/finding.h>

#include "base/text/version_number.h"
#include "documents/document.h"

/* A source shared by many rules, also about processes of any framework. */
#define FLMEM_SOURCE_NVFLARE_GUIDE "NVFlare guide \"Memory Management\""

/* Shared by the rule about a live process and the one about the script that starts it. */
#define FLMEM_OFFLOAD_IN_MEMORY                                                              \
	"tensors are offloaded to a directory in memory, which then holds all of them; set " \
	"TMPDIR to a directory on a disk"

/* What reads a file of a kind: the rules of document_rules.h are about contents, not kinds. */
enum flmem_file_content {
	FLMEM_CONTENT_OTHER,
	FLMEM_CONTENT_CONFIG, /* JSON by Python's json module, YAML by OmegaConf */
	FLMEM_CONTENT_PYTHON,
};

/* A kind of file that has rules. Frameworks define their kinds; each is one constant object. */
struct flmem_input_kind {
	const char *parts; /* key of the list that rows with `parts` check by entry; NULL: none */
	const char *part;  /* key of the part in an entry; NULL: the entry itself */
	bool (*is_part)(const struct flmem_node *part); /* NULL: every part has rules */
	bool any_root; /* its rules also check a document that is not a map */
	/*
	 * For kinds that their name does not identify, as other programs use it, too: whether the
	 * text, not parsed yet, could be of this kind, and whether the document is.
	 */
	bool (*is_likely)(enum flmem_syntax syntax, const struct flmem_buf *text);
	bool (*is_one)(const struct flmem_document *document);
	bool by_words; /* by words anywhere in it: kinds that keys identify take precedence */
	enum flmem_file_content content;
};

#define FLMEM_KINDS_MORE 3U

/* One file. */
struct flmem_rule_input {
	const struct flmem_input_kind *kind;
	/* Others whose rules check it, too, as Python may use two frameworks; NULL: none. */
	const struct flmem_input_kind *more[FLMEM_KINDS_MORE];
	const char *file; /* path as the user gave it */
	const char *app;  /* the name of its app in a job that has apps */
	struct flmem_document document;
};

/* The memory that a plan predicts, against which limits in files are held. */
struct flmem_plan_peaks {
	enum flmem_framework framework;
	const char *strategy;	 /* the one that the plan chose */
	uint64_t server, client; /* of each process */
	const char *lower;	 /* the one with the lowest peak of the server */
	uint64_t lower_server, lower_client;
	uint64_t simulator; /* of the server and all clients at once; 0: none is planned */
};

/* Files that are read together: those of one job, or of one folder. */
struct flmem_bundle {
	const struct flmem_rule_input *inputs;
	size_t count;
	/* Texts that no rule checks, but that may start a file which is checked. */
	const struct flmem_rule_input *others;
	size_t other_count;
	bool passes_shown; /* code that is only shown is not checked: it sets nothing for others */
	const struct flmem_plan_peaks *peaks; /* NULL: without a plan */
};

struct flmem_check;

/* What is true of a whole file, or of its job, whatever part of it is checked. */
struct flmem_memo {
	int64_t number;
	const char *texts[2]; /* that the files hold, or static ones */
};

typedef void flmem_memo_compute(const struct flmem_check *check, struct flmem_memo *ret_value);

#define FLMEM_MEMO_MAX 8U

/* Such values that were computed last, by what computes them and the file. */
struct flmem_memo_entry {
	struct {
		flmem_memo_compute *compute;
		const struct flmem_rule_input *input;
		struct flmem_memo value;
	} rows[FLMEM_MEMO_MAX];
	size_t next;
};

/* The arguments of a check function. */
struct flmem_check {
	const struct flmem_bundle *bundle;
	const struct flmem_rule_input *input;
	const struct flmem_input_kind *kind; /* of those of the input the one that the row is for */
	const struct flmem_node *subject;    /* root of the file, or the part */
	const struct flmem_node *args;	     /* `args` of the subject, or NULL */
	struct flmem_version_number release; /* of the framework; count 0: unknown */
	const struct flmem_rule_row *row;
	struct flmem_recommendations *found;
	struct flmem_memo_entry *kept; /* of one run of a table */
	bool failed;		       /* out of memory */
};

#define FLMEM_ROW_INPUTS 8

struct flmem_rule_row {
	struct flmem_rule rule;
	const struct flmem_input_kind *inputs[FLMEM_ROW_INPUTS]; /* ends in NULL if it has fewer */
	enum flmem_file_content content; /* with it, any kind of this content; OTHER: none */
	bool parts; /* checks each entry of the kind's `parts`; else the file as a whole */
	void (*check)(struct flmem_check *check);
};

struct flmem_rule_table {
	const struct flmem_rule_row *rows;
	size_t count;
};

/* What a check function found; its row supplies the rest. */
struct flmem_remark {
	const struct flmem_node *node; /* the value, or the map that lacks the key `missing` */
	const char *missing;
	const char *proposed;		      /* the new value, or NULL */
	const char *path;		      /* NULL: the path of the node */
	const char *detail;		      /* appended to the row's message, or NULL */
	const struct flmem_rule_input *input; /* the file of `node`; NULL: the checked file */
	const enum flmem_severity *severity;  /* overrides the row's; NULL: the row's */
};

/* No facts about jobs; flmem_recommendations_init() also states whose jobs set them. */
#define FLMEM_RECOMMENDATIONS_INIT                                              \
	{                                                                       \
		.server_gc_rounds = FLMEM_UNKNOWN("no checked job sets it"),    \
		.client_gc_rounds = FLMEM_UNKNOWN("no checked job sets it"),    \
		.clear_cache = FLMEM_UNKNOWN("no checked Python file sets it"), \
		.cuda_empty_cache = FLMEM_UNKNOWN("no checked job sets it"),    \
	}

/* Limit on the findings of one run: hostile files could produce any number. */
#define FLMEM_FINDINGS_MAX 10000U

/* Whether the rule applies to the requested version; any version when none was requested. */
bool flmem_rule_holds(const struct flmem_rule *rule, const struct flmem_version_number *release);

/* Takes ownership of the contents of the finding; false when out of memory. */
bool flmem_findings_add(struct flmem_recommendations *found, struct flmem_finding *finding);

/* The same for a problem. */
bool flmem_problems_add(struct flmem_recommendations *found, struct flmem_input_problem *problem);

/* Adds a problem; `line` 0 means the whole file. False when out of memory. */
bool flmem_recommendations_add_problem(struct flmem_recommendations *found, const char *file,
				       unsigned line, const struct flmem_error *why);

/* The same; FLMEM_EFAILED when out of memory. */
int flmem_recommendations_store_problem(struct flmem_recommendations *found, const char *file,
					unsigned line, const struct flmem_error *why,
					struct flmem_error *err);

/* Frees what the finding owns. */
void flmem_finding_clear(struct flmem_finding *finding);

void flmem_check_report(struct flmem_check *check, const struct flmem_remark *remark);

/*
 * The value that `compute` returns for the checked file. It is called once, not for each part, so
 * that a file with many parts takes time in proportion to its length.
 */
struct flmem_memo flmem_check_memo(const struct flmem_check *check, flmem_memo_compute *compute);

/*
 * The value itself, or the value that it refers to if it is a string that names a key of the
 * outermost map: NVFlare's "{name}", HOCON's ${name}. NULL for an unresolved reference.
 */
const struct flmem_node *flmem_check_resolve(const struct flmem_rule_input *input,
					     const struct flmem_node *value);

/* Workflows, executors or calls of a file that are checked. */
#define FLMEM_PARTS_MAX 1024U

/* Whether the rules reach all parts of the file. */
bool flmem_rules_reach(const struct flmem_rule_input *input);

/* Runs the rules of a table on the files of a bundle. FLMEM_EFAILED when out of memory. */
int flmem_rules_run(const struct flmem_rule_table *table, const struct flmem_bundle *bundle,
		    const struct flmem_version_number *release, struct flmem_recommendations *found,
		    struct flmem_error *err);

#endif
