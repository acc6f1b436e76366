/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_EDIT_H
#define FLMEM_DOCUMENTS_EDIT_H

/*
 * Changes to the text of a document that preserve everything around them: comments, order, quotes,
 * indentation, line ends.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/finding.h>

#include "documents/document.h"

/*
 * Makes an edit that replaces a value. Returns false if that could change more (an anchor, an
 * alias, a map of HOCON or TOML, which may have no separator before it, the whole document,
 * Python), or when out of memory.
 */
bool flmem_edit_replace(const struct flmem_document *document, const struct flmem_node *node,
			const char *value, struct flmem_edit *ret_edit);

/*
 * Makes an edit that appends a key to a map, in the style of its entries; `key` may be dotted
 * ("args.name"). Returns false for a map without braces and without separate lines, or when out of
 * memory.
 */
bool flmem_edit_insert(const struct flmem_document *document, const struct flmem_node *map,
		       const char *key, const char *value, struct flmem_edit *ret_edit);

/*
 * Sorts the edits and moves those that do not overlap to the front; the others need another pass.
 * Returns how many are in front.
 */
size_t flmem_edits_select(const struct flmem_edit **edits, size_t count);

/*
 * Returns the text with the selected edits applied, which the caller frees; NULL when out of
 * memory.
 */
char *flmem_edits_apply(const char *text, const struct flmem_edit *const *edits, size_t count);

/*
 * Whether `after`, the text with the selected edits, parses like `before` except for one value or
 * one new key per edit. An edit that has any other effect must not be written.
 */
bool flmem_edits_are_safe(enum flmem_syntax syntax, const char *before, const char *after,
			  const struct flmem_edit *const *edits, size_t count);

#endif
