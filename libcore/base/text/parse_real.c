/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/parse.h>

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 300U /* limit of the length: strtod(3) takes time in proportion to it */

int flmem_parse_real(const char *text, double *ret_value, struct flmem_error *err)
{
	/* Letters of hexadecimal numbers, "inf" and "nan" are not accepted. */
	size_t length = strspn(text, "0123456789.eE+-");
	locale_t locale;
	double value;
	char *end;

	if (!length || text[length] || length > DIGITS_MAX || strchr("+-eE", text[0]))
		return flmem_parse_invalid(FLMEM_VALUE_REAL, text, NULL, err);
	locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (locale == (locale_t)0)
		return flmem_error_nomem(err, "cannot read the number '%.60s'", text);
	value = strtod_l(text, &end, locale);
	freelocale(locale);
	if (*end || isinf(value))
		return flmem_parse_invalid(FLMEM_VALUE_REAL, text, NULL, err);
	*ret_value = value;
	return 0;
}
