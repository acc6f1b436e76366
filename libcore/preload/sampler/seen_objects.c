/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the completely processed objects, by their program headers, as long as none is closed.
 * Reading the relocations of all objects for each library that a program opens would take too long.
 * The set is used under the linker's lock.
 */

#include <string.h>

#include "preload/sampler/got.h"
#include "preload/sampler/sampler.h"

#define SEEN_MAX 8192U /* a power of 2 */

static const ElfW(Phdr) * seen_objects[SEEN_MAX];
static uint32_t seen_count;

/* Returns the place of an object, or a free one. */
static uint32_t find_seen_place(const ElfW(Phdr) * headers)
{
	uint32_t at = (uint32_t)sampler_hash((uintptr_t)headers, 0);

	while (seen_objects[at % SEEN_MAX] && seen_objects[at % SEEN_MAX] != headers)
		at++;
	return at % SEEN_MAX;
}

bool sampler_seen_has(const ElfW(Phdr) * headers)
{
	return seen_objects[find_seen_place(headers)] != NULL;
}

bool sampler_seen_add(const ElfW(Phdr) * headers)
{
	if (seen_count >= SEEN_MAX / 2)
		return false;
	seen_objects[find_seen_place(headers)] = headers;
	seen_count++;
	return true;
}

void sampler_seen_clear(void)
{
	memset(seen_objects, 0, sizeof(seen_objects));
	seen_count = 0;
}
