/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the CUDA runtime where it is not installed. FAKE_CUDART_VERSION is the version that it
 * reports (12090), FAKE_CUDART_ERROR the error that it returns.
 */
#include <stdlib.h>

static int setting(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? (int)strtol(text, NULL, 10) : otherwise;
}

int cudaRuntimeGetVersion(int *version)
{
	*version = setting("FAKE_CUDART_VERSION", 12090);
	return setting("FAKE_CUDART_ERROR", 0);
}
