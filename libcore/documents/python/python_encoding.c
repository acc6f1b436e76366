/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_encoding.h"

#include <ctype.h>
#include <iconv.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define ENCODING_NAME_BYTES 64
/* No encoding that Python reads takes more bytes in UTF-8 than this for each of its own. */
#define GROWTH_MAX 4

struct converter {
	iconv_t handle;
	bool open;
};

static void close_converter(struct converter *converter)
{
	if (converter->open)
		iconv_close(converter->handle);
}

/*
 * Finds "coding: NAME" or "coding=NAME" in a comment that is alone in its line, as the tokenizer
 * of CPython does. Returns NULL for another line.
 */
static const char *find_declared(const char *line, size_t length)
{
	const char *end = line + length, *at;

	line += strspn(line, " \t\f");
	if (line >= end || *line != '#')
		return NULL;
	for (at = line; (at = strstr(at, "coding")) && at < end; at++) {
		const char *name = at + strlen("coding");

		if (*name != ':' && *name != '=')
			continue;
		name += 1 + strspn(name + 1, " \t");
		if (name < end && (isalnum((unsigned char)*name) || strchr("-_.", *name)))
			return name;
	}
	return NULL;
}

static const char *find_in_lines(const char *text)
{
	for (int i = 0; i < 2; i++) {
		size_t line = strcspn(text, "\r\n"), blank = strspn(text, " \t\f");
		const char *found = find_declared(text, line);

		if (found || (blank < line && text[blank] != '#'))
			return found;
		text += line;
		text += *text == '\r';
		text += *text == '\n';
	}
	return NULL;
}

/* Copies the declared name in small letters with '-' for '_'. Returns false if there is none. */
static bool read_declared(const char *text, char *ret_name)
{
	const char *found = find_in_lines(text + (flmem_text_starts(text, "\xef\xbb\xbf") ? 3 : 0));
	size_t length = found ? strspn(found, FLMEM_TEXT_NAME_LETTERS "-.") : 0;

	if (length >= ENCODING_NAME_BYTES)
		length = ENCODING_NAME_BYTES - 1;
	for (size_t i = 0; i < length; i++)
		ret_name[i] = found[i] == '_' ? '-' : (char)tolower((unsigned char)found[i]);
	ret_name[length] = '\0';
	return length;
}

/* The name for iconv(); NULL for UTF-8 and ASCII. CPython accepts "utf-8-unix" for "utf-8". */
static const char *converted_name(const char *name)
{
	static const char *const utf8[] = {"utf-8",   "utf8",  "u8",	   "utf", "utf-8-sig",
					   "cp65001", "ascii", "us-ascii", "646", NULL};
	static const char *const latin[] = {"latin-1",	   "latin1",  "latin",	    "l1",
					    "8859",	   "iso8859", "iso-8859-1", "iso8859-1",
					    "iso-latin-1", NULL};
	static const char *const others[][2] = {{"shift-jis", "cp932"},
						{"shiftjis", "cp932"},
						{"sjis", "cp932"},
						{"s-jis", "cp932"},
						{"ms932", "cp932"},
						{"mskanji", "cp932"},
						{"ms-kanji", "cp932"},
						{"936", "gbk"},
						{"cp936", "gbk"},
						{"949", "uhc"},
						{"cp949", "uhc"},
						{"ms949", "uhc"},
						{"950", "cp950"},
						{"ms950", "cp950"},
						{"mac-roman", "macintosh"},
						{"macroman", "macintosh"},
						{"mac-cyrillic", "mac-cyrillic"}};

	if (flmem_text_is_one_of(name, utf8) || flmem_text_starts(name, "utf-8-"))
		return NULL;
	if (flmem_text_is_one_of(name, latin) || flmem_text_starts(name, "latin-1-") ||
	    flmem_text_starts(name, "iso-8859-1-") || flmem_text_starts(name, "iso-latin-1-"))
		return "iso-8859-1";
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++)
		if (strcmp(name, others[i][0]) == 0)
			return others[i][1];
	return name;
}

static int refuse_encoding(struct flmem_error *err, const char *name, const char *why)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "its encoding '%s' %s; save it as UTF-8", name,
			       why);
}

/* Whether ASCII characters are the same bytes, also in texts in which they alone occur. */
static bool keeps_ascii(iconv_t handle)
{
	char ascii[97], out[GROWTH_MAX * sizeof(ascii)], *in = ascii, *to = out;
	size_t left = 0, room = sizeof(out);

	ascii[left++] = '\t';
	ascii[left++] = '\n';
	for (char c = ' '; c <= '~' && left < sizeof(ascii); c++)
		ascii[left++] = c;
	return iconv(handle, &in, &left, &to, &room) != (size_t)-1 && to - out == in - ascii &&
	       memcmp(ascii, out, (size_t)(to - out)) == 0;
}

static int convert_encoding(struct flmem_buf *text, iconv_t handle, const char *name,
			    struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf converted = FLMEM_BUF_INIT;
	size_t left = text->length, room = GROWTH_MAX * text->length;
	char *in = text->data, *out;

	if (!keeps_ascii(handle))
		return refuse_encoding(err, name, "does not write ASCII as such");
	iconv(handle, NULL, NULL, NULL, NULL);
	if (!flmem_buf_reserve(&converted, room + 1))
		return flmem_error_nomem(err, "cannot convert the text");
	out = converted.data;
	if (iconv(handle, &in, &left, &out, &room) == (size_t)-1 ||
	    iconv(handle, NULL, NULL, &out, &room) == (size_t)-1)
		return refuse_encoding(err, name, "does not have all of its bytes");
	flmem_buf_reset(text);
	flmem_buf_append(text, converted.data, (size_t)(out - converted.data));
	return 0;
}

int flmem_python_decode(struct flmem_buf *text, struct flmem_error *err)
{
	FLMEM_AUTO(close_converter) struct converter converter = {0};
	char name[ENCODING_NAME_BYTES];
	const char *known;

	if (!text->length || !read_declared(text->data, name))
		return 0;
	known = converted_name(name);
	if (!known || flmem_text_starts(text->data, "\xef\xbb\xbf"))
		return 0;
	converter.handle = iconv_open("UTF-8", known);
	converter.open = converter.handle != (iconv_t)-1; /* NOLINT: its failure is such a value */
	if (!converter.open)
		return refuse_encoding(err, name, "is unknown here");
	return convert_encoding(text, converter.handle, name, err);
}
