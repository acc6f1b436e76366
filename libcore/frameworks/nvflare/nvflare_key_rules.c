/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about keys as such: misspelt, duplicate, or of another version than the one in use. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "frameworks/appfl/appfl_rules.h"

#define NEAR	 2   /* letters that a misspelt key may differ in */
#define KEYS_MAX 256 /* of a map that is searched for duplicates */

/* Keys of args that affect memory, and their names in recipes, which job files do not accept. */
static const struct {
	const char *name;
	const char *recipe;
} keys[] = {
	{"memory_gc_rounds", "server_memory_gc_rounds"},
	{"memory_gc_rounds", "client_memory_gc_rounds"},
	{"cuda_empty_cache", NULL},
	{"enable_tensor_disk_offload", NULL},
	{"server_expected_format", NULL},
	{"max_resends", NULL},
};

static bool is_near(const char *key, const char *name)
{
	return strcmp(key, name) != 0 && flmem_text_distance(key, name) <= NEAR;
}

/* The key of args that a misspelt one resembles; NULL without such a key. */
static const char *meant(const char *key)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++)
		if (strcmp(key, keys[i].name) == 0)
			return NULL;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++)
		if (is_near(key, keys[i].name) || (keys[i].recipe && !strcmp(key, keys[i].recipe)))
			return keys[i].name;
	return NULL;
}

/* User-defined classes accept arguments of any name. */
static void key_unknown(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(check->args);
	char detail[64];

	if (!flmem_nvflare_class_of(check->subject))
		return;
	for (; n; n = n->next) {
		const char *name = n->key ? meant(n->key) : NULL;

		if (!name)
			continue;
		snprintf(detail, sizeof(detail), "did you mean %s", name);
		flmem_check_report(check, &(struct flmem_remark){.node = n, .detail = detail});
	}
}

static void key_unknown_above(struct flmem_check *check)
{
	static const char *const names[] = {"tensor_download_chunk_size", "np_download_chunk_size"};
	char detail[64];

	for (const struct flmem_node *n = flmem_node_first(check->subject); n; n = n->next) {
		for (size_t i = 0; n->key && i < FLMEM_ARRAY_SIZE(names); i++) {
			if (!is_near(n->key, names[i]))
				continue;
			snprintf(detail, sizeof(detail), "did you mean %s", names[i]);
			flmem_check_report(check,
					   &(struct flmem_remark){.node = n, .detail = detail});
		}
	}
}

static void gc_too_old(struct flmem_check *check)
{
	static const char *const names[] = {"memory_gc_rounds", "cuda_empty_cache"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		const struct flmem_node *node = flmem_node_get(check->args, names[i]);

		if (node && flmem_nvflare_class_of(check->subject))
			flmem_check_report(check, &(struct flmem_remark){.node = node});
	}
}

static void executor_too_new(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *path = flmem_node_get(check->subject, "path");

	if (known && path &&
	    strcmp(flmem_nvflare_short_name(known->path), "ClientAPIExecutor") == 0)
		flmem_check_report(check, &(struct flmem_remark){.node = path});
}

/* A later entry of the same map with the same key. */
static const struct flmem_node *twin_of(const struct flmem_node *node)
{
	for (const struct flmem_node *n = node->next; n; n = n->next)
		if (strcmp(n->key, node->key) == 0)
			return n;
	return NULL;
}

static void find_duplicates(struct flmem_check *check, const struct flmem_node *node)
{
	bool map = node->kind == FLMEM_NODE_MAP && node->last && node->last->index < KEYS_MAX;
	char detail[48];

	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next) {
		const struct flmem_node *twin = map ? twin_of(n) : NULL;

		if (twin) {
			snprintf(detail, sizeof(detail), "the other one is on line %u",
				 twin->key_place.line);
			flmem_check_report(check,
					   &(struct flmem_remark){.node = n, .detail = detail});
		}
		find_duplicates(check, n);
	}
}

/* In HOCON a later key is meant to replace or extend an earlier one. */
static void key_twice(struct flmem_check *check)
{
	if (check->input->document.syntax != FLMEM_SYNTAX_HOCON)
		find_duplicates(check, check->subject);
}

#define NVFLARE	    .framework = FLMEM_FRAMEWORK_NVFLARE
#define SERVER_FILE &flmem_nvflare_server_file
#define CLIENT_FILE &flmem_nvflare_client_file
#define APPFL_FILES &flmem_appfl_server_file, &flmem_appfl_client_file
#define META_FILE   &flmem_nvflare_meta_file

static const struct flmem_rule_row rows[] = {
	{
		.rule = {.id = "NVF-KEY-UNKNOWN",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition = "an argument of an NVFlare class whose name resembles that "
				      "of a memory setting, or is the recipe's name for it",
			 .message = "the class has no argument with this name, so the job does not "
				    "load",
			 .source = "NVFlare code, 2.7.2 to 2.9"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.parts = true,
		.check = key_unknown,
	},
	{
		.rule = {.id = "NVF-KEY-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "an outermost key whose name resembles "
				      "tensor_download_chunk_size or np_download_chunk_size",
			 .message = "NVFlare does not read a key with this name, so the default "
				    "applies",
			 .source = "NVFlare code, 2.7.2 to 2.9"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.check = key_unknown_above,
	},
	{
		.rule = {.id = "NVF-GC-TOO-OLD",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .before = "2.7.2",
			 .certain = true,
			 .condition =
				 "memory_gc_rounds or cuda_empty_cache in a job for a version that "
				 "lacks them",
			 .message = "NVFlare supports this argument from 2.7.2 on; the job does "
				    "not load in older versions",
			 .source = "NVFlare code, 2.7.0 to 2.7.2"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.parts = true,
		.check = gc_too_old,
	},
	{
		.rule = {.id = "NVF-EXECUTOR-TOO-NEW",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .before = "2.9",
			 .certain = true,
			 .condition = "ClientAPIExecutor in a job for a version that lacks it",
			 .message = "NVFlare 2.9 introduced this executor; export the job with the "
				    "version that runs it",
			 .source = "NVFlare 2.9 in development"},
		.inputs = {CLIENT_FILE},
		.parts = true,
		.check = executor_too_new,
	},
	{
		.rule = {.id = "KEY-TWICE",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .condition = "a key that occurs twice in one map of a JSON or YAML file",
			 .message = "duplicate key: only the last one takes effect, this one is "
				    "ignored",
			 .source = "Python's json and yaml modules"},
		.inputs = {SERVER_FILE, CLIENT_FILE, META_FILE, APPFL_FILES},
		.check = key_twice,
	},
};

const struct flmem_rule_table flmem_nvflare_key_rules = {rows, FLMEM_ARRAY_SIZE(rows)};
