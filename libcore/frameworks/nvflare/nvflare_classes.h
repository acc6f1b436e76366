/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASSES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASSES_H

/*
 * NVFlare's classes whose arguments set memory: those in job files, and the recipes, runners and
 * controllers that Python calls to make a job. A job file holds an argument only if it differs from
 * the default of the class (job export compares the two), so a missing key means that default.
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

/* How the interval between cleanups of one side is set, in rounds. */
struct flmem_nvflare_interval {
	bool exists;	  /* this side cleans up */
	const char *arg;  /* name of the argument; NULL: the default always applies */
	int64_t fallback; /* the default */
};

/* Value of `rounds` for a class whose num_rounds has no default. */
#define FLMEM_NVFLARE_ROUNDS_REQUIRED (-1)

/* A class and its arguments. */
struct flmem_nvflare_class {
	const char *path;
	const char *package; /* package that exports the name, too; NULL: none */
	const char *since;   /* first version with the class; NULL: 2.7.2 or before */
	const char *before;  /* first version without it; NULL: none */
	/* Default of num_rounds; 0: no such argument; or FLMEM_NVFLARE_ROUNDS_REQUIRED. */
	int64_t rounds;
	int64_t sends;	       /* times that a client sends in a job without rounds; 0: not known */
	bool sends_vary;       /* the models of the job decide how often a client sends */
	const char *rounds_at; /* position of num_rounds, as a key; NULL: none */
	/* First version with the argument enable_tensor_disk_offload; NULL: none. */
	const char *offload;
	const char *format; /* name of the argument with the format of tensors; NULL: none */
	struct flmem_nvflare_interval intervals[FLMEM_NVFLARE_SIDES];
	enum flmem_nvflare_part part;
	bool pytorch;	    /* the default of `format` is PyTorch's */
	bool cuda;	    /* has the argument cuda_empty_cache */
	bool gc_ignored;    /* accepts an interval but never cleans up */
	bool server_cleans; /* a recipe without settings whose server cleans up every round */
	bool converts;	    /* pydantic converts numbers in strings, and booleans, to integers */
};

/* Names of arguments that set memory; ends in NULL. */
extern const char *const flmem_nvflare_names[];

/* The full name of the function or class of a call or part; "" if it has none. */
const char *flmem_nvflare_path_text(const struct flmem_node *call);

/* The first entry of a list in the tree of the checked script (python_calls.h); NULL: empty. */
const struct flmem_node *flmem_nvflare_first(const struct flmem_check *check, const char *list);

/*
 * The node with the full name of a class, by NVFlare's order of keys: `path`, or `class_path`;
 * NULL: none.
 */
const struct flmem_node *flmem_nvflare_path(const struct flmem_node *subject);

/*
 * The class of a workflow, executor or call, by its path or its built-in `name`; NULL if not in the
 * table.
 */
const struct flmem_nvflare_class *flmem_nvflare_class_of(const struct flmem_node *subject);

/* The class with a full path, also one by which a package exports it; NULL if not in the table. */
const struct flmem_nvflare_class *flmem_nvflare_class_find(const char *path);

/* Whether a path is a module or package that contains such a class. */
bool flmem_nvflare_is_module(const char *path);

/* Whether a string of a script is a key of sys.modules, also in a call that changes it. */
bool flmem_nvflare_is_module_entry(const struct flmem_check *check, const struct flmem_node *text);

/* Whether objects of the class send again, as max_resends sets. */
bool flmem_nvflare_resends(const struct flmem_nvflare_class *known);

/*
 * Reports that no part of a job file is in this table, at the first part that is a class of
 * NVFlare. `within`: the key of the part in an entry of `list`, or NULL.
 */
void flmem_nvflare_report_no_settings(struct flmem_check *check, const char *list,
				      const char *within);

/* The last part of a dotted path. */
const char *flmem_nvflare_short_name(const char *path);

/*
 * Whether the class has the argument in some version. *ret_since is the first one, or NULL for all.
 */
bool flmem_nvflare_accepts(const struct flmem_nvflare_class *known, const char *name,
			   const char **ret_since);

/* Whether the release is known, and below `bound`, or at least `bound`. */
bool flmem_nvflare_is_before(const struct flmem_version_number *release, const char *bound);
bool flmem_nvflare_is_since(const struct flmem_version_number *release, const char *bound);

/*
 * The node "*" or "**" of a call in Python, whose arguments are known only when it runs; NULL:
 * none.
 */
const struct flmem_node *flmem_nvflare_open_args(const struct flmem_check *check);

/*
 * The value of an argument of the checked part; NULL if it is absent. In Python,
 * flmem_nvflare_open_args() may still hold it.
 */
const struct flmem_node *flmem_nvflare_arg(const struct flmem_check *check, const char *name);

/*
 * The dictionary that the script assigns to the name that a value is; else the value itself. NULL
 * for NULL.
 */
const struct flmem_node *flmem_nvflare_map(const struct flmem_check *check,
					   const struct flmem_node *value);

/* Whether an argument is true, or a value that Python takes as true. */
bool flmem_nvflare_is_on(const struct flmem_check *check, const char *name);

/*
 * Reads the interval of a side that is in force: the argument, or the default of the class. Returns
 * false if it is not known, or if the side does not clean up. *ret_node is the value, NULL if
 * absent.
 */
bool flmem_nvflare_gc_rounds(const struct flmem_check *check, enum flmem_nvflare_side side,
			     int64_t *ret_rounds, const struct flmem_node **ret_node);

/* The argument of a recipe with overrides for a side, and its name; NULL if there is none. */
const struct flmem_node *flmem_nvflare_overrides(const struct flmem_check *check,
						 enum flmem_nvflare_side side,
						 const char **ret_name);

/*
 * Whether the overrides for a side may hold the key. *ret_value is then its value; NULL: not known.
 */
bool flmem_nvflare_is_overridden(const struct flmem_check *check, enum flmem_nvflare_side side,
				 const char *key, const struct flmem_node **ret_value);

/* The class that gets the overrides of a recipe; NULL if it is not known. */
const struct flmem_nvflare_class *
flmem_nvflare_overridden_class(const struct flmem_nvflare_class *recipe,
			       enum flmem_nvflare_side side);

/*
 * The overrides of a recipe for a side, which take precedence over its own arguments; NULL if there
 * are none, or only literal ones of other settings. *ret_name is the name of the argument.
 */
const struct flmem_node *flmem_nvflare_override(const struct flmem_check *check,
						enum flmem_nvflare_side side,
						const char **ret_name);

/* The name of the argument for the interval of a side; NULL if the class has none. */
const char *flmem_nvflare_gc_name(const struct flmem_check *check, enum flmem_nvflare_side side);

/* Reports a remark about the argument `name` of the checked part, present (`node`) or not. */
void flmem_nvflare_report_arg(struct flmem_check *check, const char *name,
			      const struct flmem_node *node, struct flmem_remark remark);

/* Reports a remark about the interval of a side, also for a class without an argument for it. */
void flmem_nvflare_report_gc(struct flmem_check *check, enum flmem_nvflare_side side,
			     struct flmem_remark remark);

/*
 * Reports that the interval in force for a side is 0; if the argument is absent, with the reason.
 */
void flmem_nvflare_report_gc_off(struct flmem_check *check, enum flmem_nvflare_side side,
				 const char *proposed);

/* A position among the maps of flmem_nvflare_config_next(); zero it before the first call. */
struct flmem_nvflare_config_at {
	const struct flmem_node *call, *config;
};

/*
 * The next map of outermost keys: a job file itself, or a dictionary that a script adds to the
 * configuration of a job. NULL after the last one.
 */
const struct flmem_node *flmem_nvflare_config_next(const struct flmem_check *check,
						   struct flmem_nvflare_config_at *at);

enum flmem_nvflare_format {
	FLMEM_NVFLARE_FORMAT_PYTORCH,
	FLMEM_NVFLARE_FORMAT_OTHER,
	FLMEM_NVFLARE_FORMAT_UNCLEAR, /* known only when the job runs */
};

/* The format in which the checked class sends tensors: that of its argument, or its default. */
enum flmem_nvflare_format flmem_nvflare_format_of(const struct flmem_check *check);

/* The format that a value names. */
enum flmem_nvflare_format flmem_nvflare_format_in(const struct flmem_node *value);

/* Whether the job of an executor, runner or recipe offloads tensors that it sends. */
bool flmem_nvflare_offloads(const struct flmem_check *check);

/*
 * The next value of per_site_config in a script: a map by site, or an expression. *call is NULL
 * before the first call. NULL after the last one.
 */
const struct flmem_node *flmem_nvflare_sites_next(const struct flmem_node *script,
						  const struct flmem_node **call);

/*
 * Reads the rounds of a workflow or recipe: by its arguments, or the defaults of its class. Returns
 * false if they are not known.
 */
bool flmem_nvflare_rounds(const struct flmem_check *check, int64_t *ret_start, int64_t *ret_count);

/* Whether num_rounds of the checked part is known, and 0 or less. */
bool flmem_nvflare_lacks_rounds(const struct flmem_check *check);

/*
 * Reads the most rounds of any workflow of the job, or of the checked script. Returns false if none
 * has known rounds.
 */
bool flmem_nvflare_job_rounds(const struct flmem_check *check, int64_t *ret_rounds);

/* How often a client sends if no workflow of the job has rounds. */
enum flmem_nvflare_sends {
	FLMEM_NVFLARE_SENDS_UNKNOWN,
	FLMEM_NVFLARE_SENDS_ONCE,
	FLMEM_NVFLARE_SENDS_VARY, /* once for each model that it evaluates */
};

enum flmem_nvflare_sends flmem_nvflare_job_sends(const struct flmem_check *check);

/* Whether the class of this path has memory settings, or is a recipe that may have some. */
bool flmem_nvflare_is_settable(const char *path);

/* Reports where a script replaces such a class, or the method that initialises its objects. */
void flmem_nvflare_report_constructors(struct flmem_check *check);

/* Reports where the name of such a class may be bound to something else before it is called. */
void flmem_nvflare_report_rebound_names(struct flmem_check *check);

#endif
