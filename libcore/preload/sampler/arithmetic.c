/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Random gaps between samples, and the weights that make sums of samples unbiased. No libm.
 *
 * What a thread allocates is one row of bytes, divided into parts of `interval` bytes. One byte of
 * each part, drawn evenly, is its point, and a block with a point in it is sampled. The chance of
 * that follows from where the block lies. Points of a Poisson process are as many for small blocks,
 * but sums differ more: here neighbours exclude each other, and a block that fills a part is sure
 * to be sampled. Points of different parts are independent: no period of the program meets them.
 *
 * malloc() computes with whole numbers. So the program may have it called with any rounding, with
 * exceptions that raise SIGFPE (feenableexcept()), and reads the flags of its own operations after
 * it: what is computed here has its own environment, as feholdexcept() makes one.
 */

#include "preload/sampler/sampler.h"

#define GAP_FACTOR UINT64_C(2685821657736338717)

#define HALVINGS    2U
#define LATER_STEPS 12U

/*
 * Functions with this attribute are not inlined, so that the compiler cannot move arithmetic out of
 * the saved environment.
 */
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

/*
 * Loading the mode takes longer than the arithmetic itself: most programs already have the right
 * one.
 */
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
/* FPCR has the rounding mode and the enabled traps, FPSR has the flags. Both have 32 bits. */
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

/* Draws the next number with xorshift64*; the state is never 0 when the seed is not 0. */
static uint64_t next_gap_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * GAP_FACTOR;
}

/* Maps a random number to a point, uniform from 0 to interval - 1. */
static uint64_t point_of(uint64_t number, uint64_t interval)
{
	__extension__ typedef unsigned __int128 wide;

	return (uint64_t)((wide)number * interval >> 64);
}

static uint64_t draw_point(uint64_t *random, uint64_t interval)
{
	return point_of(next_gap_random(random), interval);
}

uint64_t sampler_last_point(uint64_t random, uint64_t interval)
{
	return point_of(random * GAP_FACTOR, interval);
}

uint64_t sampler_draw_gap(uint64_t *random, uint64_t end, uint64_t interval, uint64_t next)
{
	uint64_t passed, point;

	if (end < interval)
		return interval - end + draw_point(random, next);
	/* The block extends into other parts; the point of the last one may lie in it, too. */
	passed = (end - interval) % next;
	point = draw_point(random, next);
	return point >= passed ? point - passed : next - passed + draw_point(random, next);
}

/*
 * Returns the chance of at least one point in a block, of which `bytes` are the lengths in each of
 * three parts.
 */
static double chance_of(const uint64_t bytes[3], uint64_t interval)
{
	double chance = 0;

	for (int i = 0; i < 3; i++) {
		if (bytes[i] >= interval)
			return 1;
		chance += (double)bytes[i] / (double)interval * (1 - chance);
	}
	return chance;
}

static COMPUTES void weigh_sample(uint64_t size, uint64_t end, uint64_t interval,
				  uint64_t *ret_bytes, uint64_t *ret_count)
{
	uint64_t before = size > end ? size - end : 0;
	uint64_t behind = end > interval ? end - interval : 0;
	const uint64_t bytes[3] = {before, size - before - behind, behind};
	double chance = chance_of(bytes, interval);

	*ret_bytes = (uint64_t)((double)size / chance + 0.5);
	*ret_count = (uint64_t)(FLMEM_PROFILE_COUNT_UNIT / chance + 0.5);
}

/*
 * Only three quarters of the table are used. The first steps halve the remaining part of them. The
 * rest is divided equally, so that each later step covers twice as much memory as the one before:
 * the heap may grow a thousandfold before the table is full.
 */
uint32_t sampler_live_limit(uint32_t slots, uint32_t steps)
{
	uint32_t halvings = steps < HALVINGS ? steps : HALVINGS, later = steps - halvings;
	uint32_t left = slots / 4 >> halvings;

	return slots / 2 + slots / 4 - left +
	       left / LATER_STEPS * (later < LATER_STEPS ? later : LATER_STEPS);
}

void sampler_weigh(uint64_t size, uint64_t end, uint64_t interval, uint64_t *ret_bytes,
		   uint64_t *ret_count)
{
	uint64_t before = enter_arithmetic();

	weigh_sample(size, end, interval, ret_bytes, ret_count);
	leave_arithmetic(before);
}
