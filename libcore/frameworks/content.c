/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/content.h"

#include <string.h>

static bool has_word(const struct flmem_buf *text, const char *word)
{
	return memmem(text->data, text->length, word, strlen(word));
}

/* A template of YAML is often none itself, so only what must be read as YAML is. */
bool flmem_content_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	if (syntax == FLMEM_SYNTAX_PLAIN)
		return has_word(text, "nvflare");
	return has_word(text, "server_configs") || has_word(text, "grpc_configs");
}

enum flmem_input_kind flmem_content_recognise(const struct flmem_document *document)
{
	if (document->syntax != FLMEM_SYNTAX_PLAIN)
		return flmem_appfl_recognise(document->root);
	return flmem_content_is_likely(document->syntax, &document->text)
		       ? FLMEM_INPUT_NVFLARE_PYTHON
		       : FLMEM_INPUT_UNKNOWN;
}
