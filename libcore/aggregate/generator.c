/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/generator.h"

#define UNITS_OF_ONE (INT32_C(1) << 28)
#define FNV_START    UINT64_C(14695981039346656037)
#define FNV_PRIME    UINT64_C(1099511628211)

void flmem_generator_init(struct flmem_generator *generator, const char *tensor, bool is_scale,
			  uint64_t seed, uint64_t client)
{
	uint64_t hash = FNV_START; /* FNV-1a of the name */

	for (const char *at = tensor; *at; at++)
		hash = (hash ^ (unsigned char)*at) * FNV_PRIME;
	*generator = (struct flmem_generator){
		.key = flmem_generator_number(hash, seed),
		.varied = client != 0,
		.centre = is_scale ? UNITS_OF_ONE : 0,
	};
	generator->client_key = flmem_generator_number(~generator->key, client);
}
