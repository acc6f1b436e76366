/* SPDX-License-Identifier: Apache-2.0 */
#include "net/redirect.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "base/text/url.h"

#define TARGET_SHOWN_MAX 200

static bool is_https(const char *url)
{
	return strncasecmp(url, "https:", strlen("https:")) == 0;
}

int flmem_redirect_check(const char *url, const char *target, const char *name,
			 struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *safe = flmem_url_show(target);
	char shown[TARGET_SHOWN_MAX];

	flmem_text_escape(safe ?: "", shown, sizeof(shown));
	if (!flmem_url_is(target))
		return flmem_error_set(
			err, FLMEM_EFAILED, 0,
			"'%s' redirects to an address that is neither http:// nor https://", name);
	if (is_https(url) && !is_https(target))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s' redirects from https to '%s', which is not encrypted; "
				       "name that address if you trust the network",
				       name, shown);
	return 0;
}
