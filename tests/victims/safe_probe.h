/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAFE_PROBE_H
#define SAFE_PROBE_H

/*
 * Makes one system call, with nothing in between that could hide what happened to the thread while
 * it was blocked: every register that the kernel preserves, the whole x87/SSE/AVX/AVX-512 state and
 * the red zone hold random values before the call and are compared after it. safe_probe_aarch64.c
 * does the same with the registers of that processor, which are kept elsewhere than below.
 */

#include <stdbool.h>
#include <stdint.h>

struct probe {
	uint64_t number;
	uint64_t args[6];
	uint64_t result; /* as the kernel returned it: -errno on failure */
	/* The other fields are private to the probe. */
	uint64_t kept_in[6]; /* rbx rbp r12 r13 r14 r15 */
	uint64_t kept_out[6];
	uint64_t args_out[6]; /* rdi rsi rdx r10 r8 r9 */
	uint64_t red_zone_whole;
	uint64_t flags_out;  /* r11: rflags at the system call */
	uint64_t components; /* state components that are checked */
	void *vectors_in;
	void *vectors_out;
	void *vectors_clean;
	uint64_t present; /* those of `components` that are not in their initial state */
};

/* Determines what state this processor has. Call it once, before the first probe. */
void probe_init(struct probe *probe);

/*
 * Includes the AMX tiles, which a thread must request and which make its saved state four times as
 * large from their first use. False when this machine has none.
 */
bool probe_use_tiles(struct probe *probe);

/* Makes the system call of `number` and `args`; damage is recorded with victim_fail(). */
int64_t probe_call(struct probe *probe, uint32_t seed);

#endif
