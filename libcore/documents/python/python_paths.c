/* SPDX-License-Identifier: Apache-2.0 */
/* Finds strings that are full names, by which programs import and configure classes. */
#include "documents/python/python_paths.h"

#include <string.h>

#include "base/cleanup.h"
#include "documents/python/python_nodes.h"

#define PATH_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:"

/*
 * Reads "a.b.Name" or "a.b:Name" between quotes, with the colon as a dot. False for other strings.
 */
static bool read_path(const struct flmem_python_word *word, char path[FLMEM_PYTHON_DOTTED_MAX])
{
	size_t prefix = strcspn(word->text, "\"'"), whole = word->place.end - word->place.start;
	size_t quotes = prefix + 6 <= whole && strspn(word->text + prefix, "\"'") >= 3 ? 3 : 1;
	const char *text = word->text + prefix + quotes;
	size_t length = whole - prefix - 2 * quotes;
	char *colon;

	if (whole < prefix + 2 * quotes || length >= FLMEM_PYTHON_DOTTED_MAX)
		return false;
	if (strspn(text, PATH_CHARACTERS) != length || !memchr(text, '.', length))
		return false;
	memcpy(path, text, length);
	path[length] = '\0';
	colon = strchr(path, ':');
	if (colon)
		*colon = '.';
	return true;
}

int flmem_python_paths_read(struct flmem_cursor *cursor, struct flmem_node *root,
			    const struct flmem_python_source *source)
{
	const struct flmem_place nowhere = {.line = 1, .column = 1};
	struct flmem_node *list = flmem_python_node_add(cursor, root, "paths", NULL, &nowhere);
	char path[FLMEM_PYTHON_DOTTED_MAX];
	int rc = list ? 0 : cursor->code;

	if (list)
		list->kind = FLMEM_NODE_LIST;
	for (size_t i = 0; i < source->count && !rc; i++) {
		struct flmem_python_reader reader;

		flmem_python_start(&reader, source, i);
		for (; reader.word.kind != FLMEM_PYTHON_END && !rc; flmem_python_advance(&reader))
			if (reader.word.kind == FLMEM_PYTHON_STRING &&
			    read_path(&reader.word, path))
				rc = flmem_python_path_add(cursor, list, path, &reader.word.place);
	}
	return rc;
}
