/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_lazy.h"

#include <string.h>

/* Over the end of a line no word is moved, so that the lines stay the same. */
static void fold_lazy_word(char *text, const struct flmem_python_word *lazy,
			   const struct flmem_python_word *word)
{
	char *from = text + lazy->place.start, *to = text + word->place.end;
	const size_t length = word->place.end - word->place.start;

	if (lazy->place.line != word->place.line) {
		memset(from, ' ', lazy->place.end - lazy->place.start);
		return;
	}
	memmove(from, to - length, length);
	memset(from + length, ' ', (size_t)(to - from) - length);
}

void flmem_python_fold_lazy(char *text, const struct flmem_python_source *source)
{
	struct flmem_python_reader reader;

	for (size_t i = 0; i < source->count; i++) {
		bool lazy = false;

		if (!strstr(text + source->parts[i].at, "lazy"))
			continue;
		flmem_python_start(&reader, source, i);
		for (; reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&reader)) {
			if (lazy && (flmem_python_is(&reader.word, "import") ||
				     flmem_python_is(&reader.word, "from")))
				fold_lazy_word(text, &reader.before, &reader.word);
			lazy = flmem_python_at_statement(&reader) &&
			       flmem_python_is(&reader.word, "lazy");
		}
	}
}
