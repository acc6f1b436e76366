/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASSES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASSES_H

/*
 * NVFlare's classes whose arguments set memory: those of job files, and the recipes, runners and
 * controllers of the Python that makes a job. A job file holds an argument only where it differs
 * from the default of the class (job export compares the two), so an absent key means that default.
 */

#include <stdbool.h>
#include <stdint.h>

#include "frameworks/nvflare/rules/nvflare_rules.h"

enum flmem_nvflare_part {
	FLMEM_NVFLARE_CONTROLLER,     /* runs on the server */
	FLMEM_NVFLARE_EXECUTOR,	      /* runs a training script on a client */
	FLMEM_NVFLARE_SWARM_EXECUTOR, /* aggregates on a client */
	FLMEM_NVFLARE_RECIPE,	      /* makes a whole job; only in Python */
};

enum flmem_nvflare_side {
	FLMEM_NVFLARE_SERVER,
	FLMEM_NVFLARE_CLIENT,
	FLMEM_NVFLARE_SIDES,
};

/* The interval of one side's cleanup. */
struct flmem_nvflare_interval {
	bool exists;	  /* this side cleans up at all */
	const char *arg;  /* its argument; NULL: it always is the default */
	int64_t fallback; /* the default */
};

#define FLMEM_NVFLARE_ROUNDS_REQUIRED (-1) /* num_rounds has no default */

struct flmem_nvflare_class {
	const char *path;
	const char *package;   /* that also exports the name, or NULL */
	const char *since;     /* first version with the class; NULL: 2.7.2 or before */
	const char *before;    /* first version without it; NULL: none */
	int64_t rounds;	       /* default of num_rounds; 0: no such argument */
	int64_t sends;	       /* how often a client sends in a job without rounds; 0: not known */
	bool sends_vary;       /* the models of the job decide how often */
	const char *rounds_at; /* its position, as a key; NULL: none */
	const char *offload;   /* first version with enable_tensor_disk_offload; NULL: none */
	const char *format;    /* the argument with the format of tensors; NULL: none */
	struct flmem_nvflare_interval intervals[FLMEM_NVFLARE_SIDES];
	enum flmem_nvflare_part part;
	bool pytorch;	    /* the default of that is PyTorch's */
	bool cuda;	    /* has cuda_empty_cache */
	bool gc_ignored;    /* accepts the interval and never cleans up */
	bool server_cleans; /* every round, in a recipe without any setting */
	bool converts;	    /* pydantic makes integers of numbers in strings and of booleans */
};

/* Names of arguments that set memory; ends in NULL. */
extern const char *const flmem_nvflare_names[];

/* The full name of what is called, or of a class; "" if it has none. */
const char *flmem_nvflare_path_text(const struct flmem_node *call);

/* The first entry of a list of the checked script; NULL: none. */
const struct flmem_node *flmem_nvflare_first(const struct flmem_check *check, const char *list);

/* The node with the full name of a class: `path`, or `class_path`, in NVFlare's order; or NULL. */
const struct flmem_node *flmem_nvflare_path(const struct flmem_node *subject);

/* The class of a workflow, executor or call by its path (or built-in `name`); NULL if unknown. */
const struct flmem_nvflare_class *flmem_nvflare_class_of(const struct flmem_node *subject);

/* The class of a full path, also as a package exports it. */
const struct flmem_nvflare_class *flmem_nvflare_class_find(const char *path);

/* Whether a path is that of a module or package with such classes in it. */
bool flmem_nvflare_is_module(const char *path);

/* Whether a string of a script is a key of sys.modules, also in what changes that. */
bool flmem_nvflare_is_module_entry(const struct flmem_check *check, const struct flmem_node *text);

/* Whether the class sends again, with max_resends. */
bool flmem_nvflare_resends(const struct flmem_nvflare_class *known);

/*
 * Reports the first part of a job file that is of NVFlare but not in this table, if no part is in
 * it. `within`: the key of the part in an entry of `list`, or NULL.
 */
void flmem_nvflare_report_no_settings(struct flmem_check *check, const char *list,
				      const char *within);

/* The last name of a dotted class path. */
const char *flmem_nvflare_short_name(const char *path);

/* Whether the class has the argument in some version; `*ret_since` is the first, or NULL. */
bool flmem_nvflare_accepts(const struct flmem_nvflare_class *known, const char *name,
			   const char **ret_since);

/* Whether the version is known and below `bound`, or not below it. */
bool flmem_nvflare_is_before(const struct flmem_version_number *release, const char *bound);
bool flmem_nvflare_is_since(const struct flmem_version_number *release, const char *bound);

/* Arguments of a call in Python that are known only when it runs: "*" or "**"; NULL: none. */
const struct flmem_node *flmem_nvflare_open_args(const struct flmem_check *check);

/* The value of an argument; NULL when it is absent, which `open_args` may contradict. */
const struct flmem_node *flmem_nvflare_arg(const struct flmem_check *check, const char *name);

/* What a value is: the dictionary that the script assigns to its name, or itself; NULL for NULL. */
const struct flmem_node *flmem_nvflare_map(const struct flmem_check *check,
					   const struct flmem_node *value);

/* True for true, and for what Python takes as that. */
bool flmem_nvflare_is_on(const struct flmem_check *check, const char *name);

/*
 * The interval of a side that is in force: of the argument, or the default of the class. False
 * where it is not known, or the side has none. `*ret_node` is the value, or NULL when it is absent.
 */
bool flmem_nvflare_gc_rounds(const struct flmem_check *check, enum flmem_nvflare_side side,
			     int64_t *ret_rounds, const struct flmem_node **ret_node);

/* The overrides of a recipe for a side, with the name of that argument; NULL: none. */
const struct flmem_node *flmem_nvflare_overrides(const struct flmem_check *check,
						 enum flmem_nvflare_side side,
						 const char **ret_name);

/* Whether these may hold the key; `*ret_value` is then its value, NULL: not known. */
bool flmem_nvflare_is_overridden(const struct flmem_check *check, enum flmem_nvflare_side side,
				 const char *key, const struct flmem_node **ret_value);

/* The class that gets them; NULL: none is known. */
const struct flmem_nvflare_class *
flmem_nvflare_overridden_class(const struct flmem_nvflare_class *recipe,
			       enum flmem_nvflare_side side);

/*
 * Overrides of a recipe for a side, which win over its own arguments; NULL where there are none, or
 * only literal ones of other settings. `*ret_name` is the name of the argument.
 */
const struct flmem_node *flmem_nvflare_override(const struct flmem_check *check,
						enum flmem_nvflare_side side,
						const char **ret_name);

/* The name of the interval's argument; NULL where the class has none. */
const char *flmem_nvflare_gc_name(const struct flmem_check *check, enum flmem_nvflare_side side);

/* Reports on the key `name` of the subject's args, present (`node`) or not. */
void flmem_nvflare_report_arg(struct flmem_check *check, const char *name,
			      const struct flmem_node *node, struct flmem_remark remark);

/* The same for the interval of a side, also of a class that has no argument for it. */
void flmem_nvflare_report_gc(struct flmem_check *check, enum flmem_nvflare_side side,
			     struct flmem_remark remark);

/* Reports the interval of a side where the value in force is 0, with the reason where absent. */
void flmem_nvflare_report_gc_off(struct flmem_check *check, enum flmem_nvflare_side side,
				 const char *proposed);

/* A call and one of its arguments; zeroed before the first one. */
struct flmem_nvflare_config_at {
	const struct flmem_node *call, *config;
};

/*
 * The maps of outermost keys that a file holds: the file itself; in Python the dictionaries that it
 * adds to the configuration of a job. NULL after the last one.
 */
const struct flmem_node *flmem_nvflare_config_next(const struct flmem_check *check,
						   struct flmem_nvflare_config_at *at);

enum flmem_nvflare_format {
	FLMEM_NVFLARE_FORMAT_PYTORCH,
	FLMEM_NVFLARE_FORMAT_OTHER,
	FLMEM_NVFLARE_FORMAT_UNCLEAR, /* known only at run time */
};

/* The format in which the class sends tensors: that of its argument, or its default. */
enum flmem_nvflare_format flmem_nvflare_format_of(const struct flmem_check *check);

/* The format that a value names. */
enum flmem_nvflare_format flmem_nvflare_format_in(const struct flmem_node *value);

/* Whether the job of an executor, runner or recipe offloads the tensors that it sends. */
bool flmem_nvflare_offloads(const struct flmem_check *check);

/*
 * The values of per_site_config in a script: maps by site, or expressions. `*call` is NULL at
 * first. NULL after the last one.
 */
const struct flmem_node *flmem_nvflare_sites_next(const struct flmem_node *script,
						  const struct flmem_node **call);

/* The rounds of a workflow or recipe: its arguments', or the defaults of its class. */
bool flmem_nvflare_rounds(const struct flmem_check *check, int64_t *ret_start, int64_t *ret_count);

/* Whether its num_rounds is known, and 0 or less. */
bool flmem_nvflare_lacks_rounds(const struct flmem_check *check);

/* The most rounds of a workflow of the job, or of the checked script; false without any. */
bool flmem_nvflare_job_rounds(const struct flmem_check *check, int64_t *ret_rounds);

/* How often a client sends in a job in which no workflow has rounds. */
enum flmem_nvflare_sends {
	FLMEM_NVFLARE_SENDS_UNKNOWN,
	FLMEM_NVFLARE_SENDS_ONCE,
	FLMEM_NVFLARE_SENDS_VARY, /* once for each model that it evaluates */
};

enum flmem_nvflare_sends flmem_nvflare_job_sends(const struct flmem_check *check);

/* Whether a class has memory settings, or is a recipe that may have some, by its path. */
bool flmem_nvflare_is_settable(const char *path);

/* Reports such classes that a script replaces, and what makes their objects. */
void flmem_nvflare_report_constructors(struct flmem_check *check);

/*
 * Reports places where the name of such a class may be bound to something else before it is called.
 */
void flmem_nvflare_report_rebound_names(struct flmem_check *check);

#endif
