/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/shorten.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define GAP	   (sizeof(FLMEM_TEXT_GAP) - 1)
#define QUOTED_MIN 40U /* shorter quoted texts stay whole */

/* A part of a text, without its quotes. */
struct text_range {
	size_t begin, length;
};

static bool begins_quote(const char *text, size_t i)
{
	return text[i] == '\'' && (!i || text[i - 1] == ' ' || text[i - 1] == '(');
}

/*
 * Reports whether a quote ends here. An apostrophe inside a name is followed by more of the name.
 */
static bool ends_quote(const char *text, size_t i)
{
	return text[i] == '\'' && !isalnum((unsigned char)text[i + 1]);
}

static struct text_range find_longest_quoted(const char *text)
{
	struct text_range longest = {0};

	for (size_t i = 0; text[i]; i++) {
		size_t begin = i + 1, end = begin;

		if (!begins_quote(text, i))
			continue;
		while (text[end] && !ends_quote(text, end))
			end++;
		if (!text[end])
			break;
		if (end - begin > longest.length)
			longest = (struct text_range){begin, end - begin};
		i = end;
	}
	return longest;
}

static bool is_inside_character(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/*
 * Shortens the part to `room` bytes: twice as many from the end, where the name of a file is, as
 * from the start.
 */
static void cut_stretch(char *text, struct text_range part, size_t room)
{
	char *begin = text + part.begin, *end = begin + part.length;
	char *gap = begin + (room - GAP) / 3, *rest = end - (room - GAP - (room - GAP) / 3);

	while (gap > begin && is_inside_character(*gap))
		gap--;
	while (rest < end && is_inside_character(*rest))
		rest++;
	memcpy(gap, FLMEM_TEXT_GAP, GAP);
	memmove(gap + GAP, rest, strlen(rest) + 1);
}

void flmem_text_fit(char *text, size_t size)
{
	size_t length;

	while ((length = strlen(text)) >= size) {
		size_t excess = length - size + 1, room;
		struct text_range part = find_longest_quoted(text);

		if (part.length <= QUOTED_MIN) {
			cut_stretch(text, (struct text_range){0, length}, size - 1);
			return;
		}
		/* Cut at most one half at a time, so that another part can become the longest. */
		room = part.length > excess ? part.length - excess : 0;
		room = room > part.length / 2 ? room : part.length / 2;
		cut_stretch(text, part, room > QUOTED_MIN ? room : QUOTED_MIN);
	}
}

size_t flmem_text_fit_match(const char *text, const char *path)
{
	size_t whole = strlen(path), same = 0;
	const char *rest;

	while (same < whole && text[same] == path[same])
		same++;
	if (same == whole)
		return whole && (text[whole] == '/' || text[whole] == '\'') ? whole : 0;
	rest = text + same + GAP;
	if (!same || strncmp(text + same, FLMEM_TEXT_GAP, GAP) != 0)
		return 0;
	for (size_t left = whole - same - 1; left; left--)
		if (strncmp(rest, path + whole - left, left) == 0 &&
		    (rest[left] == '/' || rest[left] == '\''))
			return same + GAP + left;
	return same + GAP;
}
