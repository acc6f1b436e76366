/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_EDIT_H
#define FLMEM_DOCUMENTS_EDIT_H

/*
 * Changes to the text of a document that leave everything around them as it is: comments, order,
 * quotes, indentation, line ends.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/finding.h>

#include "documents/document.h"

/*
 * Writes another value. False where that could change more (an anchor, an alias, a map of HOCON or
 * TOML, which may have no separator in front of it, the whole document) or without memory.
 */
bool flmem_edit_replace(const struct flmem_document *document, const struct flmem_node *node,
			const char *value, struct flmem_edit *ret_edit);

/*
 * Adds a key behind the others of a map, in their style; `key` may be dotted ("args.name"). False
 * for a map that has no braces and no lines of its own, or without memory.
 */
bool flmem_edit_insert(const struct flmem_document *document, const struct flmem_node *map,
		       const char *key, const char *value, struct flmem_edit *ret_edit);

/*
 * Sorts the edits and keeps those that touch no other; the rest is for another pass. Returns the
 * number of those kept, which come first.
 */
size_t flmem_edits_select(const struct flmem_edit **edits, size_t count);

/* The text with selected edits made, for the caller to free. NULL when memory is out. */
char *flmem_edits_apply(const char *text, const struct flmem_edit *const *edits, size_t count);

/*
 * Whether the text with selected edits made (`after`) reads as the one before, but for one value
 * or one new key per edit. Grammars have more corners than an edit can know; an edit that falls
 * into one must not be written.
 */
bool flmem_edits_hold(enum flmem_syntax syntax, const char *before, const char *after,
		      const struct flmem_edit *const *edits, size_t count);

#endif
