/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/crc32c.h"

#include <stdatomic.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h> /* compilers have different builtins for these instructions */
#endif

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

typedef uint32_t crc32c_words(uint32_t crc, const char *bytes, size_t words);

/* Without the instruction, processes no words: the caller processes all bytes. */
static uint32_t update_no_words(uint32_t crc, const char *bytes, size_t words)
{
	(void)bytes;
	(void)words;
	return crc;
}

#ifdef __x86_64__
#define LANE_WORDS ((size_t)512)
/* x^(8 * bytes - 33) modulo the polynomial, for the bytes of one lane and of two. */
#define SHIFT_LANE  0x82f89c77
#define SHIFT_LANES 0x54a86326

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

/*
 * Returns the checksum after the zeros that `shift` stands for: a product, which the instruction
 * reduces.
 */
__attribute__((target("sse4.2,crc32,pclmul"))) static uint32_t append_zeros(uint64_t state,
									    uint32_t shift)
{
	const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)state),
						     _mm_cvtsi32_si128((int)shift), 0);

	return (uint32_t)__builtin_ia32_crc32di(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Processes three lanes at a time: the instruction takes 3 cycles, and one can begin in each. */
__attribute__((target("sse4.2,crc32,pclmul"))) static uint32_t
update_lanes(uint32_t crc, const char *bytes, size_t words)
{
	const size_t lane = 8 * LANE_WORDS;

	for (; words >= 3 * LANE_WORDS; words -= 3 * LANE_WORDS, bytes += 3 * lane) {
		uint64_t state[3] = {crc, 0, 0}, word[3];

		for (size_t i = 0; i < lane; i += 8) {
			memcpy(&word[0], bytes + i, 8);
			memcpy(&word[1], bytes + lane + i, 8);
			memcpy(&word[2], bytes + 2 * lane + i, 8);
			state[0] = __builtin_ia32_crc32di(state[0], word[0]);
			state[1] = __builtin_ia32_crc32di(state[1], word[1]);
			state[2] = __builtin_ia32_crc32di(state[2], word[2]);
		}
		crc = append_zeros(state[0], SHIFT_LANES) ^ append_zeros(state[1], SHIFT_LANE) ^
		      (uint32_t)state[2];
	}
	return update_words(crc, bytes, words);
}

static crc32c_words *choose_words(void)
{
	if (!flmem_processor_has_crc32())
		return update_no_words;
	return flmem_processor_has_carryless_product() ? update_lanes : update_words;
}
#elif defined(__aarch64__)

__attribute__((target("+crc"))) static uint32_t update_words(uint32_t crc, const char *bytes,
							     size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word;

		memcpy(&word, bytes + 8 * i, sizeof(word));
		crc = __crc32cd(crc, word);
	}
	return crc;
}

static crc32c_words *choose_words(void)
{
	return flmem_processor_has_crc32() ? update_words : update_no_words;
}
#else
static crc32c_words *choose_words(void)
{
	return update_no_words;
}
#endif

/* A virtual machine may exit to its host for each cpuid, so the answer is remembered. */
static crc32c_words *chosen_words(void)
{
	static _Atomic(crc32c_words *) known;
	crc32c_words *found = atomic_load_explicit(&known, memory_order_relaxed);

	if (!found) {
		found = choose_words();
		atomic_store_explicit(&known, found, memory_order_relaxed);
	}
	return found;
}

uint32_t flmem_crc32c_portable(uint32_t crc, const void *bytes, size_t length)
{
	const char *at = bytes;

	crc = ~crc;
	for (size_t i = 0; i < length; i++)
		crc = update_byte(crc, (unsigned char)at[i]);
	return ~crc;
}

uint32_t flmem_crc32c(uint32_t crc, const void *bytes, size_t length)
{
	crc32c_words *update = chosen_words();
	size_t words = update == update_no_words ? 0 : length / 8;

	crc = ~update(~crc, bytes, words);
	return flmem_crc32c_portable(crc, (const char *)bytes + 8 * words, length - 8 * words);
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
