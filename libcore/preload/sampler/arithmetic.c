/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Random gaps between samples, and the weights that make sums of samples unbiased. No libm.
 *
 * malloc() computes with whole numbers. So the program may have it called with any rounding, with
 * exceptions that raise SIGFPE (feenableexcept()), and reads the flags of its own operations after
 * it: what is computed here has an environment of its own, as feholdexcept() makes one.
 */

#include "preload/sampler/sampler.h"

#define LN2 0.69314718055994530942

/* Whatever computes in between is not inlined, so that none of it is moved out. */
#define COMPUTES __attribute__((noinline))

#ifdef __x86_64__
#define MASKED_TO_NEAREST 0x1f80U
#define RAISED_FLAGS	  0x003fU

static inline uint32_t read_environment(void)
{
	uint32_t there;

	__asm__ volatile("stmxcsr %0" : "=m"(there) : : "memory");
	return there;
}

/* Loading it takes longer than the arithmetic itself: most programs have what is needed. */
static inline uint64_t enter_arithmetic(void)
{
	uint32_t before = read_environment(), own = MASKED_TO_NEAREST;

	if ((before & ~RAISED_FLAGS) != own)
		__asm__ volatile("ldmxcsr %0" : : "m"(own) : "memory");
	return before;
}

static inline void leave_arithmetic(uint64_t before)
{
	uint32_t there = (uint32_t)before;

	if (read_environment() != there)
		__asm__ volatile("ldmxcsr %0" : : "m"(there) : "memory");
}
#else
/* FPCR has the rounding and what traps, FPSR the flags; 32 bits each. */
static inline uint64_t enter_arithmetic(void)
{
	uint64_t control, status;

	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr\n\tmsr fpcr, xzr"
			 : "=&r"(control), "=&r"(status)
			 :
			 : "memory");
	return control << 32 | (uint32_t)status;
}

static inline void leave_arithmetic(uint64_t before)
{
	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
			 :
			 : "r"(before >> 32), "r"(before & UINT32_MAX)
			 : "memory");
}
#endif

/* xorshift64*; never 0 when seeded with something else. */
static uint64_t next_gap_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(2685821657736338717);
}

/* Natural logarithm of a whole number from 1 to 2^53: exponent, then the series of atanh. */
static double log_of_whole(uint64_t value)
{
	int exponent = 63 - __builtin_clzll(value);
	double m = (double)value / (double)(UINT64_C(1) << exponent); /* 1 to 2 */
	double z, square, term, sum = 0;

	if (m > 1.41421356237309505) {
		m /= 2;
		exponent++;
	}
	z = (m - 1) / (m + 1);
	square = z * z;
	term = z;
	for (int i = 1; i < 22; i += 2) {
		sum += term / i;
		term *= square;
	}
	return 2 * sum + exponent * LN2;
}

/* exp(-x) for x from 0 to 40: a series for x / 64, then six squarings. */
static double exp_of_negative(double x)
{
	double y = -x / 64, term = 1, sum = 1;

	for (int i = 1; i < 12; i++) {
		term *= y / i;
		sum += term;
	}
	for (int i = 0; i < 6; i++)
		sum *= sum;
	return sum;
}

static COMPUTES void draw_gap(uint64_t *random, uint64_t interval, uint64_t *ret_gap)
{
	uint64_t number = (next_gap_random(random) >> 11) + 1; /* 1 to 2^53 */
	double gap = (53 * LN2 - log_of_whole(number)) * (double)interval;

	*ret_gap = (uint64_t)gap;
}

uint64_t sampler_draw_gap(uint64_t *random, uint64_t interval)
{
	uint64_t before = enter_arithmetic(), gap;

	draw_gap(random, interval, &gap);
	leave_arithmetic(before);
	return gap;
}

/* 1 - exp(-x), also where x is small and the difference would lose all digits. */
static double chance_of(double x)
{
	if (x > 40)
		return 1;
	if (x < 0.05)
		return x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
	return 1 - exp_of_negative(x);
}

static COMPUTES void weigh_sample(uint64_t size, uint64_t interval, uint64_t *ret_bytes,
				  uint64_t *ret_count)
{
	double chance = chance_of((double)size / (double)interval);

	*ret_bytes = (uint64_t)((double)size / chance + 0.5);
	*ret_count = (uint64_t)(FLMEM_PROFILE_COUNT_UNIT / chance + 0.5);
}

void sampler_weigh(uint64_t size, uint64_t interval, uint64_t *ret_bytes, uint64_t *ret_count)
{
	uint64_t before = enter_arithmetic();

	weigh_sample(size, interval, ret_bytes, ret_count);
	leave_arithmetic(before);
}
