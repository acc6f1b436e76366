/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "documents/python_calls.h"

/* To Python, carriage returns alone end lines, too. The length of the text stays as it is. */
static void unify_lines(char *text)
{
	while ((text = strchr(text, '\r'))) {
		if (text[1] != '\n')
			*text = '\n';
		text++;
	}
}

int flmem_python_read(struct flmem_cursor *cursor)
{
	const struct flmem_python_part whole = {.line = 1};
	const struct flmem_python_source source = {
		.text = cursor->text, .parts = &whole, .count = 1};

	unify_lines(cursor->document->text.data);
	return flmem_python_calls_read(cursor, &source);
}
