/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_GENERATOR_H
#define FLMEM_AGGREGATE_GENERATOR_H

/*
 * Values of generated models. Each value is a function of the tensor's name, its index, the seed
 * and the client, so any part can be made by itself, in any order, with the same bits on every
 * machine. The random numbers are those of SplitMix64 (Steele, Lea, Flood, 2014), which computes
 * the n-th number without the earlier ones.
 *
 * A value is a whole number of units of 2^-28. It consists of 24 random bits, which is below 1/32,
 * and for a client of a variation below 1/512. The values of scales (as of a normalisation layer)
 * are larger by 1.
 */

#include <stdbool.h>
#include <stdint.h>

#define FLMEM_GENERATOR_GROUP	   32U /* number of elements that share their random numbers */
#define FLMEM_GENERATOR_BASES	   16U /* random numbers per group, each for two elements */
#define FLMEM_GENERATOR_VARIATIONS 8U  /* random numbers for variations, each for four elements */
#define FLMEM_GENERATOR_UNIT	   0x1p-28

/* The parameters of one tensor. */
struct flmem_generator {
	uint64_t key, client_key;
	bool varied;	/* each value gets a variation by client_key */
	int32_t centre; /* the value without the random bits, in units */
};

/* Sets up the generator of one tensor. Client 0 is the model that the clients started from. */
void flmem_generator_init(struct flmem_generator *generator, const char *tensor, bool is_scale,
			  uint64_t seed, uint64_t client);

static inline uint64_t flmem_generator_number(uint64_t key, uint64_t n)
{
	uint64_t z = key + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Takes 24 bits of the lower or upper half of a random number, in units. */
static inline int32_t flmem_generator_base(uint64_t number, unsigned half)
{
	return (int32_t)(uint32_t)(number >> 32 * half) >> 8;
}

/* Takes 16 bits of a quarter of a random number, in units. */
static inline int32_t flmem_generator_variation(uint64_t number, unsigned quarter)
{
	return (int16_t)(uint16_t)(number >> 16 * quarter) * 16;
}

/* Computes the values of one group, in units. */
static inline void flmem_generator_units(const struct flmem_generator *generator, uint64_t group,
					 int32_t ret_units[FLMEM_GENERATOR_GROUP])
{
	for (unsigned i = 0; i < FLMEM_GENERATOR_BASES; i++) {
		uint64_t number =
			flmem_generator_number(generator->key, group * FLMEM_GENERATOR_BASES + i);

		ret_units[i] = generator->centre + flmem_generator_base(number, 0);
		ret_units[i + FLMEM_GENERATOR_BASES] =
			generator->centre + flmem_generator_base(number, 1);
	}
	for (unsigned i = 0; generator->varied && i < FLMEM_GENERATOR_VARIATIONS; i++) {
		uint64_t number = flmem_generator_number(generator->client_key,
							 group * FLMEM_GENERATOR_VARIATIONS + i);

		for (unsigned quarter = 0; quarter < 4; quarter++)
			ret_units[i + quarter * FLMEM_GENERATOR_VARIATIONS] +=
				flmem_generator_variation(number, quarter);
	}
}

#endif
