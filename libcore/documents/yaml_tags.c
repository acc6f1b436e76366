/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/yaml_tags.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define OWN   "tag:yaml.org,2002:"
#define PATHS OWN "python/object/apply:pathlib."

/*
 * Whether OmegaConf accepts a tag for a kind. PyYAML's SafeLoader also reads !!set and !!timestamp,
 * whose values OmegaConf refuses.
 */
static bool is_tag_of_kind(const char *name, enum flmem_node_kind kind)
{
	static const char *const scalars[] = {"str",  "int",	"float", "bool",
					      "null", "binary", NULL};
	static const char *const lists[] = {"seq", "omap", "pairs", NULL};

	if (kind == FLMEM_NODE_MAP)
		return strcmp(name, "map") == 0;
	return flmem_text_is_one_of(name, kind == FLMEM_NODE_LIST ? lists : scalars);
}

/*
 * Whether the constructor of a tag cannot convert the text. That of !!int converts 0o17, which is a
 * string in YAML 1.1.
 */
static bool has_wrong_value(const struct flmem_node *node, const char *name)
{
	if (node->kind != FLMEM_NODE_STRING)
		return false;
	return strcmp(name, "bool") == 0 ||
	       (strcmp(name, "int") == 0 && !flmem_text_starts(node->text, "0o"));
}

static bool is_tag_refused(const struct flmem_node *node)
{
	const char *tag = node->tag;

	if (!tag || (flmem_text_starts(tag, PATHS) && node->kind == FLMEM_NODE_LIST))
		return false;
	if (!flmem_text_starts(tag, OWN))
		return true;
	tag += strlen(OWN);
	return !is_tag_of_kind(tag, node->kind) || has_wrong_value(node, tag);
}

void flmem_yaml_tags_find_refused(const struct flmem_node *node,
				  void (*report)(const struct flmem_node *node, void *context),
				  void *context)
{
	if (is_tag_refused(node))
		report(node, context);
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		flmem_yaml_tags_find_refused(n, report, context);
}
