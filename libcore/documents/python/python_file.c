/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "documents/python/python_calls.h"
#include "documents/python/python_lazy.h"
#include "documents/python/python_nodes.h"
#include "documents/python/python_syntax.h"
#include "documents/python/python_unicode.h"

/*
 * Replaces a carriage return alone by a line feed, since Python accepts it as a line end. The
 * length of the text stays the same.
 */
static void unify_lines(char *text)
{
	while ((text = strchr(text, '\r'))) {
		if (text[1] != '\n')
			*text = '\n';
		text++;
	}
}

int flmem_python_check_ends(struct flmem_cursor *cursor, const struct flmem_python_source *source)
{
	struct flmem_python_reader reader;

	for (size_t i = 0; i < source->count; i++) {
		flmem_python_start(&reader, source, i);
		while (reader.word.kind != FLMEM_PYTHON_END) {
			if (reader.word.unclosed)
				return flmem_cursor_fail_at(
					cursor, &reader.word.place,
					"a string in three quotes does not end, so what follows "
					"cannot be read");
			flmem_python_advance(&reader);
		}
	}
	return 0;
}

/* Adds {"fault": text} for a file that Python rejects. */
static int add_fault(struct flmem_cursor *cursor, const struct flmem_python_fault *fault)
{
	return flmem_python_node_add(cursor, cursor->document->root, "fault", fault->text,
				     &fault->place)
		       ? 0
		       : cursor->code;
}

int flmem_python_read(struct flmem_cursor *cursor)
{
	struct flmem_python_fault fault;
	bool faulty;
	int rc;
	const struct flmem_python_part whole = {.line = 1};
	const struct flmem_python_source source = {
		.text = cursor->text, .parts = &whole, .count = 1};

	unify_lines(cursor->document->text.data);
	if (flmem_python_check_ends(cursor, &source))
		return cursor->code;
	faulty = flmem_python_find_fault(cursor->text, &fault);
	flmem_python_fold_lazy(cursor->document->text.data, &source);
	flmem_python_fold_letters(cursor->document->text.data, &source);
	rc = flmem_python_calls_read(cursor, &source);
	return !rc && faulty ? add_fault(cursor, &fault) : rc;
}
