/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves references in APPFL's YAML as OmegaConf 2.4.0 does: "${a.b}" is the value at a.b of the
 * same file, "${.b}" that of the same map, "${..b}" that of the map around it. "${oc.env:NAME}" and
 * other resolvers, texts with something around the reference, and references in references are
 * known only when a job runs.
 */
#include "frameworks/appfl/appfl_rules.h"

#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/text/text.h"

#define REFERENCES_MAX 8   /* references to references that are followed */
#define PATH_MAX_BYTES 256 /* bytes of a reference */

bool flmem_appfl_is_interpolation(const struct flmem_node *node)
{
	const char *text = flmem_node_string(node);

	return text && strstr(text, "${");
}

bool flmem_appfl_is_environment(const struct flmem_node *node)
{
	const char *text = flmem_node_string(node);

	return text && flmem_text_starts(text, "${oc.env:") && !strstr(text + 1, "${") &&
	       strchr(text, '}') == text + strlen(text) - 1;
}

/* Copies the path of a value that is one reference and nothing else. Returns false for others. */
static bool read_reference(const char *text, char ret_path[PATH_MAX_BYTES])
{
	size_t length = strlen(text);

	if (length < 4 || length >= PATH_MAX_BYTES || !flmem_text_starts(text, "${") ||
	    text[length - 1] != '}')
		return false;
	text += 2 + strspn(text + 2, " ");
	length = strcspn(text, " :${}");
	memcpy(ret_path, text, length);
	ret_path[length] = '\0';
	text += length;
	return length && !text[strspn(text, " }")] && strchr(text, '}') == text + strlen(text) - 1;
}

/* The entry of a map by its key, or of a list by its index. */
static const struct flmem_node *entry_of(const struct flmem_node *node, const char *key)
{
	const struct flmem_node *n = flmem_node_first(node);
	uint64_t index;

	if (!flmem_node_is_kind(node, FLMEM_NODE_LIST))
		return flmem_node_get(node, key);
	if (flmem_parse_u64(key, 0, SIZE_MAX, &index, NULL))
		return NULL;
	while (n && n->index != index)
		n = n->next;
	return n;
}

static const struct flmem_node *follow_references(const struct flmem_node *node, int left);

/* The value at "a.b", "a[b]" or "a[0].b" below a node; NULL if there is none. */
static const struct flmem_node *follow_path(const struct flmem_node *node, char *path, int left)
{
	char *rest = NULL;

	for (const char *key = strtok_r(path, ".[]", &rest); node && key;
	     key = strtok_r(NULL, ".[]", &rest)) {
		node = follow_references(node, left);
		node = node ? entry_of(node, key) : NULL;
	}
	return node;
}

/* The node at which a path starts: the root, or for leading dots, as many maps above the value. */
static const struct flmem_node *start_of(const struct flmem_node *node, const char *path)
{
	size_t dots = strspn(path, ".");

	for (size_t i = 0; node->parent && (!dots || i < dots); i++)
		node = node->parent;
	return node;
}

static const struct flmem_node *follow_references(const struct flmem_node *node, int left)
{
	char path[PATH_MAX_BYTES];

	if (flmem_node_string(node) && strcmp(node->text, "???") == 0)
		return NULL; /* the value has to be set elsewhere */
	if (!flmem_appfl_is_interpolation(node))
		return node;
	if (!left || !read_reference(node->text, path))
		return NULL;
	node = follow_path(start_of(node, path), path, left - 1);
	return node ? follow_references(node, left - 1) : NULL;
}

const struct flmem_node *flmem_appfl_value(const struct flmem_node *node)
{
	return node ? follow_references(node, REFERENCES_MAX) : NULL;
}

const struct flmem_node *flmem_appfl_get(const struct flmem_node *map, const char *key)
{
	return flmem_appfl_value(flmem_node_get(map, key));
}

const struct flmem_node *flmem_appfl_at(const struct flmem_node *map, const char *const *keys)
{
	for (; map && *keys; keys++)
		map = flmem_appfl_get(map, *keys);
	return map;
}

bool flmem_appfl_is_referred_to(const struct flmem_check *check, const char *key)
{
	const char *at = check->input->document.text.data;
	size_t length = strlen(key);

	while ((at = strstr(at, "${"))) {
		at += 2 + strspn(at + 2, " .");
		if (strncmp(at, key, length) == 0 && strchr("}.[ ", at[length]))
			return true;
	}
	return false;
}

/* A value that rules read, and the rules that cannot be applied if it is not known. */
struct needed_value {
	/* Keys from the root of a file of a server, or of both sides; ends in NULL. */
	const char *places[5];
	const char *key;
	const char *rules;
};

#define CHUNK_RULES                                                              \
	"APPFL-CHUNK-OFF, APPFL-CHUNK-NOOP, APPFL-CHUNK-ONE-SIDED, APPFL-CHUNK-" \
	"SIZE-MISMATCH, APPFL-CHUNK-AGGREGATOR, APPFL-CHUNK-SECAGG"
#define ALL_RULES "those about its keys"

/* "" stands for the map that holds comm_configs. */
static const struct needed_value needed[] = {
	{{"", "comm_configs", "grpc_configs"}, "use_model_chunking", CHUNK_RULES},
	{{"", "comm_configs", "grpc_configs"},
	 "model_chunk_size",
	 "APPFL-CHUNK-NOOP, APPFL-CHUNK-SIZE-MISMATCH"},
	{{"", "comm_configs", "grpc_configs"}, "max_message_size", "APPFL-MSGSIZE"},
	{{"", "comm_configs", "grpc_configs"}, "use_polling", "APPFL-POLLING-HOLDS"},
	{{"", "comm_configs"}, "grpc_configs", ALL_RULES},
	{{""}, "comm_configs", ALL_RULES},
	{{"server_configs"}, "aggregator", "APPFL-CHUNK-AGGREGATOR"},
	{{"server_configs"}, "aggregator_kwargs", ALL_RULES},
	{{"server_configs"}, "scheduler_kwargs", ALL_RULES},
	{{"server_configs", "aggregator_kwargs"}, "use_secure_agg", "APPFL-CHUNK-SECAGG"},
	{{"client_configs"}, "train_configs", ALL_RULES},
	{{NULL}, "train_configs", ALL_RULES},
	{{NULL}, "client_configs", ALL_RULES},
	{{NULL}, "server_configs", ALL_RULES},
	{{"client_configs", "model_configs", "model_kwargs"},
	 "model_name",
	 "APPFL-CHUNK-OFF, APPFL-CHUNK-NOOP"},
};

static void report_needed(struct flmem_check *check, const struct flmem_node *map, const char *key,
			  const char *rules)
{
	const struct flmem_node *node = flmem_node_get(map, key);
	char path[PATH_MAX_BYTES], detail[320];
	bool absent;

	if (!node || flmem_appfl_value(node))
		return;
	absent = strcmp(node->text, "???") != 0 && read_reference(node->text, path);
	snprintf(detail, sizeof(detail), "not checked: %s%s", rules,
		 absent ? "; no key of this file has this name" : "");
	flmem_check_report(check, &(struct flmem_remark){.node = node, .detail = detail});
}

void flmem_appfl_check_references(struct flmem_check *check)
{
	const struct flmem_node *root = check->input->document.root;
	const struct flmem_node *own = check->input->kind == &flmem_appfl_server_file
					       ? flmem_appfl_get(root, "server_configs")
					       : root;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(needed); i++) {
		const char *const *places = needed[i].places;
		bool of_own = places[0] && !*places[0];

		report_needed(check, flmem_appfl_at(of_own ? own : root, places + of_own),
			      needed[i].key, needed[i].rules);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(flmem_appfl_memory_places); i++)
		report_needed(check, flmem_appfl_at(root, flmem_appfl_memory_places[i]),
			      "optimize_memory", "APPFL-OPTMEM-OFF, APPFL-OPTMEM-SPLIT");
}
