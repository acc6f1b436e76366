/* SPDX-License-Identifier: Apache-2.0 */
/* A target's seccomp filter, run by our own machine. */
#include "fuzz.h"
#include "remote/seccomp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seccomp_data call = {.nr = 35, .arch = 0xc000003e};
	struct sock_filter *program = malloc(size + 1);
	size_t length = size / sizeof(*program);

	if (!program)
		abort();
	memcpy(program, data, length * sizeof(*program));
	flmem_seccomp_run(program, length, &call);
	free(program);
	return 0;
}
