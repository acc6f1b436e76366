/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made into a library to preload, with the malloc() of own_malloc.c and the names that flmem's
 * sampler exports. It is not the sampler: it hands no call on to the allocator after it.
 */

unsigned char flmem_sampler_state[8192];
const char flmem_sampler_mark[] = "what another library has under this name, and no sampler";

void flmem_sampler_order(const char *order, char *answer);

void flmem_sampler_order(const char *order, char *answer)
{
	(void)order;
	answer[0] = '\0';
}
