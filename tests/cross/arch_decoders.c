/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what flmem concludes from machine code of aarch64: calls before a return address, and the
 * place of errno. Runs in an emulator (tests/cross/frames), on its own code.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proc/process.h"
#include "remote/checks/call_sites.h"
#include "remote/errno_code.h"

#include "checked.h"

/* Reads memory of this process; an address that is too low cannot be read. */
int flmem_process_read_memory(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length)
{
	(void)process;
	if (address < 4096)
		return -EFAULT;
	memcpy(out, (const void *)(uintptr_t)address, length);
	return 0;
}

extern const char after_stub[], after_landing_stub[], after_own[], after_pointer[], after_signed[],
	after_signed_zero[], after_jump[], after_nothing[];
extern const uint64_t slot[];

/* Code that is decoded and never executed. */
__asm__(".text\n.p2align 2\n"
	"stub:	adrp x16, slot\n	ldr x17, [x16, :lo12:slot]\n"
	"	add x16, x16, :lo12:slot\n	br x17\n"
	"landing_stub: hint #34\n	adrp x16, slot\n	ldr x17, [x16, :lo12:slot]\n"
	"	add x16, x16, :lo12:slot\n	br x17\n"
	"own:	ret\n	nop\n	nop\n"
	"	bl stub\nafter_stub:\n"
	"	bl landing_stub\nafter_landing_stub:\n"
	"	bl own\nafter_own:\n"
	"	blr x9\nafter_pointer:\n"
	"	.inst 0xd73f092a\nafter_signed:\n"	/* blraa x9, x10 */
	"	.inst 0xd63f0d3f\nafter_signed_zero:\n" /* blrabz x9 */
	"	br x9\nafter_jump:\n"
	"	nop\nafter_nothing:\n"
	"	nop\n	nop\n	nop\n"
	".data\n.p2align 3\nslot: .quad 0x123456789abc\n.text\n"
	".globl after_stub, after_landing_stub, after_own, after_pointer, after_signed\n"
	".globl after_signed_zero, after_jump, after_nothing, slot\n");

static enum flmem_call_kind kind_before(const char *place, uint64_t *ret_target)
{
	*ret_target = 0;
	return flmem_call_before(NULL, (uint64_t)(uintptr_t)place, ret_target);
}

static void calls_that_leave_are_known(void)
{
	uint64_t target;

	CHECK(kind_before(after_stub, &target) == FLMEM_CALL_STUB && target == slot[0]);
	CHECK(kind_before(after_landing_stub, &target) == FLMEM_CALL_STUB && target == slot[0]);
	CHECK(kind_before(after_own, &target) == FLMEM_CALL_DIRECT);
	CHECK(kind_before(after_pointer, &target) == FLMEM_CALL_INDIRECT);
	CHECK(kind_before(after_signed, &target) == FLMEM_CALL_INDIRECT);
	CHECK(kind_before(after_signed_zero, &target) == FLMEM_CALL_INDIRECT);
	CHECK(kind_before(after_jump, &target) == FLMEM_CALL_NONE);
	CHECK(kind_before(after_nothing, &target) == FLMEM_CALL_NONE);
	CHECK(kind_before(after_pointer + 1, &target) == FLMEM_CALL_NONE);
	CHECK(kind_before((const char *)2, &target) == FLMEM_CALL_NONE);
}

static void expect_errno(const uint32_t *code, bool known, int64_t wanted)
{
	int64_t distance = 0;
	unsigned char bytes[FLMEM_ERRNO_CODE_BYTES] = {0};

	memcpy(bytes, code, sizeof(bytes));
	CHECK(flmem_errno_decode(NULL, (uint64_t)(uintptr_t)code, bytes, &distance) == known);
	CHECK(!known || distance == wanted);
}

static void the_place_of_errno_is_known(void)
{
	/* mrs x0, tpidr_el0; sub x0, x0, #160; ret: musl */
	static const uint32_t musl[8] = {0xd53bd040, 0xd1028000, 0xd65f03c0};
	/* bti c; mrs x0, tpidr_el0; add x0, x0, #1, lsl #12; add x0, x0, #16; ret */
	static const uint32_t executable[8] = {0xd503245f, 0xd53bd040, 0x91400400, 0x91004000,
					       0xd65f03c0};
	/* add x0, x1, x1 instead of the thread pointer */
	static const uint32_t other[8] = {0xd53bd041, 0x8b010020, 0xd65f03c0};
	/* stp x29, x30, [sp, #-16]!: calls something */
	static const uint32_t calls[8] = {0xa9bf7bfd, 0xd53bd040, 0xd65f03c0};
	/* mrs x0, tpidr_el0 and no end */
	static const uint32_t endless[8] = {0xd53bd040, 0xd503201f, 0xd503201f, 0xd503201f,
					    0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f};
	const uintptr_t own = (uintptr_t)__errno_location;
	const int64_t place = (int64_t)((uintptr_t)&errno - (uintptr_t)__builtin_thread_pointer());

	expect_errno(musl, true, -160);
	expect_errno(executable, true, 4112);
	expect_errno(other, false, 0);
	expect_errno(calls, false, 0);
	expect_errno(endless, false, 0);
	expect_errno((const uint32_t *)own, true, place);
}

int main(void)
{
	calls_that_leave_are_known();
	the_place_of_errno_is_known();
	if (failures)
		return 1;
	return puts("aarch64: calls and the place of errno as they should be") < 0;
}
