/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/content.h"

#include <string.h>

#include "frameworks/launch.h"

static bool has_word(const struct flmem_buf *text, const char *word)
{
	return memmem(text->data, text->length, word, strlen(word));
}

static bool is_variable_file(const struct flmem_buf *text)
{
	for (size_t i = 0; i < FLMEM_LAUNCH_TMPDIR;
	     i++) /* without TMPDIR, which any script may set */
		if (has_word(text, flmem_launch_names[i]) && has_word(text, "NVFLARE"))
			return true;
	return false;
}

/* Templates of YAML (Helm charts, for example) are not valid YAML, so they are not read. */
bool flmem_content_is_likely(enum flmem_input_kind kind, const struct flmem_buf *text)
{
	switch (kind) {
	case FLMEM_INPUT_NVFLARE_PYTHON:
		return has_word(text, "nvflare");
	case FLMEM_INPUT_NVFLARE_LAUNCH:
		return flmem_launch_is_likely(text->data) || is_variable_file(text);
	case FLMEM_INPUT_FLOWER_PROJECT:
		return has_word(text, "tool.flwr");
	default:
		return has_word(text, "server_configs") || has_word(text, "grpc_configs") ||
		       (flmem_launch_is_likely(text->data) && !has_word(text, "{{"));
	}
}

static bool starts_something(const struct flmem_document *document)
{
	const struct flmem_input input = {.document = *document};
	struct flmem_launches launches;

	flmem_launches_read(&input, &launches);
	return launches.launch_count;
}

enum flmem_input_kind flmem_content_recognise(enum flmem_input_kind kind,
					      const struct flmem_document *document)
{
	enum flmem_input_kind found;

	if (kind != FLMEM_INPUT_UNKNOWN)
		return flmem_content_is_likely(kind, &document->text) ? kind : FLMEM_INPUT_UNKNOWN;
	found = flmem_appfl_recognise(document->root);
	if (found == FLMEM_INPUT_UNKNOWN && starts_something(document))
		found = FLMEM_INPUT_NVFLARE_LAUNCH;
	return found;
}
