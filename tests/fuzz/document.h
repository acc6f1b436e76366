/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_FUZZ_DOCUMENT_H
#define FLMEM_TESTS_FUZZ_DOCUMENT_H

/* Reads the input as a document and checks the guarantees of documents/document.h on its tree. */

#include "documents/document.h"
#include "documents/edit.h"
#include "fuzz.h"

static inline void fuzz_check_node(const struct flmem_document *document,
				   const struct flmem_node *node, unsigned depth)
{
	const struct flmem_node *before = NULL;

	if (depth > FLMEM_DOCUMENT_DEPTH_MAX + 1 || node->place.start > node->place.end ||
	    node->place.end > document->text.length || !node->text)
		abort();
	for (const struct flmem_node *n = node->first; n; before = n, n = n->next) {
		if (n->parent != node) /* an alias shows the children of another node */
			return;
		if (before && n->index != before->index + 1)
			abort();
		if ((node->kind == FLMEM_NODE_MAP) != (n->key != NULL))
			abort();
		fuzz_check_node(document, n, depth + 1);
	}
}

/* Makes both edits at a node; the results are read again. */
static inline void fuzz_edit(const struct flmem_document *document, const struct flmem_node *node)
{
	struct flmem_edit edits[2] = {0};
	const struct flmem_edit *list[2];
	size_t count = 0, selected;
	char *text;

	if (flmem_edit_replace(document, node, "1", &edits[count]))
		count++;
	if (flmem_edit_insert(document, node, "a.b", "1", &edits[count]))
		count++;
	for (size_t i = 0; i < count; i++)
		list[i] = &edits[i];
	selected = flmem_edits_select(list, count);
	text = flmem_edits_apply(document->text.data, list, selected);
	if (text)
		flmem_edits_are_safe(document->syntax, document->text.data, text, list, selected);
	free(text);
	for (size_t i = 0; i < count; i++)
		free(edits[i].text);
}

static inline void fuzz_document(enum flmem_syntax syntax, const uint8_t *data, size_t size)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_node *node;

	flmem_buf_append(&text, data, size);
	if (flmem_document_read(syntax, &text, &document, NULL) || !document.root)
		return;
	fuzz_check_node(&document, document.root, 0);
	for (node = document.root; node->first; node = node->last) {
		flmem_node_get(node, "args");
		fuzz_edit(&document, node);
	}
	flmem_node_path(node, &path);
}

#endif
