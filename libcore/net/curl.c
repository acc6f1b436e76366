/* SPDX-License-Identifier: Apache-2.0 */
#include "net/curl.h"

#include <pthread.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"

static const struct flmem_plugin plugin = {
	.sonames = {"libcurl.so.4", "libcurl-gnutls.so.4"},
	.missing = "reading http:// and https:// addresses needs libcurl (Debian: libcurl4)",
	.stays = true,
};

static struct flmem_curl functions;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded;
static struct flmem_error why;

static void load_functions(void)
{
	const struct flmem_plugin_symbol symbols[] = {
#define ROW(name) {.names = {"curl_" #name}, .slot = &functions.name},
		FLMEM_CURL_FUNCTIONS(ROW)
#undef ROW
	};

	loaded = flmem_plugin_load(&plugin, symbols, FLMEM_ARRAY_SIZE(symbols), NULL, &why);
	if (!loaded && functions.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		loaded = flmem_error_set(&why, FLMEM_EFAILED, 0, "cannot start libcurl");
}

int flmem_curl_load(const struct flmem_curl **ret_curl, struct flmem_error *err)
{
	pthread_once(&once, load_functions);
	if (loaded && err)
		*err = why;
	if (!loaded)
		*ret_curl = &functions;
	return loaded;
}
