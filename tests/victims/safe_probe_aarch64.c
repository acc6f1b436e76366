/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__

#include "safe_probe.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "safe_common.h"

/*
 * The kernel preserves every register but x0. If it continues a wait by restart_syscall(2), it
 * leaves that number in x8.
 */
#define REGISTERS     31U
#define VECTOR_BYTES  512U
#define NUMBER	      8U
#define ROUND_TO_ZERO (UINT64_C(3) << 22)
#define FLAGS_SET     (UINT64_C(1) << 27 | 0x1f) /* saturation, and every exception flag */

static struct {
	uint64_t registers_in[REGISTERS];
	uint64_t registers_out[REGISTERS];
	_Alignas(16) unsigned char vectors_in[VECTOR_BYTES];
	unsigned char vectors_out[VECTOR_BYTES];
	uint64_t control_in, flags_in;
	uint64_t control_out, flags_out;
} area;

_Static_assert(offsetof(__typeof__(area), registers_out) == 248,
	       "the assembler knows these offsets");
_Static_assert(offsetof(__typeof__(area), vectors_in) == 496, "the assembler knows these offsets");
_Static_assert(offsetof(__typeof__(area), vectors_out) == 1008,
	       "the assembler knows these offsets");
_Static_assert(offsetof(__typeof__(area), control_in) == 1520, "the assembler knows these offsets");
_Static_assert(offsetof(__typeof__(area), control_out) == 1536,
	       "the assembler knows these offsets");

void probe_enter(void *own);

#define QUADS(store)                                                                      \
	store " {v0.2d-v3.2d}, [x9], #64\n" store " {v4.2d-v7.2d}, [x9], #64\n" store     \
	      " {v8.2d-v11.2d}, [x9], #64\n" store " {v12.2d-v15.2d}, [x9], #64\n" store  \
	      " {v16.2d-v19.2d}, [x9], #64\n" store " {v20.2d-v23.2d}, [x9], #64\n" store \
	      " {v24.2d-v27.2d}, [x9], #64\n" store " {v28.2d-v31.2d}, [x9], #64\n"

/* Makes the call. Meanwhile the address of the area is the second word above the stack pointer. */
__asm__(".text\n"
	".globl probe_enter\n"
	".type probe_enter, %function\n"
	"probe_enter:\n"
	"	stp x29, x30, [sp, #-176]!\n"
	"	stp x19, x20, [sp, #16]\n	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n	stp x25, x26, [sp, #64]\n"
	"	stp x27, x28, [sp, #80]\n	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n	stp x18, x0, [sp, #160]\n"
	"	add x9, x0, #496\n" QUADS(
		"ld1") "	add x9, x0, #1520\n"
		       "	ldp x10, x11, [x9]\n	msr fpcr, x10\n	msr fpsr, x11\n"
		       "	ldp x1, x2, [x0, #8]\n	ldp x3, x4, [x0, #24]\n"
		       "	ldp x5, x6, [x0, #40]\n	ldp x7, x8, [x0, #56]\n"
		       "	ldp x9, x10, [x0, #72]\n	ldp x11, x12, [x0, #88]\n"
		       "	ldp x13, x14, [x0, #104]\n	ldp x15, x16, [x0, #120]\n"
		       "	ldp x17, x18, [x0, #136]\n	ldp x19, x20, [x0, #152]\n"
		       "	ldp x21, x22, [x0, #168]\n	ldp x23, x24, [x0, #184]\n"
		       "	ldp x25, x26, [x0, #200]\n	ldp x27, x28, [x0, #216]\n"
		       "	ldp x29, x30, [x0, #232]\n"
		       "	ldr x0, [x0]\n"
		       "	svc #0\n"
		       "	stp x0, x1, [sp, #-16]!\n"
		       "	ldr x0, [sp, #184]\n"
		       "	add x0, x0, #248\n"
		       "	stp x2, x3, [x0, #16]\n	stp x4, x5, [x0, #32]\n"
		       "	stp x6, x7, [x0, #48]\n	stp x8, x9, [x0, #64]\n"
		       "	stp x10, x11, [x0, #80]\n	stp x12, x13, [x0, #96]\n"
		       "	stp x14, x15, [x0, #112]\n	stp x16, x17, [x0, #128]\n"
		       "	stp x18, x19, [x0, #144]\n	stp x20, x21, [x0, #160]\n"
		       "	stp x22, x23, [x0, #176]\n	stp x24, x25, [x0, #192]\n"
		       "	stp x26, x27, [x0, #208]\n	stp x28, x29, [x0, #224]\n"
		       "	str x30, [x0, #240]\n"
		       "	ldp x2, x3, [sp], #16\n"
		       "	stp x2, x3, [x0]\n"
		       "	sub x0, x0, #248\n"
		       "	add x9, x0, #1008\n" QUADS(
			       "st1") "	add x9, x0, #1536\n"
				      "	mrs x10, fpcr\n	mrs x11, fpsr\n	stp x10, x11, [x9]\n"
				      "	msr fpcr, xzr\n	msr fpsr, xzr\n"
				      "	ldp x19, x20, [sp, #16]\n	ldp x21, x22, [sp, #32]\n"
				      "	ldp x23, x24, [sp, #48]\n	ldp x25, x26, [sp, #64]\n"
				      "	ldp x27, x28, [sp, #80]\n	ldp d8, d9, [sp, #96]\n"
				      "	ldp d10, d11, [sp, #112]\n	ldp d12, d13, [sp, #128]\n"
				      "	ldp d14, d15, [sp, #144]\n	ldr x18, [sp, #160]\n"
				      "	ldp x29, x30, [sp], #176\n"
				      "	ret\n"
				      ".size probe_enter, .-probe_enter\n");

void probe_init(struct probe *probe)
{
	memset(probe, 0, sizeof(*probe));
}

/* Tiles exist with AMX alone. */
bool probe_use_tiles(struct probe *probe)
{
	(void)probe;
	return false;
}

static void randomise(const struct probe *probe, uint32_t seed)
{
	uint32_t random = seed | 1;

	for (size_t i = 0; i < REGISTERS; i++)
		area.registers_in[i] = (uint64_t)random_next(&random) << 32 | random_next(&random);
	memcpy(area.registers_in, probe->args, sizeof(probe->args));
	area.registers_in[NUMBER] = probe->number;
	for (size_t i = 0; i < VECTOR_BYTES; i++)
		area.vectors_in[i] = (unsigned char)random_next(&random);
	memset(area.vectors_out, 0, sizeof(area.vectors_out));
	area.control_in = ROUND_TO_ZERO;
	area.flags_in = FLAGS_SET;
}

static bool is_kept(size_t number)
{
	return area.registers_in[number] == area.registers_out[number] ||
	       (number == NUMBER && area.registers_out[number] == SYS_restart_syscall);
}

int64_t probe_call(struct probe *probe, uint32_t seed)
{
	randomise(probe, seed);
	probe_enter(&area);
	for (size_t i = 1; i < REGISTERS; i++)
		if (!is_kept(i))
			victim_fail("register x%zu changed across the system call", i);
	if (memcmp(area.vectors_in, area.vectors_out, VECTOR_BYTES) != 0)
		victim_fail("a vector register changed across the system call");
	if (area.control_in != area.control_out || area.flags_in != area.flags_out)
		victim_fail("the floating-point state changed across the system call");
	probe->result = area.registers_out[0];
	return (int64_t)probe->result;
}

#else
typedef int safe_probe_aarch64_unused;
#endif
