/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_FRAMEWORK_H
#define FLMEM_FRAMEWORKS_FRAMEWORK_H

/*
 * Federated-learning frameworks as data. Each directory named after a framework has a file that
 * recognises its processes and ends in one constant table of operations; <flmem/roles.h> lists
 * them. docs/adding-a-framework.md describes how to add one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/roles.h>

#include "base/cleanup.h"
#include "frameworks/files.h"
#include "frameworks/program.h"
#include "frameworks/round_markers.h"
#include "frameworks/start_ops.h"
#include "frameworks/strategies.h"
#include "proc/argv_env.h"
#include "proc/scan.h"
#include "rules/heap_site_rules.h"
#include "rules/live_rules.h"
#include "rules/rules.h"
#include "rules/trend_rules.h"

struct flmem_process;
struct flmem_launch_program;
struct flmem_setting_row;
struct flmem_settings_syntax;
struct flmem_troubleshoot_row;

/*
 * Relatives of processes, needed only where several processes share a command line. All processes
 * are read at the first query. `proc_dirfd` is a descriptor of /proc that the caller owns.
 */
struct flmem_relatives {
	int proc_dirfd;
	bool read; /* `scan` is filled */
	struct flmem_scan scan;
};

void flmem_relatives_clear(struct flmem_relatives *relatives);

#define FLMEM_AUTO_RELATIVES FLMEM_AUTO(flmem_relatives_clear)

typedef bool flmem_relatives_test(const struct flmem_argv_env *command);

/* Whether the command line of a child of `pid` passes the test. */
bool flmem_relatives_has_child(struct flmem_relatives *relatives, pid_t pid,
			       flmem_relatives_test *test);

/* Whether the command line of `pid` itself passes the test. */
bool flmem_relatives_is(struct flmem_relatives *relatives, pid_t pid, flmem_relatives_test *test);

/* The facts by which a process is identified. All pointers belong to the caller. */
struct flmem_subject {
	const struct flmem_process *process;
	const struct flmem_argv_env *command;
	const struct flmem_argv_env *environment; /* NULL if it cannot be read */
	struct flmem_program program;
	struct flmem_relatives *relatives;
};

/* Bytes of the name of a site with its NUL; longer ones are cut. */
#define FLMEM_SITE_MAX 128

/* What a process is. */
struct flmem_identity {
	enum flmem_framework framework;
	enum flmem_role role;	   /* NONE for helper processes without a model */
	const char *part;	   /* static: the framework's name for this process; NULL: none */
	char site[FLMEM_SITE_MAX]; /* name of its site; untrusted text; "" if it has none */
};

/* The kinds of Python files of a framework: scripts, and modules that scripts import. */
struct flmem_module_kinds {
	const struct flmem_input_kind *script, *module;
};

/*
 * The operations of a framework, and its tables. Lists of names end in NULL. What is not described
 * as optional is required.
 */
struct flmem_framework_ops {
	enum flmem_framework framework;
	const char *package; /* name of its Python package */
	/*
	 * Returns whether the process belongs to this framework and fills role, part and site. Must
	 * reject a process that only looks similar.
	 */
	bool (*recognise)(const struct flmem_subject *subject, struct flmem_identity *identity);
	/* The texts by which its logs mark rounds, or NULL. */
	const struct flmem_round_marker *markers;
	/* The names of its files, ending in a row without text; or NULL. */
	const struct flmem_file_name *files;
	/* The kinds that its rules about modules are for; NULL: it has none. */
	const struct flmem_module_kinds *module_kinds;
	/* The layout of its jobs; NULL: each file is checked alone. */
	const struct flmem_job_layout *jobs;
	/* Its strategies for a round, for memory plans; NULL: none. */
	const struct flmem_strategies *strategies;
	/* The steps of its troubleshooting lists; NULL: none. */
	const struct flmem_troubleshoot_row *troubles;
	/* The programs that start its processes in scripts and containers; NULL: none. */
	const struct flmem_launch_program *programs;
	/* The environment variables of this framework that rules check there; or NULL. */
	const char *const *variables;
	/* Parts of such names by which other, unread variables are recognised, too; or NULL. */
	const char *const *variable_parts;
	/* The start of the names of all its variables, for detect; or NULL. */
	const char *variable_prefix;
	/* Its memory settings, ending in a row without a name; or NULL. */
	const struct flmem_setting_row *settings;
	/* The formats of settings that only its programs read, ending in a row of 0; or NULL. */
	const struct flmem_settings_syntax *setting_syntaxes;
	/*
	 * Words, one of which shows that a file which only sets variables belongs to it; or NULL.
	 */
	const char *const *variable_words;
	/* Words, one of which shows that a file which runs Python belongs to it; or NULL. */
	const char *const *script_words;
	/* Words, one of which shows that a file is a template of its configurations; or NULL. */
	const char *const *config_words;
	/* Calls in Python that run a whole federation, up to the bracket; or NULL. */
	const char *const *simulator_calls;
	/* Full names of functions that run its command line; or NULL. */
	const char *const *command_functions;
	/* Its start commands and script; NULL: none. */
	const struct flmem_start_ops *start;
	/* Microseconds in which its processes exit by themselves after a request; 0: none do. */
	uint64_t exit_us;
	/* Whether a role offloads tensors to the directory of temporary files; or NULL. */
	bool (*offloads)(enum flmem_role role);
	/* Static: why that directory cannot be read for other processes. */
	const char *offload_unread;
	/*
	 * Rounds between cleanups by the environment of a live process, if it overrides the job;
	 * else unknown. The function may be NULL.
	 */
	struct flmem_u64 (*own_gc_rounds)(const struct flmem_process_report *process);
	/* Tables of rules about its files, ending in NULL; or NULL. */
	const struct flmem_rule_table *const *rules;
	/* Rules about its live processes; or NULL. */
	const struct flmem_live_table *live_rules;
	const struct flmem_leftover_row *leftover; /* directories that they leave behind; or NULL */
	/* Rules about its recorded processes; or NULL. */
	const struct flmem_trend_table *trend_rules;
	/* Rules about its code in heap profiles; or NULL. */
	const struct flmem_heap_site_table *heap_rules;
	/* Rows that report nothing but record facts about jobs for the rules; or NULL. */
	const struct flmem_rule_table *facts;
	/* Sets the reasons why these facts are unknown before any job is checked; or NULL. */
	void (*facts_init)(struct flmem_recommendations *found);
};

extern const struct flmem_framework_ops *const flmem_frameworks[]; /* ends in NULL */

/* Identifies a process; all zero if it belongs to no known framework. */
void flmem_identify(struct flmem_subject *subject, struct flmem_identity *ret_identity);

/* The table of operations of a framework; NULL for NONE. */
const struct flmem_framework_ops *flmem_framework_ops_of(enum flmem_framework framework);

/* Initialises recommendations, with the reasons why facts about jobs are unknown so far. */
void flmem_recommendations_init(struct flmem_recommendations *ret_found);

/*
 * The rules about live processes, shared ones and those of frameworks, by index from 0 in the order
 * of reports; NULL after the last.
 */
const struct flmem_live_row *flmem_live_row_at(size_t index);

/* Checks one process against all these rules. FLMEM_EFAILED when out of memory. */
int flmem_live_rules_run(const struct flmem_process_report *process,
			 const struct flmem_version_number *release,
			 struct flmem_recommendations *found, struct flmem_error *err);

/*
 * Static reason why the directory of temporary files is not read; NULL if processes of this
 * framework and role offload tensors to it, so that it is read.
 */
const char *flmem_offload_unread(enum flmem_framework framework, enum flmem_role role);

/*
 * Rounds between cleanups of a live process: by its environment if that overrides the job, else
 * `job`.
 */
struct flmem_u64 flmem_gc_rounds_of(const struct flmem_process_report *process,
				    struct flmem_u64 job);

/* Copies the name of a site into the identity; NULL clears it. */
void flmem_identity_set_site(struct flmem_identity *identity, const char *site);

#endif
