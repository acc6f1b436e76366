/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels.h"

#include <string.h>

#include "aggregate/kernels_list.h"
#include "base/cleanup.h"

static const struct {
	const char *stored;
	size_t bytes;
} elements[] = {
#define ELEMENT_ROW(name, stored, type, bytes) {stored, bytes},
	FLMEM_ELEMENTS(ELEMENT_ROW)
#undef ELEMENT_ROW
};

static const struct flmem_kernels *const all_kernels[] = {
#ifdef __x86_64__
	&flmem_kernels_avx512,
	&flmem_kernels_avx2,
#endif
#ifdef __aarch64__
	&flmem_kernels_neon,
#endif
	&flmem_kernels_portable,
};

enum flmem_element flmem_element_find(const char *stored)
{
	size_t i = 0;

	while (i < FLMEM_ELEMENTS_COUNT && strcmp(elements[i].stored, stored) != 0)
		i++;
	return (enum flmem_element)i;
}

size_t flmem_element_bytes(enum flmem_element element)
{
	return elements[element].bytes;
}

const struct flmem_kernels *flmem_kernels_at(size_t index)
{
	return index < FLMEM_ARRAY_SIZE(all_kernels) ? all_kernels[index] : NULL;
}

static const struct flmem_kernels *choose_kernels(void)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(all_kernels); i++)
		if (all_kernels[i]->supported())
			return all_kernels[i];
	return &flmem_kernels_portable;
}

/* Detected once: in a virtual machine each cpuid query is an exit to the host, some 10 us. */
const struct flmem_kernels *flmem_kernels_best(void)
{
	static _Atomic(const struct flmem_kernels *) best;
	const struct flmem_kernels *chosen = best;

	if (!chosen)
		best = chosen = choose_kernels();
	return chosen;
}
