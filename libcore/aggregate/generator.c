/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/generator.h"

#include <string.h>

#include "base/bytes/fnv.h"

#define UNITS_OF_ONE (INT32_C(1) << 28)

void flmem_generator_init(struct flmem_generator *generator, const char *tensor, bool is_scale,
			  uint64_t seed, uint64_t client)
{
	uint64_t hash = flmem_fnv_mix(FLMEM_FNV_START, tensor, strlen(tensor));

	*generator = (struct flmem_generator){
		.key = flmem_generator_number(hash, seed),
		.varied = client != 0,
		.centre = is_scale ? UNITS_OF_ONE : 0,
	};
	generator->client_key = flmem_generator_number(~generator->key, client);
}
