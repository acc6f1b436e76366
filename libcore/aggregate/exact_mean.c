/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/exact_mean.h"

#include <math.h>
#include <string.h>

#define GROUP FLMEM_GENERATOR_GROUP

/*
 * Marks a function that is compiled for several instruction sets, of which the loader chooses one.
 * With other compilers and processors there is one version.
 */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define VERSIONS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VERSIONS
#endif

/*
 * Parameters of the binary formats: digits with the leading one, and exponent of the smallest
 * normal number.
 */
static const struct float_format {
	int digits, lowest, exponent_bits;
} exact_mean_formats[] = {
	[FLMEM_ELEMENT_F16] = {11, -14, 5},   [FLMEM_ELEMENT_BF16] = {8, -126, 8},
	[FLMEM_ELEMENT_F32] = {24, -126, 8},  [FLMEM_ELEMENT_F64] = {53, -1022, 11},
	[FLMEM_ELEMENT_F8_E4M3] = {4, -6, 4}, [FLMEM_ELEMENT_F8_E5M2] = {3, -14, 5},
};

/*
 * Rounds to the nearest number of the format, ties to even. The quantum is a power of two, so
 * dividing by it is exact; adding 1.5 x 2^52 rounds to an integer (IEEE 754).
 */
static inline double round_to(const struct float_format *format, double x)
{
	const double whole = 0x1.8p52;
	uint64_t bits, exponent;
	double up, down;
	int64_t power;

	memcpy(&bits, &x, sizeof(bits));
	power = (int64_t)(bits >> 52 & 0x7ff) - 1023;
	power = (power < format->lowest ? format->lowest : power) - format->digits + 1;
	exponent = (uint64_t)(1023 + power) << 52;
	memcpy(&up, &exponent, sizeof(up));
	exponent = (uint64_t)(1023 - power) << 52;
	memcpy(&down, &exponent, sizeof(down));
	return (x * down + whole - whole) * up;
}

/* Returns the number with these bits in a format of 8 or 16 bits. */
static double decode_small(const struct float_format *format, unsigned bits)
{
	int fraction_bits = format->digits - 1;
	unsigned fraction = bits & ((1U << fraction_bits) - 1);
	unsigned exponent = bits >> fraction_bits & ((1U << format->exponent_bits) - 1);
	unsigned sign = bits >> (fraction_bits + format->exponent_bits);
	int power = format->lowest - fraction_bits + (exponent ? (int)exponent - 1 : 0);
	double x = ldexp(exponent ? fraction | 1U << fraction_bits : fraction, power);

	return sign ? -x : x;
}

/* Elements are little-endian, as in a file. */
static void decode_elements(enum flmem_element element, const void *from, double *to, size_t count)
{
	const unsigned char *at = from;

	for (size_t i = 0; i < count; i++) {
		uint16_t half;
		uint32_t bits;
		float single;

		switch (element) {
		case FLMEM_ELEMENT_F64:
			memcpy(&to[i], at + i * sizeof(*to), sizeof(*to));
			break;
		case FLMEM_ELEMENT_F32:
			memcpy(&single, at + i * sizeof(single), sizeof(single));
			to[i] = single;
			break;
		case FLMEM_ELEMENT_BF16:
			memcpy(&half, at + i * sizeof(half), sizeof(half));
			bits = (uint32_t)half << 16;
			memcpy(&single, &bits, sizeof(single));
			to[i] = single;
			break;
		case FLMEM_ELEMENT_F16:
			memcpy(&half, at + i * sizeof(half), sizeof(half));
			to[i] = decode_small(&exact_mean_formats[element], half);
			break;
		default:
			to[i] = decode_small(&exact_mean_formats[element], at[i]);
		}
	}
}

static void round_row(const struct float_format *format, double *row)
{
	if (format->digits == 53)
		return; /* a double needs no rounding */
	for (size_t e = 0; e < GROUP; e++)
		row[e] = round_to(format, row[e]);
}

/* The part of one group that a call compares. */
struct group_part {
	size_t skip, count; /* elements within the group */
	uint64_t done;	    /* elements that the call has compared before this part */
};

/* Notes the first element of an input that is not the value of its generator. */
static size_t compare_input(struct flmem_exact_mean *mean, size_t input,
			    const struct group_part *part, const double *row, const int32_t *units)
{
	size_t bytes = flmem_element_bytes(mean->element), limit = part->count;
	double found[GROUP];

	decode_elements(mean->element, (const char *)mean->found[input] + part->done * bytes, found,
			limit);
	for (size_t i = 0; i < limit; i++) {
		size_t e = part->skip + i;

		/* Rounding keeps the sign, also that of zero. */
		if (found[i] == row[e] && !signbit(found[i]) == (units[e] >= 0))
			continue;
		mean->wrong_input = input;
		return i;
	}
	return limit;
}

/*
 * Computes the exact means of a group. Each input is rounded to the type first, as it is stored in
 * its model. Returns how many elements of the part are right in all inputs.
 */
VERSIONS static size_t make_means(struct flmem_exact_mean *mean, uint64_t group,
				  const struct group_part *part, double *ret_means)
{
	const struct float_format *format = &exact_mean_formats[mean->element];
	double total = 0, row[GROUP], sums[GROUP] = {0};
	struct group_part right = *part;
	int32_t units[GROUP];

	for (size_t i = 0; i < mean->inputs; i++) {
		double weight = (double)mean->weights[i];

		flmem_generator_units(mean->generators[i], group, units);
		for (size_t e = 0; e < GROUP; e++)
			row[e] = units[e] * FLMEM_GENERATOR_UNIT;
		round_row(format, row);
		if (mean->found)
			right.count = compare_input(mean, i, &right, row, units);
		for (size_t e = 0; e < GROUP; e++) /* integers below 2^53, so the sums are exact */
			sums[e] += weight * (row[e] * (1 / FLMEM_GENERATOR_UNIT));
		total += weight;
	}
	/*
	 * The quotient is rounded twice: to a double, then to the format. The result is that of one
	 * rounding: a quotient of such integers is either a tie of the format, or differs from a
	 * tie by more than the rounding of a double.
	 */
	for (size_t e = 0; e < GROUP; e++)
		ret_means[e] = sums[e] / total * FLMEM_GENERATOR_UNIT;
	round_row(format, ret_means);
	return right.count;
}

uint64_t flmem_exact_mean_compare(struct flmem_exact_mean *mean, uint64_t first, uint64_t count,
				  const void *values)
{
	size_t bytes = flmem_element_bytes(mean->element), right;
	double means[GROUP], found[GROUP];
	struct group_part part = {0};

	for (; part.done < count; part.done += part.count) {
		uint64_t left = count - part.done;

		part.skip = (first + part.done) % GROUP;
		part.count = GROUP - part.skip < left ? GROUP - part.skip : (size_t)left;
		mean->wrong_input = mean->inputs;
		right = make_means(mean, (first + part.done) / GROUP, &part, means);
		decode_elements(mean->element, (const char *)values + part.done * bytes, found,
				part.count);
		for (size_t i = 0; i < right; i++)
			if (found[i] != means[part.skip + i]) {
				mean->wrong_input = mean->inputs;
				return part.done + i;
			}
		if (right < part.count)
			return part.done + right;
	}
	return count;
}
