/* SPDX-License-Identifier: Apache-2.0 */
#include "print/layout.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <flmem/text.h>

#define WIDTH	  80
#define WIDTH_MIN 40
/* Help texts have the same width everywhere. */
#define WIDTH_FOLD 79

int layout_width(FILE *out, int otherwise)
{
	struct winsize window = {0};

	if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col)
		return window.ws_col;
	return otherwise;
}

void layout_label(const char *text, FILE *out)
{
	fprintf(out, "%-*s", LAYOUT_LABEL, text);
}

void layout_put(const char *text, FILE *out)
{
	char shown[LAYOUT_TEXT_MAX];

	fputs(flmem_text_escape(text, shown, sizeof(shown)), out);
}

/* Returns the bytes of the longest run of whole words that fits; an overlong word is not broken. */
static size_t line_length(const char *text, size_t room)
{
	size_t length = strlen(text), end;

	if (length <= room)
		return length;
	for (end = room; end && text[end] != ' ';)
		end--;
	return end ? end : strcspn(text, " ");
}

void layout_wrap(const char *label, const char *text, FILE *out)
{
	char shown[LAYOUT_TEXT_MAX];
	const char *rest = flmem_text_escape(text, shown, sizeof(shown));
	int width = layout_width(out, WIDTH);
	size_t room = (size_t)(width > WIDTH_MIN ? width : WIDTH_MIN) - LAYOUT_LABEL;

	do {
		size_t length = line_length(rest, room);

		layout_label(label, out);
		fprintf(out, "%.*s\n", (int)length, rest);
		rest += length;
		rest += strspn(rest, " ");
		label = "";
	} while (*rest);
}

void layout_fold(const char *text, int column, int indent, FILE *out)
{
	int at = indent;

	while (*text) {
		size_t length = strcspn(text, " \n");

		if (at > column && at + 1 + (int)length > WIDTH_FOLD) {
			fprintf(out, "\n%*s", column, "");
			at = column;
		} else if (at > column) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)length, text);
		at += (int)length;
		text += length;
		if (*text == '\n') {
			/* Empty lines between paragraphs have no trailing spaces. */
			fprintf(out, "\n%*s", text[1] == '\n' ? 0 : column, "");
			at = column;
			text++;
		} else if (*text) {
			text++;
		}
	}
	fputc('\n', out);
}
