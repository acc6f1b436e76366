/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in JSON: every place lies in the text, and values lie inside their parents. */
#include "documents/document.h"
#include "fuzz.h"

static void check(const struct flmem_document *document, const struct flmem_node *node)
{
	if (node->place.start > node->place.end || node->place.end > document->text.length)
		abort();
	for (const struct flmem_node *n = node->first; n; n = n->next) {
		if (n->place.start < node->place.start || n->place.end > node->place.end ||
		    n->parent != node)
			abort();
		check(document, n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_append(&text, data, size);
	if (!flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, NULL))
		check(&document, document.root);
	return 0;
}
