/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_PROCESSOR_H
#define FLMEM_BASE_PROCESSOR_H

/*
 * Reports which instructions this processor and its kernel support. It replaces
 * __builtin_cpu_supports(), which needs a library that not every compiler has.
 */

#include <stdbool.h>
#include <stdint.h>

#ifdef __x86_64__
#include <cpuid.h>

/* Bits of cpuid leaf 1 (ecx) and leaf 7 (ebx), and of XCR0 (Intel SDM, volume 1, chapter 13). */
#define FLMEM_CPUID_1_PCLMUL	    (1U << 1)
#define FLMEM_CPUID_1_SSE42	    (1U << 20)
#define FLMEM_CPUID_1_OSXSAVE	    (1U << 27)
#define FLMEM_CPUID_1_AVX_F16C	    (3U << 28)
#define FLMEM_CPUID_7_AVX2	    (1U << 5)
#define FLMEM_CPUID_7_AVX512FDQBWVL (1U << 16 | 1U << 17 | 1U << 30 | 1U << 31)
#define FLMEM_XCR0_AVX		    0x06U
#define FLMEM_XCR0_AVX512	    0xe6U

/* True if the kernel saves these registers at a switch of threads. */
static inline bool flmem_processor_saves(uint32_t state)
{
	uint32_t low, high;

	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & state) == state;
}

static inline bool flmem_processor_has(uint32_t leaf1, uint32_t leaf7, uint32_t state)
{
	uint32_t a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf1) != leaf1)
		return false;
	if (state && (!(c & FLMEM_CPUID_1_OSXSAVE) || !flmem_processor_saves(state)))
		return false;
	return !leaf7 || (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & leaf7) == leaf7);
}

static inline bool flmem_processor_has_crc32(void)
{
	return flmem_processor_has(FLMEM_CPUID_1_SSE42, 0, 0);
}

static inline bool flmem_processor_has_carryless_product(void)
{
	return flmem_processor_has(FLMEM_CPUID_1_PCLMUL, 0, 0);
}

static inline bool flmem_processor_has_avx2_f16c(void)
{
	return flmem_processor_has(FLMEM_CPUID_1_AVX_F16C, FLMEM_CPUID_7_AVX2, FLMEM_XCR0_AVX);
}

static inline bool flmem_processor_has_avx512(void)
{
	return flmem_processor_has(FLMEM_CPUID_1_AVX_F16C, FLMEM_CPUID_7_AVX512FDQBWVL,
				   FLMEM_XCR0_AVX512);
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

#define FLMEM_HWCAP_CRC32 (1UL << 7) /* arch/arm64/include/uapi/asm/hwcap.h */

static inline bool flmem_processor_has_crc32(void)
{
	return getauxval(AT_HWCAP) & FLMEM_HWCAP_CRC32;
}
#else
static inline bool flmem_processor_has_crc32(void)
{
	return false;
}
#endif

#endif
