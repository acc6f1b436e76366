/* SPDX-License-Identifier: Apache-2.0 */
/* Finds entries that are assigned by a key known only when the program runs: object[key] = x. */
#include "documents/python/python_entries.h"

#include <string.h>

#include "documents/python/python_nodes.h"

/* Skips "[ ... ]" from its first bracket on. Returns whether the key is not a literal. */
static bool skip_entry(struct flmem_python_reader *reader, struct flmem_place *ret_key)
{
	int outside = reader->python.brackets - 1;
	bool open = false;

	flmem_python_advance(reader);
	*ret_key = reader->word.place;
	while (reader->word.kind != FLMEM_PYTHON_END && reader->python.brackets > outside) {
		open |= reader->word.kind == FLMEM_PYTHON_NAME ||
			(reader->word.kind == FLMEM_PYTHON_STRING &&
			 strchr("fF", *reader->word.text));
		ret_key->end = reader->word.place.end;
		flmem_python_advance(reader);
	}
	flmem_python_accept(reader, "]");
	return open;
}

/*
 * Reads a target "a.b[key].c[key] =" from its first word on. Returns whether its last part is an
 * entry whose key is not a literal.
 */
static bool read_entry_target(struct flmem_python_reader *reader, struct flmem_place *ret_key)
{
	bool open = false;

	for (;;) {
		if (flmem_python_is(&reader->word, "[")) {
			open = skip_entry(reader, ret_key);
		} else if (flmem_python_accept(reader, ".") &&
			   reader->word.kind == FLMEM_PYTHON_NAME) {
			flmem_python_advance(reader);
			open = false; /* an attribute is assigned */
		} else {
			return open && flmem_python_assigns(reader);
		}
	}
}

/* Adds the first name of the target, with the place of the key. */
static int add_open_entry(struct flmem_cursor *cursor, struct flmem_node *root,
			  struct flmem_node **list, const struct flmem_python_word *name,
			  const struct flmem_place *key)
{
	const struct flmem_place nowhere = {.line = 1, .column = 1};
	char text[FLMEM_PYTHON_DOTTED_MAX];

	if (!flmem_python_word_text(name, text))
		return 0;
	if (!*list) {
		*list = flmem_python_node_add(cursor, root, "entries", NULL, &nowhere);
		if (!*list)
			return cursor->code;
		(*list)->kind = FLMEM_NODE_LIST;
	}
	return flmem_python_path_add(cursor, *list, text, key);
}

int flmem_python_entries_read(struct flmem_cursor *cursor, struct flmem_node *root,
			      const struct flmem_python_source *source)
{
	struct flmem_node *list = NULL;
	int rc = 0;

	for (size_t i = 0; i < source->count && !rc; i++) {
		struct flmem_python_reader reader;

		flmem_python_start(&reader, source, i);
		while (reader.word.kind != FLMEM_PYTHON_END && !rc) {
			const struct flmem_python_word name = reader.word;
			bool starts = name.kind == FLMEM_PYTHON_NAME &&
				      flmem_python_at_statement(&reader);
			struct flmem_place key;

			flmem_python_advance(&reader);
			if (starts && read_entry_target(&reader, &key) &&
			    cursor->document->node_count < FLMEM_DOCUMENT_NODES_MAX / 2)
				rc = add_open_entry(cursor, root, &list, &name, &key);
		}
	}
	return rc;
}
