/* SPDX-License-Identifier: Apache-2.0 */
#include "series/last_samples.h"

#include <stdlib.h>

#define FIRST_COUNT 16

uint64_t *flmem_last_samples_at(struct flmem_last_samples *samples, uint64_t process)
{
	size_t count = samples->count ? samples->count : FIRST_COUNT;
	uint64_t *grown;

	if (process < samples->count)
		return &samples->kib[process];
	while (count <= process)
		count *= 2;
	grown = reallocarray(samples->kib, count, sizeof(*grown));
	if (!grown)
		return NULL;
	for (size_t i = samples->count; i < count; i++)
		grown[i] = 0;
	*samples = (struct flmem_last_samples){grown, count};
	return &grown[process];
}

void flmem_last_samples_reset(struct flmem_last_samples *samples)
{
	for (size_t i = 0; i < samples->count; i++)
		samples->kib[i] = 0;
}

void flmem_last_samples_clear(struct flmem_last_samples *samples)
{
	free(samples->kib);
	*samples = (struct flmem_last_samples){0};
}
