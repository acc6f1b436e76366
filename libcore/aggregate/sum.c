/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sum of integers modulo 2^8, 2^16, 2^32 or 2^64, by their type. In secure aggregation
 * (Bonawitz et al., 2017) every client adds masks that cancel in this sum, and in no other
 * combination.
 */
#include <string.h>

#include "aggregate/algorithm.h"

#define ADD(type)                                                        \
	static void add_##type(const char *from, char *to, size_t count) \
	{                                                                \
		const type##_t *x = (const void *)from;                  \
		type##_t *sum = (void *)to;                              \
                                                                         \
		for (size_t i = 0; i < count; i++)                       \
			sum[i] = (type##_t)(sum[i] + x[i]);              \
	}

/* Signed integers have the same sums in two's complement. */
ADD(uint8)
ADD(uint16)
ADD(uint32)
ADD(uint64)

static void combine_whole(size_t inputs, size_t bytes, char *const *buffers, size_t at,
			  size_t count)
{
	void (*add)(const char *from, char *to, size_t count) = bytes == 1   ? add_uint8
								: bytes == 2 ? add_uint16
								: bytes == 4 ? add_uint32
									     : add_uint64;

	memcpy(buffers[inputs] + at, buffers[0] + at, count * bytes);
	for (size_t i = 1; i < inputs; i++)
		add(buffers[i] + at, buffers[inputs] + at, count);
}

const struct flmem_algorithm flmem_sum = {
	.combine_whole = combine_whole,
};
