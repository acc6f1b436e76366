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
 * Replaces a value. False where that could change more (an anchor, an alias, a map of HOCON or
 * TOML, which may have no separator before it, the whole document, Python) or when out of memory.
 */
bool flmem_edit_replace(const struct flmem_document *document, const struct flmem_node *node,
			const char *value, struct flmem_edit *ret_edit);

/*
 * Appends a key to a map, in the style of its entries; `key` may be dotted ("args.name"). False for
 * a map without braces and without separate lines, or when out of memory.
 */
bool flmem_edit_insert(const struct flmem_document *document, const struct flmem_node *map,
		       const char *key, const char *value, struct flmem_edit *ret_edit);

/*
 * Sorts the edits and selects those that do not overlap; the rest needs another pass. Returns the
 * number of the selected ones, which are first.
 */
size_t flmem_edits_select(const struct flmem_edit **edits, size_t count);

/* The text with the selected edits applied; the caller frees it. NULL when out of memory. */
char *flmem_edits_apply(const char *text, const struct flmem_edit *const *edits, size_t count);

/*
 * Whether the text with the selected edits (`after`) parses like the one before, except for one
 * value or one new key per edit. An edit cannot handle every special case of a grammar; one with
 * any other effect must not be written.
 */
bool flmem_edits_are_safe(enum flmem_syntax syntax, const char *before, const char *after,
			  const struct flmem_edit *const *edits, size_t count);

#endif
