/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/crc32c.h"

#include <stdatomic.h>
#include <string.h>

#include "base/processor.h"

/* The polynomial with its bits reversed: bit 31 is the coefficient of x^0. */
#define POLYNOMIAL UINT32_C(0x82f63b78)
#define X_TO_0	   UINT32_C(0x80000000)
#define X_TO_8	   UINT32_C(0x00800000)

static uint32_t times_x(uint32_t a)
{
	return a >> 1 ^ (a & 1 ? POLYNOMIAL : 0);
}

static uint32_t update_byte(uint32_t crc, unsigned char byte)
{
	crc ^= byte;
	for (int i = 0; i < 8; i++)
		crc = times_x(crc);
	return crc;
}

#ifdef __x86_64__
/* The instruction takes 8 bytes in 3 cycles. */
__attribute__((target("sse4.2,crc32"))) static uint32_t
update_words(uint32_t crc, const char *bytes, size_t words)
{
	uint64_t state = crc;

	for (size_t i = 0; i < words; i++) {
		uint64_t word;

		memcpy(&word, bytes + 8 * i, sizeof(word));
		state = __builtin_ia32_crc32di(state, word);
	}
	return (uint32_t)state;
}
#else
static uint32_t update_words(uint32_t crc, const char *bytes, size_t words)
{
	(void)bytes;
	(void)words;
	return crc;
}
#endif

/* A virtual machine may leave to its host for each cpuid, so the answer is remembered. */
static bool has_crc32_instruction(void)
{
	static atomic_int known;
	int found = atomic_load_explicit(&known, memory_order_relaxed);

	if (!found) {
		found = flmem_processor_has_crc32() ? 1 : -1;
		atomic_store_explicit(&known, found, memory_order_relaxed);
	}
	return found > 0;
}

uint32_t flmem_crc32c(uint32_t crc, const void *bytes, size_t length)
{
	const char *at = bytes;
	size_t words = has_crc32_instruction() ? length / 8 : 0;

	crc = update_words(~crc, at, words);
	for (size_t i = words * 8; i < length; i++)
		crc = update_byte(crc, (unsigned char)at[i]);
	return ~crc;
}

static uint32_t multiply_polynomials(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1, b = times_x(b))
		if (a & X_TO_0)
			product ^= b;
	return product;
}

uint32_t flmem_crc32c_join(uint32_t first, uint32_t second, uint64_t length)
{
	uint32_t power = X_TO_8;

	/* Appending zeros multiplies by x to the number of their bits. */
	for (; length; length >>= 1, power = multiply_polynomials(power, power))
		if (length & 1)
			first = multiply_polynomials(power, first);
	return first ^ second;
}
