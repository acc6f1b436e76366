/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/microhttpd.h"

#include <dlfcn.h>
#include <string.h>

#include "base/cleanup.h"

/* The name for its ABI since 0.9.18 (2012). */
#define LIBRARY "libmicrohttpd.so.12"

int flmem_microhttpd_load(struct flmem_microhttpd *ret_http, struct flmem_error *err)
{
	struct flmem_microhttpd http = {0};
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
#define ROW(name) {"MHD_" #name, &http.name},
		FLMEM_MICROHTTPD_FUNCTIONS(ROW)
#undef ROW
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!library)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"the endpoint needs libmicrohttpd (Debian: libmicrohttpd12): %s",
			dlerror());
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(functions); i++) {
		void *symbol = dlsym(library, functions[i].name);

		if (!symbol)
			return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
					       LIBRARY " lacks %s; install a newer one",
					       functions[i].name);
		memcpy(functions[i].slot, &symbol, sizeof(symbol));
	}
	*ret_http = http;
	return 0;
}
