/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "documents/python/python_calls.h"
#include "documents/python/python_letters.h"

/* To Python, carriage returns alone end lines, too. The length of the text stays as it is. */
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

int flmem_python_read(struct flmem_cursor *cursor)
{
	const struct flmem_python_part whole = {.line = 1};
	const struct flmem_python_source source = {
		.text = cursor->text, .parts = &whole, .count = 1};

	unify_lines(cursor->document->text.data);
	if (flmem_python_check_ends(cursor, &source))
		return cursor->code;
	flmem_python_fold_letters(cursor->document->text.data, &source);
	return flmem_python_calls_read(cursor, &source);
}
