/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites names in other letters that Python takes for ASCII ones, since it compares names in the
 * normal form NFKC (Python reference, "Names"). Roman numbers and digraphs of several letters stay
 * as they are.
 */
#include "documents/python/python_unicode.h"

#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

/*
 * ASCII equivalents of ranges of code points; a blank marks one without. Unicode 14.0,
 * UnicodeData.txt.
 */
static const struct {
	uint32_t first;
	const char *letters;
} letter_rows[] = {
	{0xaa, "a"},
	{0xba, "o"},
	{0x17f, "s"},
	{0x2b0, "h jr   wy"},
	{0x2e1, "lsx"},
	{0x1d2c, "A B DE GHIJKLMN O PRTUWa   bde   g km o   ptu  v"},
	{0x1d62, "iruv"},
	{0x1d9c, "c   f"},
	{0x1dbb, "z"},
	{0x2071, "i"},
	{0x207f, "n"},
	{0x2090, "aeox hklmnpst"},
	{0x2102, "C"},
	{0x210a, "gHHHh IILl N   PQRRR"},
	{0x2124, "Z   Z K BC eEF Mo"},
	{0x2139, "i"},
	{0x2145, "Ddeij"},
	{0x2160, "I   V"},
	{0x2169, "X  LCDMi   v"},
	{0x2179, "x  lcdm"},
	{0x2c7c, "jV"},
	{0xa7f2, "CFQ"},
	{0xfe33, "__"},
	{0xfe4d, "___"},
	{0x107a5, "q"},
	{0x1fbf0, "0123456789"},
};

#define WIDE_FIRST	 0xff10U
#define WIDE_LAST	 0xff5aU
#define WIDE_ASCII	 0xfee0U
#define MATH_FIRST	 0x1d400U
#define MATH_LAST	 0x1d6a3U
#define MATH_DIGIT_FIRST 0x1d7ceU
#define MATH_DIGIT_LAST	 0x1d7ffU
#define PAIR_FIRST	 0xfb00U
#define PAIR_LAST	 0xfb06U

/* Writes the ASCII letters for a code point. Returns how many there are; 0: none. */
static size_t ascii_letters(uint32_t code, char ret_letters[4])
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	static const char *const pairs[] = {"ff", "fi", "fl", "ffi", "ffl", "st", "st"};

	ret_letters[0] = '\0';
	ret_letters[1] = '\0';
	if (code >= PAIR_FIRST && code <= PAIR_LAST)
		memcpy(ret_letters, pairs[code - PAIR_FIRST], strlen(pairs[code - PAIR_FIRST]) + 1);
	else if (code >= WIDE_FIRST && code <= WIDE_LAST)
		ret_letters[0] = (char)(code - WIDE_ASCII);
	else if (code >= MATH_FIRST && code <= MATH_LAST)
		ret_letters[0] = alphabet[(code - MATH_FIRST) % (sizeof(alphabet) - 1)];
	else if (code >= MATH_DIGIT_FIRST && code <= MATH_DIGIT_LAST)
		ret_letters[0] = (char)('0' + (code - MATH_DIGIT_FIRST) % 10);
	for (size_t i = 0; !*ret_letters && i < FLMEM_ARRAY_SIZE(letter_rows); i++)
		if (code >= letter_rows[i].first &&
		    code - letter_rows[i].first < strlen(letter_rows[i].letters))
			ret_letters[0] = letter_rows[i].letters[code - letter_rows[i].first];
	if (*ret_letters == ' ' || strchr(":;<=>?@[\\]^`", *ret_letters))
		return 0;
	return strlen(ret_letters);
}

/* Reads the code point at `text`, which has `room` bytes. Returns 0 if it is truncated. */
static uint32_t code_point(const char *text, size_t room, size_t *ret_length)
{
	static const unsigned char masks[] = {0x7f, 0x7f, 0x1f, 0x0f, 0x07};
	unsigned char c = (unsigned char)*text;
	size_t length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	uint32_t code = c & masks[length];

	if (length > room)
		return 0;
	for (size_t i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	*ret_length = length;
	return code;
}

/* Writes a name in ASCII, padded with blanks. A name with any other letter is unchanged. */
static void fold_name(char *name, size_t length)
{
	char folded[FLMEM_PYTHON_DOTTED_MAX], letters[4];
	size_t at = 0, used = 0, step = 0, count;

	if (length >= sizeof(folded))
		return;
	while (at < length) {
		uint32_t code = code_point(name + at, length - at, &step);

		count = code < 0x80 ? code != 0 : ascii_letters(code, letters);
		if (!count)
			return;
		memcpy(folded + used, code < 0x80 ? name + at : letters, count);
		at += step;
		used += count;
	}
	memset(folded + used, ' ', length - used);
	memcpy(name, folded, length);
}

static bool is_ascii_text(const char *name, size_t length)
{
	while (length && !(*name & 0x80)) {
		name++;
		length--;
	}
	return !length;
}

bool flmem_python_fold_text(const struct flmem_buf *text, struct flmem_buf *ret_folded)
{
	char letters[4];
	bool folded = false;
	size_t step;

	if (is_ascii_text(text->data, text->length))
		return false;
	for (size_t at = 0; at < text->length; at += step) {
		uint32_t code = 0;

		step = 1;
		if (text->data[at] & 0x80)
			code = code_point(text->data + at, text->length - at, &step);
		if (code && ascii_letters(code, letters)) {
			flmem_buf_puts(ret_folded, letters);
			folded = true;
		} else {
			flmem_buf_append(ret_folded, text->data + at, step);
		}
	}
	return folded && !ret_folded->failed;
}

void flmem_python_fold_letters(char *text, const struct flmem_python_source *source)
{
	struct flmem_python_reader reader;

	for (size_t i = 0; i < source->count; i++) {
		const char *part = text + source->parts[i].at;

		if (is_ascii_text(part, strlen(part)))
			continue; /* nearly all: a character of ASCII */
		flmem_python_start(&reader, source, i);
		for (; reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&reader)) {
			size_t start = reader.word.place.start;
			size_t length = reader.word.place.end - start;

			if (reader.word.kind == FLMEM_PYTHON_NAME &&
			    !is_ascii_text(text + start, length))
				fold_name(text + start, length);
		}
	}
}
