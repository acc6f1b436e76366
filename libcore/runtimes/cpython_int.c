/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_int.h"

#include <string.h>

/* Characters of Py_ISSPACE, which int() skips around the number. */
#define BLANKS " \t\n\v\f\r"

static bool is_ascii(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text > 0x7f)
			return false;
	return true;
}

static bool is_int_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Reads digits with single underscores between them (PEP 515). Returns their end, NULL for other
 * text.
 */
static const char *read_digits(const char *at, bool negative, int64_t *ret_value)
{
	int64_t value = 0;

	if (!is_int_digit(*at))
		return NULL;
	for (; is_int_digit(*at) || (*at == '_' && is_int_digit(at[1])); at++) {
		int digit = *at - '0';

		if (*at == '_')
			continue;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, negative ? -digit : digit, &value))
			value = negative ? INT64_MIN : INT64_MAX;
	}
	*ret_value = value;
	return at;
}

enum flmem_python_int flmem_python_int_parse(const char *text, int64_t *ret_value)
{
	const char *at = text + strspn(text, BLANKS);
	bool negative = *at == '-';
	int64_t value;

	if (!is_ascii(text))
		return FLMEM_PYTHON_INT_UNDECIDED;
	if (*at == '-' || *at == '+')
		at++;
	at = read_digits(at, negative, &value);
	if (!at || at[strspn(at, BLANKS)])
		return FLMEM_PYTHON_INT_INVALID;
	*ret_value = value;
	return FLMEM_PYTHON_INT_VALID;
}
