/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/microhttpd.h"

#include <string.h>
#include <strings.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"

static const struct flmem_plugin microhttpd_plugin = {
	.sonames = {"libmicrohttpd.so.12"}, /* since 0.9.18 (2012) */
	.missing = "the endpoint needs libmicrohttpd (Debian: libmicrohttpd12)",
	.stays = true,
};

int flmem_microhttpd_load(struct flmem_microhttpd *ret_http, struct flmem_error *err)
{
	const struct flmem_plugin_symbol functions[] = {
#define ROW(name) {.names = {"MHD_" #name}, .slot = &ret_http->name},
		FLMEM_MICROHTTPD_FUNCTIONS(ROW)
#undef ROW
	};

	return flmem_plugin_load(&microhttpd_plugin, functions, FLMEM_ARRAY_SIZE(functions), NULL,
				 err);
}

/* An address in absolute form is accepted with any host, as if it were in origin-form. */
const char *flmem_microhttpd_path(const char *url)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(schemes); i++)
		if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
			return strchr(url + strlen(schemes[i]), '/') ?: "/";
	return url;
}
