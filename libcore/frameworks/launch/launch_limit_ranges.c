/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/launch/launch_limit_ranges.h"

#include <string.h>

#include "frameworks/limits.h"

/* Levels of lists within lists of objects that are searched. */
#define LISTS_MAX 4

static const char kind_name[] = "LimitRange";

struct range_search {
	const struct flmem_node *space; /* the namespace of the pod; NULL: none */
	const struct flmem_rule_input *input;
	struct flmem_limit_range *found;
};

bool flmem_limit_ranges_are_likely(const struct flmem_buf *text)
{
	return text->data && strstr(text->data, kind_name);
}

static bool is_range(const struct flmem_node *node)
{
	const char *kind = flmem_node_string(flmem_node_get(node, "kind"));

	return kind && strcmp(kind, kind_name) == 0;
}

static uint64_t bytes_of(const struct flmem_node *value)
{
	uint64_t bytes = 0;

	return flmem_limit_parse(FLMEM_LIMIT_KUBERNETES, value->text, &bytes) ? bytes : 0;
}

/* The quantity of memory in an entry such as "default"; NULL, with a doubt, if it is invalid. */
static const struct flmem_node *find_quantity(struct range_search *search,
					      const struct flmem_node *limit, const char *key)
{
	const struct flmem_node *value = FLMEM_NODE_AT(limit, key, "memory");

	if (value && !bytes_of(value))
		search->found->doubt = "a value of the LimitRange is not a quantity";
	return value && bytes_of(value) ? value : NULL;
}

/* Takes a default. Kubernetes uses any one of several, so different ones are a doubt. */
static void take_fallback(struct range_search *search, const struct flmem_node *value)
{
	struct flmem_limit_range *found = search->found;

	if (found->fallback && bytes_of(found->fallback) != bytes_of(value))
		found->doubt = "several LimitRanges have a default";
	found->fallback = value;
	found->fallback_file = search->input->file;
}

static void take_bounds(struct range_search *search, const struct flmem_node *most,
			const struct flmem_node *least)
{
	struct flmem_limit_range *found = search->found;

	if (most && (!found->most || bytes_of(most) < bytes_of(found->most))) {
		found->most = most;
		found->bound_file = search->input->file;
	}
	if (least && (!found->least || bytes_of(least) > bytes_of(found->least))) {
		found->least = least;
		found->bound_file = search->input->file;
	}
}

/*
 * Takes an entry of spec.limits. The maximum of a container is also its default; the maximum of a
 * pod bounds each of its containers.
 */
static void take_limit(struct range_search *search, const struct flmem_node *limit)
{
	const char *type = flmem_node_string(flmem_node_get(limit, "type"));
	const struct flmem_node *most, *fallback;

	if (!type || (strcmp(type, "Container") != 0 && strcmp(type, "Pod") != 0))
		return;
	most = find_quantity(search, limit, "max");
	if (strcmp(type, "Pod") == 0) {
		take_bounds(search, most, NULL);
		return;
	}
	fallback = find_quantity(search, limit, "default");
	if (fallback || most)
		take_fallback(search, fallback ? fallback : most);
	take_bounds(search, most, find_quantity(search, limit, "min"));
}

static void take_range(struct range_search *search, const struct flmem_node *range)
{
	const char *space = flmem_node_string(FLMEM_NODE_AT(range, "metadata", "namespace"));
	const char *own = flmem_node_string(search->space);
	const struct flmem_node *limits = FLMEM_NODE_AT(range, "spec", "limits");

	if (space && own && strcmp(space, own) != 0)
		return;
	if (!space != !own)
		search->found->doubt = "only one of the pod and the LimitRange has a namespace";
	for (const struct flmem_node *n = flmem_node_first(limits); n; n = n->next)
		take_limit(search, n);
}

/*
 * Visits the objects of a file, which are YAML documents and entries of a List. Takes each
 * LimitRange if there is a `search`. Returns whether there is one.
 */
static bool visit_manifests(const struct flmem_node *node, struct range_search *search,
			    unsigned depth)
{
	const struct flmem_node *items = node;
	bool found = false;

	if (flmem_node_is_kind(node, FLMEM_NODE_MAP)) {
		if (is_range(node)) {
			if (search)
				take_range(search, node);
			return true;
		}
		items = flmem_node_get(node, "items");
	}
	if (!flmem_node_is_kind(items, FLMEM_NODE_LIST) || depth == LISTS_MAX)
		return false;
	for (const struct flmem_node *n = flmem_node_first(items); n; n = n->next)
		found |= visit_manifests(n, search, depth + 1);
	return found;
}

void flmem_limit_ranges_read(enum flmem_syntax syntax, struct flmem_buf *text,
			     struct flmem_document *ret_document)
{
	struct flmem_buf copy = FLMEM_BUF_INIT;

	flmem_buf_puts(&copy, text->data);
	if (!flmem_document_read(syntax, text, ret_document, NULL)) {
		flmem_buf_clear(&copy);
		return;
	}
	flmem_document_clear(ret_document);
	*ret_document = (struct flmem_document){.syntax = FLMEM_SYNTAX_PLAIN, .text = copy};
}

bool flmem_limit_ranges_are_in(const struct flmem_document *document)
{
	return visit_manifests(document->root, NULL, 0);
}

static const struct flmem_node *pod_spec_of(const struct flmem_node *container)
{
	const struct flmem_node *list = container->parent;

	if (!flmem_node_is_kind(list, FLMEM_NODE_LIST) || !list->key ||
	    (strcmp(list->key, "containers") != 0 && strcmp(list->key, "initContainers") != 0))
		return NULL;
	return list->parent && list->parent->key && strcmp(list->parent->key, "spec") == 0
		       ? list->parent
		       : NULL;
}

bool flmem_limit_ranges_is_container(const struct flmem_node *node)
{
	const struct flmem_node *spec = pod_spec_of(node);

	return spec && !FLMEM_NODE_AT(node, "resources", "limits", "memory") &&
	       !FLMEM_NODE_AT(spec, "resources", "limits", "memory");
}

/* The outermost namespace around a node: the template of a Deployment has none itself. */
static const struct flmem_node *namespace_of(const struct flmem_node *node)
{
	const struct flmem_node *space = NULL, *own;

	for (; node; node = node->parent) {
		own = FLMEM_NODE_AT(node, "metadata", "namespace");
		space = own ? own : space;
	}
	return space;
}

static void search_input(struct range_search *search, const struct flmem_rule_input *input)
{
	search->input = input;
	if (!flmem_limit_ranges_are_likely(&input->document.text))
		return;
	if (!visit_manifests(input->document.root, search, 0) &&
	    input->document.syntax == FLMEM_SYNTAX_PLAIN)
		search->found->doubt = "a LimitRange of its folder cannot be read";
}

struct flmem_limit_range flmem_limit_ranges_find(const struct flmem_bundle *bundle,
						 const struct flmem_node *container)
{
	struct flmem_limit_range found = {0};
	struct range_search search = {.space = namespace_of(container), .found = &found};

	if (!pod_spec_of(container))
		return found;
	for (size_t i = 0; i < bundle->count; i++)
		search_input(&search, &bundle->inputs[i]);
	for (size_t i = 0; i < bundle->other_count; i++)
		search_input(&search, &bundle->others[i]);
	return found;
}
