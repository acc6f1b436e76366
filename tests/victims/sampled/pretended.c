/* SPDX-License-Identifier: Apache-2.0 */
/* pretended FILE: exports the state of a sampler that writes a profile into FILE, but has none. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/sampler_state.h"

__attribute__((visibility("default"))) struct flmem_sampler_state flmem_sampler_state = {
	.magic = FLMEM_SAMPLER_STATE_MAGIC,
	.version = FLMEM_SAMPLER_STATE_VERSION,
	.phase = FLMEM_SAMPLER_SAMPLING,
};

int main(int count, char **values)
{
	if (count != 2 || strlen(values[1]) >= sizeof(flmem_sampler_state.path))
		return 2;
	memcpy(flmem_sampler_state.path, values[1], strlen(values[1]) + 1);
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
