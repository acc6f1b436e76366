/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cuda_runtime.h"

#include <stdio.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"

/*
 * The number is 1000 * major + 10 * minor, as the CUDA runtime API documents it for
 * cudaRuntimeGetVersion().
 */
char *flmem_cuda_version_text(int number)
{
	char *text;

	if (number < 1000 || number >= 1000000)
		return NULL;
	return asprintf(&text, "%d.%d", number / 1000, number % 1000 / 10) < 0 ? NULL : text;
}

int flmem_cuda_runtime_version(char **ret_version, struct flmem_error *err)
{
	static const struct flmem_plugin plugin = {
		.sonames = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
		.missing = "no CUDA runtime that the dynamic linker finds (a program may bring "
			   "its own)",
		.stays = true, /* the library registers handlers for the end of the process */
	};
	int (*get_version)(int *version) = NULL;
	const struct flmem_plugin_symbol symbols[] = {
		{{"cudaRuntimeGetVersion"}, &get_version, false},
	};
	int number = 0;
	int rc = flmem_plugin_load(&plugin, symbols, FLMEM_ARRAY_SIZE(symbols), NULL, err);

	if (rc)
		return rc;
	rc = get_version(&number);
	if (rc)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the CUDA runtime does not report its version: error %d",
				       rc);
	*ret_version = flmem_cuda_version_text(number);
	if (*ret_version)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "the CUDA runtime reports the invalid version %d", number);
}
