/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "documents/edit.h"

struct edit_comparison {
	const struct flmem_edit *const *edits; /* in the order of the text; not owned */
	size_t count, found;
};

static int place_against_edit(const void *place, const void *edit)
{
	size_t start = ((const struct flmem_place *)place)->start;
	size_t other = (*(const struct flmem_edit *const *)edit)->start;

	return start < other ? -1 : start > other;
}

/* The edit that replaces exactly this value; NULL if there is none. */
static const struct flmem_edit *const *edit_of(const struct edit_comparison *comparison,
					       const struct flmem_node *node)
{
	const struct flmem_edit *const *edit =
		bsearch(&node->place, comparison->edits, comparison->count,
			sizeof(*comparison->edits), place_against_edit);

	return edit && (*edit)->end == node->place.end && (*edit)->start < (*edit)->end ? edit
											: NULL;
}

/* Whether the new value is exactly the text of the edit, at its place. */
static bool is_written_value(const struct edit_comparison *comparison,
			     const struct flmem_edit *const *edit, const struct flmem_node *node)
{
	size_t start = (*edit)->start;

	for (const struct flmem_edit *const *e = comparison->edits; e < edit; e++)
		start = start + strlen((*e)->text) - ((*e)->end - (*e)->start);
	return node->place.start == start && node->place.end == start + strlen((*edit)->text);
}

static bool is_same_key(const struct flmem_node *a, const struct flmem_node *b)
{
	return !a->key == !b->key && (!a->key || strcmp(a->key, b->key) == 0);
}

static bool compare_nodes(struct edit_comparison *comparison, const struct flmem_node *before,
			  const struct flmem_node *after)
{
	const struct flmem_edit *const *edit = edit_of(comparison, before);
	const struct flmem_node *a = before->first, *b = after->first;

	if (!is_same_key(before, after))
		return false;
	if (edit) {
		comparison->found++;
		return is_written_value(comparison, edit, after);
	}
	if (before->kind != after->kind || strcmp(before->text, after->text) != 0)
		return false;
	if (a && a->parent != before)
		return true; /* an alias, whose children belong to its anchor */
	for (; a && b; a = a->next, b = b->next)
		if (!compare_nodes(comparison, a, b))
			return false;
	/* A key that was added is the last of its map. */
	if (!a && b && before->kind == FLMEM_NODE_MAP && !b->next) {
		comparison->found++;
		return true;
	}
	return !a && !b;
}

static bool read_copy(enum flmem_syntax syntax, const char *text,
		      struct flmem_document *ret_document)
{
	struct flmem_buf copy = FLMEM_BUF_INIT;

	flmem_buf_puts(&copy, text);
	return flmem_document_read(syntax, &copy, ret_document, NULL) == 0 && ret_document->root;
}

bool flmem_edits_are_safe(enum flmem_syntax syntax, const char *before, const char *after,
			  const struct flmem_edit *const *edits, size_t count)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document old = {0}, new = {0};
	struct edit_comparison comparison = {.edits = edits, .count = count};

	return read_copy(syntax, before, &old) && read_copy(syntax, after, &new) &&
	       compare_nodes(&comparison, old.root, new.root) && comparison.found == count;
}
