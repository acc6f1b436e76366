/* SPDX-License-Identifier: Apache-2.0 */
#include "net/origin.h"

#include <stdio.h>

static char *format_origin(const struct flmem_curl *curl, CURLU *parts)
{
	char *scheme = NULL, *host = NULL, *port = NULL, *origin = NULL;

	if (!curl->url_get(parts, CURLUPART_SCHEME, &scheme, 0) &&
	    !curl->url_get(parts, CURLUPART_HOST, &host, 0) &&
	    !curl->url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
	    asprintf(&origin, "%s://%s:%s", scheme, host, port) < 0)
		origin = NULL;
	curl->free(scheme);
	curl->free(host);
	curl->free(port);
	return origin;
}

int flmem_origin_of(const struct flmem_curl *curl, const char *url, const char *name,
		    char **ret_origin, struct flmem_error *err)
{
	CURLU *parts = curl->url();
	char *origin = NULL;

	if (parts && !curl->url_set(parts, CURLUPART_URL, url, 0))
		origin = format_origin(curl, parts);
	curl->url_cleanup(parts);
	if (!origin)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a valid address", name);
	*ret_origin = origin;
	return 0;
}
