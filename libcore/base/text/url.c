/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/url.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/redact.h"
#include "base/text/text.h"

static size_t scheme_length(const char *name)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(schemes); i++)
		if (strncasecmp(name, schemes[i], strlen(schemes[i])) == 0)
			return strlen(schemes[i]);
	return 0;
}

bool flmem_url_is(const char *name)
{
	return scheme_length(name) > 0;
}

size_t flmem_url_path_length(const char *name)
{
	return flmem_url_is(name) ? strcspn(name, "?#") : strlen(name);
}

/*
 * Returns the '@' after a user and password, or NULL. A password may hold any character, though it
 * should not: text after the first colon is a port only if it is a number.
 */
static const char *find_url_user_end(const char *authority, size_t length)
{
	size_t host = strcspn(authority, "/?#");
	const char *end, *colon;

	host = host < length ? host : length;
	end = memrchr(authority, '@', host);
	colon = memchr(authority, ':', host);
	if (!end && colon && colon + 1 + strspn(colon + 1, "0123456789") != authority + host)
		end = memrchr(authority, '@', length);
	return end;
}

static void redact_url(const char *name, struct flmem_buf *out)
{
	size_t length = flmem_url_path_length(name), from = scheme_length(name);
	const char *user_end;

	if (!from) {
		flmem_buf_puts(out, name);
		return;
	}
	user_end = find_url_user_end(name + from, length - from);
	flmem_buf_append(out, name, from);
	if (user_end) {
		flmem_buf_puts(out, FLMEM_REDACTED);
		from = (size_t)(user_end - name);
	}
	flmem_buf_append(out, name + from, length - from);
	if (name[length] == '?')
		flmem_buf_puts(out, "?" FLMEM_REDACTED);
}

char *flmem_url_show(const char *name)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	redact_url(name, &text);
	return text.failed ? NULL : strdup(text.data);
}
