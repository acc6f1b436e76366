/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/content.h"

#include <string.h>

enum flmem_input_kind flmem_content_recognise(const struct flmem_document *document)
{
	return flmem_appfl_recognise(document->root);
}

bool flmem_content_is_likely(const struct flmem_buf *text)
{
	static const char *const words[] = {"server_configs", "grpc_configs"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(words); i++)
		if (memmem(text->data, text->length, words[i], strlen(words[i])))
			return true;
	return false;
}
