/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/cmdline and environ: the target can write anything there. */
#include "fuzz.h"
#include "proc/argv_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	size_t total = 0;

	flmem_buf_append(&buf, data, size);
	if (flmem_argv_env_split(&buf, false, &words))
		return 0;
	for (size_t i = 0; i < words.count; i++)
		total += strlen(words.values[i]) + 1;
	if (total > size + 1)
		abort();
	flmem_argv_env_getenv(&words, "LD_PRELOAD");
	return 0;
}
