/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about keys that are misspelt, or of another version than the one in use. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define NEAR 2 /* letters in which a misspelt key may differ */

#define CLEAR_CACHE "clear_cache"

#define RESOURCES &flmem_nvflare_resources_file /* file of a site */

/* Other arguments of executors that a key may be meant to be. */
static const char *const nvflare_key_other_names[] = {"server_expected_format", "max_resends",
						      NULL};

/* Outermost keys of the files of both sides, which are not arguments of any class. */
static const char *const outer_names[] = {"tensor_download_chunk_size", "np_download_chunk_size",
					  NULL};

/*
 * Whether a key and a name differ only in underscores and in upper or lower case: memoryGcRounds.
 */
static bool has_same_letters(const char *key, const char *name)
{
	do {
		key += strspn(key, "_");
		name += strspn(name, "_");
		if (strncasecmp(key, name, 1) != 0)
			return false;
	} while (*key++ && *name++);
	return true;
}

static bool is_near(const char *key, const char *name)
{
	return strcmp(key, name) != 0 &&
	       (flmem_text_distance(key, name) <= NEAR || has_same_letters(key, name));
}

static const char *near_one(const char *key, const char *const *names)
{
	for (; *names; names++)
		if (is_near(key, *names))
			return *names;
	return NULL;
}

/*
 * Whether a key has a word that only names of memory settings have, of all arguments of NVFlare's
 * classes (2.7.2 to 2.9.0).
 */
static bool is_about_memory(const char *key)
{
	static const char *const words[] = {"malloc", "_gc",	     "gc_",
					    "cuda",   "empty_cache", "offload"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(words); i++)
		if (strcasestr(key, words[i]))
			return true;
	return false;
}

/*
 * The argument of a class for an interval that a key is meant to be; for a recipe, that of the side
 * which the key names. NULL: none.
 */
static const char *meant_interval(const struct flmem_nvflare_class *known, const char *key)
{
	const char *server = known->intervals[FLMEM_NVFLARE_SERVER].arg,
		   *client = known->intervals[FLMEM_NVFLARE_CLIENT].arg;
	bool recipe = known->part == FLMEM_NVFLARE_RECIPE;

	if (!strcasestr(key, "gc"))
		return NULL;
	if (recipe && strcasestr(key, "client"))
		return client;
	if (recipe && strcasestr(key, "server"))
		return server;
	return server && client ? "server_memory_gc_rounds or client_memory_gc_rounds"
	       : server		? server
				: client;
}

/* The argument of a class that a key is meant to be, by its words: empty_cuda_cache. NULL: none. */
static const char *meant_setting(const struct flmem_nvflare_class *known, const char *key)
{
	static const char *const names[][2] = {{"cuda", "cuda_empty_cache"},
					       {"empty_cache", "cuda_empty_cache"},
					       {"offload", "enable_tensor_disk_offload"}};
	const char *since;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcasestr(key, names[i][0]) && strcmp(key, names[i][1]) != 0 &&
		    flmem_nvflare_accepts(known, names[i][1], &since))
			return names[i][1];
	return meant_interval(known, key);
}

/*
 * Writes what a key that the class lacks is meant to be: another argument, a key elsewhere, or
 * none.
 */
static void put_meant(const struct flmem_nvflare_class *known, const char *key, char *out,
		      size_t size)
{
	const char *other = near_one(key, flmem_nvflare_names), *meant, *since;

	if (!other)
		other = near_one(key, nvflare_key_other_names);
	meant = other && flmem_nvflare_accepts(known, other, &since) ? other
								     : meant_setting(known, key);
	if (flmem_text_is_one_of(key, outer_names))
		snprintf(out, size, "it is an outermost key of the file");
	else if (strcmp(key, CLEAR_CACHE) == 0)
		snprintf(out, size, "it is an argument of send()");
	else if (meant)
		snprintf(out, size, "did you mean %s", meant);
	else if (flmem_text_is_one_of(key, flmem_nvflare_names) ||
		 flmem_text_is_one_of(key, nvflare_key_other_names) || is_about_memory(key))
		snprintf(out, size, "%s has no such setting",
			 flmem_nvflare_short_name(known->path));
	else
		snprintf(out, size, "did you mean %s", other ? other : "another name");
}

/*
 * Whether a class accepts arguments that are not in the table: recipes and runners pass these on.
 */
static bool accepts_other(const struct flmem_nvflare_class *known, const char *key)
{
	if (strcmp(key, "max_resends") == 0)
		return flmem_nvflare_resends(known);
	return known->part != FLMEM_NVFLARE_CONTROLLER &&
	       known->part != FLMEM_NVFLARE_SWARM_EXECUTOR &&
	       flmem_text_is_one_of(key, nvflare_key_other_names);
}

/* Whether a class lacks an argument of a name that is about memory. */
static bool is_unknown(const struct flmem_nvflare_class *known, const char *key)
{
	const char *since;

	if (flmem_nvflare_accepts(known, key, &since) || accepts_other(known, key))
		return false;
	return flmem_text_is_one_of(key, flmem_nvflare_names) ||
	       flmem_text_is_one_of(key, nvflare_key_other_names) ||
	       flmem_text_is_one_of(key, outer_names) || is_about_memory(key) ||
	       strcmp(key, CLEAR_CACHE) == 0 || near_one(key, flmem_nvflare_names) ||
	       near_one(key, nvflare_key_other_names);
}

/* Reports keys in overrides, which are arguments of another class. */
static void unknown_overrides(struct flmem_check *check, const struct flmem_nvflare_class *recipe)
{
	char detail[128], path[96];
	const char *name;

	for (int side = 0; side < FLMEM_NVFLARE_SIDES; side++) {
		enum flmem_nvflare_side one = (enum flmem_nvflare_side)side;
		const struct flmem_nvflare_class *known =
			flmem_nvflare_overridden_class(recipe, one);
		const struct flmem_node *n =
			flmem_node_first(flmem_nvflare_overrides(check, one, &name));

		for (; known && n; n = n->next) {
			if (!is_unknown(known, n->key))
				continue;
			put_meant(known, n->key, detail, sizeof(detail));
			snprintf(path, sizeof(path), "%s.%.64s", name, n->key);
			flmem_nvflare_report_arg(check, path, n,
						 (struct flmem_remark){.detail = detail});
		}
	}
}

/* Not for classes of the user, which accept arguments of any name. */
static void key_unknown(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *n = flmem_node_first(check->args);
	char detail[128];

	for (; known && n; n = n->next) {
		if (!n->key || !is_unknown(known, n->key))
			continue;
		put_meant(known, n->key, detail, sizeof(detail));
		flmem_nvflare_report_arg(check, n->key, n, (struct flmem_remark){.detail = detail});
	}
	if (known && check->input->kind == &flmem_nvflare_python_file)
		unknown_overrides(check, known);
}

/*
 * Reports an argument that only later versions have. If the version is not known, it states from
 * which version on.
 */
static void key_too_new(struct flmem_check *check)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *n = flmem_node_first(check->args);
	char detail[96];

	for (; known && n; n = n->next) {
		const char *since = NULL;

		if (!n->key || !flmem_nvflare_accepts(known, n->key, &since) || !since ||
		    since == known->since || flmem_nvflare_is_since(&check->release, since))
			continue;
		snprintf(detail, sizeof(detail), "%s has it from %s on",
			 flmem_nvflare_short_name(known->path), since);
		flmem_nvflare_report_arg(
			check, n->key, n,
			(struct flmem_remark){.detail = detail,
					      .severity = check->release.count ? NULL : &info});
	}
}

/*
 * Whether a key is meant to be this chunk size: it has "download_chunk" in it, as
 * "tensor_download_chunk" does, and if it begins with n or t, the name does, too.
 */
static bool is_shortened(const char *key, const char *name)
{
	bool other = *key == 'n' || *key == 't';

	return strstr(key, "download_chunk") && (other ? *key == *name : *name == 't') &&
	       strcmp(key, name) != 0;
}

static void keys_unknown_in(struct flmem_check *check, const struct flmem_node *map)
{
	static const char *const names[] = {"tensor_download_chunk_size", "np_download_chunk_size"};
	char detail[64];

	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next) {
		for (size_t i = 0; n->key && i < FLMEM_ARRAY_SIZE(names); i++) {
			if (!is_near(n->key, names[i]) && !is_shortened(n->key, names[i]))
				continue;
			snprintf(detail, sizeof(detail), "did you mean %s", names[i]);
			flmem_check_report(check, &(struct flmem_remark){.node = n,
									 .path = n->key,
									 .detail = detail});
		}
	}
}

/* Whether any value of the file refers to an outermost key, as "{name}" or ${name}. */
static bool is_referred_to(const struct flmem_check *check, const char *name)
{
	char reference[64];

	snprintf(reference, sizeof(reference), "{%s}", name);
	return strstr(check->input->document.text.data, reference);
}

/*
 * Reports settings of a class among the outermost keys, which NVFlare reads only through
 * references.
 */
static void misplaced_in(struct flmem_check *check, const struct flmem_node *map)
{
	for (const char *const *name = flmem_nvflare_names; *name; name++) {
		const struct flmem_node *node = flmem_node_get(map, *name);

		if (node && !is_referred_to(check, *name))
			flmem_check_report(
				check,
				&(struct flmem_remark){
					.node = node,
					.path = *name,
					.detail = "it is an argument of a class: move it there"});
	}
}

/* Reports settings of a job in a file of a site. */
static void check_site_keys(struct flmem_check *check)
{
	for (const struct flmem_node *n = flmem_node_first(check->subject); n; n = n->next)
		if (n->key && flmem_text_is_one_of(n->key, outer_names))
			flmem_check_report(
				check,
				&(struct flmem_remark){
					.node = n,
					.path = n->key,
					.detail = "it is an outermost key of config_fed_server and "
						  "config_fed_client of the job"});
	misplaced_in(check, check->subject);
}

static void key_unknown_above(struct flmem_check *check)
{
	struct flmem_nvflare_config_at at = {0};
	const struct flmem_node *map;

	if (check->kind == RESOURCES)
		check_site_keys(check);
	while (check->kind != RESOURCES && (map = flmem_nvflare_config_next(check, &at))) {
		keys_unknown_in(check, map);
		misplaced_in(check, map);
	}
}

static void gc_too_old(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const char *since;

	for (const char *const *name = flmem_nvflare_names; known && *name; name++) {
		const struct flmem_node *node = flmem_nvflare_arg(check, *name);
		char detail[64];

		if (!node || !flmem_nvflare_accepts(known, *name, &since))
			continue;
		snprintf(detail, sizeof(detail), "it has it from %s on", since ? since : "2.7.2");
		flmem_nvflare_report_arg(check, *name, node,
					 (struct flmem_remark){.detail = detail});
	}
}

static void class_too_new(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *path = flmem_nvflare_path(check->subject);
	char detail[96];

	if (!known || !known->since || !path ||
	    !flmem_nvflare_is_before(&check->release, known->since))
		return;
	snprintf(detail, sizeof(detail), "%s is in %s and later",
		 flmem_nvflare_short_name(known->path), known->since);
	flmem_check_report(check, &(struct flmem_remark){.node = path, .detail = detail});
}

/*
 * Reports a file without workflow or executor: there is nothing to check, and NVFlare runs nothing.
 */
static void parts_missing(struct flmem_check *check)
{
	const char *name = check->input->kind->parts;
	const struct flmem_node *parts = flmem_node_get(check->subject, name);

	if (flmem_node_is_kind(parts, FLMEM_NODE_LIST) && parts->first)
		return;
	flmem_check_report(check, &(struct flmem_remark){.node = parts ? parts : check->subject,
							 .missing = parts ? NULL : name});
}

#define PYTHON	    &flmem_nvflare_python_file
#define NVFLARE	    .framework = FLMEM_FRAMEWORK_NVFLARE
#define SERVER_FILE &flmem_nvflare_server_file
#define CLIENT_FILE &flmem_nvflare_client_file

static const struct flmem_rule_row nvflare_key_rows[] = {
	{
		.rule = {.id = "NVF-KEY-UNKNOWN",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition = "an argument that an NVFlare class lacks and whose name is "
				      "or resembles that of a memory setting: misspelt, of another "
				      "class, or a recipe's name in a job file; also in the "
				      "overrides of a cyclic or swarm recipe",
			 .message = "the class has no argument with this name, so the job does not "
				    "load; "
				    "correct the name, or remove it",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {SERVER_FILE, CLIENT_FILE, PYTHON},
		.parts = true,
		.check = key_unknown,
	},
	{
		.rule = {.id = "NVF-KEY-TOO-NEW",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "enable_tensor_disk_offload of a class that has it only from "
				      "2.8 or 2.9 on (for information where the version is not "
				      "known)",
			 .message = "older versions refuse this argument with a TypeError; "
				    "remove it where one of them runs the job",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {SERVER_FILE, CLIENT_FILE, PYTHON},
		.parts = true,
		.check = key_too_new,
	},
	{
		.rule = {.id = "NVF-KEY-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "an outermost key whose name resembles "
				      "tensor_download_chunk_size or np_download_chunk_size, or "
				      "that has the name of an argument of a class and to which no "
				      "value refers; any of them in resources.json and the like of "
				      "a kit",
			 .message = "NVFlare does not read a key with this name here, so the "
				    "default applies; "
				    "correct its name or its place, or remove it",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {SERVER_FILE, CLIENT_FILE, PYTHON, RESOURCES},
		.check = key_unknown_above,
	},
	{
		.rule = {.id = "NVF-GC-TOO-OLD",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .before = "2.7.2",
			 .certain = true,
			 .condition =
				 "memory_gc_rounds, cuda_empty_cache or enable_tensor_disk_offload "
				 "in a job for a version before 2.7.2",
			 .message = "the class does not have this argument in this version, so the "
				    "job does not load; "
				    "remove it, or run the job with 2.7.2 or later",
			 .source = "NVFlare code, 2.7.0 to 2.7.2"},
		.inputs = {SERVER_FILE, CLIENT_FILE, PYTHON},
		.parts = true,
		.check = gc_too_old,
	},
	{
		.rule = {.id = "NVF-EXECUTOR-TOO-NEW",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .before = "2.9",
			 .certain = true,
			 .condition = "ClientAPIExecutor, or a recipe of 2.9, in a job for a "
				      "version that lacks it",
			 .message = "NVFlare 2.9 introduced this class; make and export the job "
				    "with the version that runs it",
			 .source = "NVFlare code, 2.8.3 and 2.9.0"},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = class_too_new,
	},
	{
		.rule = {.id = "NVF-PARTS-MISSING",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition = "config_fed_server without workflows, config_fed_client "
				      "without executors",
			 .message = "NVFlare refuses the job: nothing is specified to run",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.check = parts_missing,
	},
};

const struct flmem_rule_table flmem_nvflare_key_rules = {nvflare_key_rows,
							 FLMEM_ARRAY_SIZE(nvflare_key_rows)};
