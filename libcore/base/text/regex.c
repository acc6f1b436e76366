/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/regex.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/buf.h"

/* Returns the end of a bracket expression that begins at `p`; a ']' at its start is a member. */
static const char *bracket_end(const char *p)
{
	p += p[1] == '^' ? 2 : 1;
	if (*p == ']')
		p++;
	while (*p && *p != ']') {
		/* Skip [:alpha:], [.x.] and [=x=] as a whole. */
		if (p[0] == '[' && p[1] && strchr(":.=", p[1])) {
			const char close[] = {p[1], ']', '\0'};
			const char *end = strstr(p + 2, close);

			p = end ? end + 1 : p;
		}
		p++;
	}
	return p;
}

static bool has_digit_class(const char *from, const char *to)
{
	const char *found = memmem(from, (size_t)(to - from), "\\d", 2);

	return found || memmem(from, (size_t)(to - from), "\\D", 2);
}

/* Translates \d and \D. False for \d within brackets, where POSIX takes a backslash as a member. */
static bool translate_regex(const char *pattern, struct flmem_buf *ret_posix)
{
	for (const char *p = pattern; *p; p++) {
		if (*p == '[') {
			const char *end = bracket_end(p);

			if (has_digit_class(p, end))
				return false;
			end -= !*end; /* without a closing bracket, regcomp(3) reports it */
			flmem_buf_append(ret_posix, p, (size_t)(end - p) + 1);
			p = end;
		} else if (*p == '\\' && (p[1] == 'd' || p[1] == 'D')) {
			flmem_buf_puts(ret_posix, *++p == 'd' ? "[0-9]" : "[^0-9]");
		} else if (*p == '\\' && p[1]) {
			flmem_buf_append(ret_posix, p++, 2);
		} else {
			flmem_buf_append(ret_posix, p, 1);
		}
	}
	return true;
}

int flmem_regex_compile(const char *pattern, int flags, const char *what, regex_t *ret_regex,
			struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf posix = FLMEM_BUF_INIT;
	regex_t regex;
	char why[128];
	int rc;

	if (!translate_regex(pattern, &posix))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%s: '%s': \\d has no meaning within [...]; write 0-9 there",
				       what, pattern);
	if (posix.failed)
		return flmem_error_nomem(err, "%s", what);
	rc = regcomp(&regex, posix.data ? posix.data : "", flags | REG_EXTENDED);
	if (rc) {
		regerror(rc, &regex, why, sizeof(why));
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s: '%s': %s", what, pattern, why);
	}
	*ret_regex = regex;
	return 0;
}
