/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels_list.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

static bool has_neon(void)
{
	return getauxval(AT_HWCAP) & HWCAP_ASIMD;
}

/*
 * FCVTXN rounds a double to a float to odd. A second rounding, to a type with at least two digits
 * less, then gives what one rounding would (Arm ARM, C7.2).
 */
static inline float32x4_t to_odd(const double *from)
{
	return vcvtx_high_f32_f64(vcvtx_f32_f64(vld1q_f64(from)), vld1q_f64(from + 2));
}

/* Returns all ones in each lane whose number is not NaN. */
static inline uint32x4_t are_numbers(const double *from)
{
	float64x2_t low = vld1q_f64(from), high = vld1q_f64(from + 2);

	return vcombine_u32(vmovn_u64(vceqq_f64(low, low)), vmovn_u64(vceqq_f64(high, high)));
}

static inline void widen_floats(float32x4_t from, double *to)
{
	vst1q_f64(to, vcvt_f64_f32(vget_low_f32(from)));
	vst1q_f64(to + 2, vcvt_high_f64_f32(from));
}

static inline void load_halves(const uint16_t *from, double *to)
{
	widen_floats(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))), to);
}

static inline void store_halves(const double *from, uint16_t *to)
{
	uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(to_odd(from)));

	vst1_u16(to, vbsl_u16(vmovn_u32(are_numbers(from)), halves, vdup_n_u16(0x7e00)));
}

static inline void load_bfloats(const uint16_t *from, double *to)
{
	widen_floats(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16)), to);
}

/* Rounds to nearest, ties to even, on the bits: a carry from the fraction raises the exponent. */
static inline void store_bfloats(const double *from, uint16_t *to)
{
	uint32x4_t bits = vreinterpretq_u32_f32(to_odd(from));
	uint32x4_t even = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
	uint32x4_t sum = vaddq_u32(bits, vaddq_u32(even, vdupq_n_u32(0x7fff)));
	uint32x4_t infinite =
		vceqq_u32(vandq_u32(bits, vdupq_n_u32(0x7fffffff)), vdupq_n_u32(0x7f800000));
	uint16x4_t brains = vshrn_n_u32(vbslq_u32(infinite, bits, sum), 16);

	vst1_u16(to, vbsl_u16(vmovn_u32(are_numbers(from)), brains, vdup_n_u16(0x7fc0)));
}

/* Applies `load` to four elements at a time; the last ones pass through an array of four. */
static void load_by_four(const void *from, double *to, size_t count,
			 void load(const uint16_t *, double *))
{
	const uint16_t *x = from;
	uint16_t rest[4] = {0};
	double last[4];
	size_t i = 0;

	for (; i + 4 <= count; i += 4)
		load(x + i, to + i);
	for (size_t k = 0; i + k < count; k++)
		rest[k] = x[i + k];
	load(rest, last);
	for (size_t k = 0; i + k < count; k++)
		to[i + k] = last[k];
}

static void store_by_four(const double *from, void *to, size_t count,
			  void store(const double *, uint16_t *))
{
	uint16_t *x = to, last[4];
	double rest[4] = {0};
	size_t i = 0;

	for (; i + 4 <= count; i += 4)
		store(from + i, x + i);
	for (size_t k = 0; i + k < count; k++)
		rest[k] = from[i + k];
	store(rest, last);
	for (size_t k = 0; i + k < count; k++)
		x[i + k] = last[k];
}

static void load_f16(const void *from, double *to, size_t count)
{
	load_by_four(from, to, count, load_halves);
}

static void store_f16(const double *from, void *to, size_t count)
{
	store_by_four(from, to, count, store_halves);
}

static void load_bf16(const void *from, double *to, size_t count)
{
	load_by_four(from, to, count, load_bfloats);
}

static void store_bf16(const double *from, void *to, size_t count)
{
	store_by_four(from, to, count, store_bfloats);
}

#define KERNELS		   flmem_kernels_neon
#define KERNELS_NAME	   "neon"
#define KERNELS_SUPPORTED  has_neon
#define KERNELS_OWN_HALVES /* this file has the functions for F16 and BF16 */
#include "aggregate/kernels_body.inc"
#endif
