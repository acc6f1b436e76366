/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "remote/arch.h"
#include "remote/chain.h"

static void data_keeps_its_place(void **state)
{
	struct flmem_chain chain = {0};
	uint64_t name, number;

	(void)state;
	name = flmem_chain_put_string(&chain, "arena.4096.purge");
	number = flmem_chain_put(&chain, NULL, 8);
	assert_int_equal(name, 0);
	assert_int_equal(number, 32); /* 17 bytes, then aligned to 16 */
	assert_string_equal((char *)chain.data + name, "arena.4096.purge");
	assert_false(chain.overflow);
}

static void too_much_is_remembered_not_written(void **state)
{
	struct flmem_chain chain = {0};

	(void)state;
	for (size_t i = 0; i < FLMEM_CHAIN_CALLS; i++)
		flmem_chain_add(&chain, "call", i);
	assert_false(chain.overflow);
	flmem_chain_add(&chain, "one more", 1);
	assert_true(chain.overflow);
	assert_int_equal(chain.count, FLMEM_CHAIN_CALLS);
	chain = (struct flmem_chain){0};
	flmem_chain_put(&chain, NULL, FLMEM_CHAIN_DATA);
	assert_false(chain.overflow);
	flmem_chain_put(&chain, NULL, 1);
	assert_true(chain.overflow);
}

#ifdef __x86_64__
static struct flmem_scratch *new_scratch(size_t area_length)
{
	struct flmem_scratch *scratch = calloc(1, sizeof(*scratch));

	assert_non_null(scratch);
	scratch->capacity = FLMEM_SCRATCH_MAX + area_length;
	scratch->bytes = malloc(scratch->capacity);
	assert_non_null(scratch->bytes);
	return scratch;
}

static void free_scratch(struct flmem_scratch *scratch)
{
	free(scratch->bytes);
	free(scratch);
}

static void frames_lie_below_the_red_zone_and_are_aligned(void **state)
{
	struct flmem_thread_state *thread = calloc(1, sizeof(*thread));
	struct flmem_scratch *scratch = new_scratch(0);
	struct flmem_chain chain = {0};

	(void)state;
	assert_non_null(thread);
	flmem_chain_put(&chain, NULL, 100);
	flmem_chain_add(&chain, "first", 0x1000)->args[0] = 7;
	flmem_chain_add(&chain, "second", 0x2000)->data_args = 1;
	thread->xstate_length = 2696;
	/* Whatever the stack pointer is, each call starts at 8 modulo 16 as the ABI requires. */
	for (uint64_t sp = 0x7fff00010000; sp < 0x7fff00010040; sp += 8) {
		uint64_t end;

		thread->regs.rsp = sp;
		assert_int_equal(flmem_arch_build(thread, &chain, 0x4000, scratch, NULL), 0);
		end = scratch->address + scratch->length;
		assert_true(end <= sp - 128);
		assert_int_equal(scratch->address % 16, 8);
		assert_int_equal((scratch->address + 320) % 16, 8);
		assert_true(scratch->data > scratch->address && scratch->data + 100 < end);
		assert_int_equal(*(uint64_t *)(void *)scratch->bytes, 0x4000);
	}
	free(thread);
	free_scratch(scratch);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct flmem_thread_state *thread = calloc(1, sizeof(*thread));
	struct flmem_scratch *scratch = new_scratch(0);
	struct flmem_chain chain = {0};

	(void)state;
	assert_non_null(thread);
	assert_non_null(scratch);
	thread->xstate_length = 2696;
	thread->regs.rsp = 0x7fff00010000;
	assert_int_equal(flmem_arch_build(thread, &chain, 1, scratch, NULL), FLMEM_EUNSAFE);
	flmem_chain_add(&chain, "call", 1);
	thread->regs.rsp = 4096;
	assert_int_equal(flmem_arch_build(thread, &chain, 1, scratch, NULL), FLMEM_EUNSAFE);
	thread->regs.rsp = 0x7fff00010000;
	chain.overflow = true;
	assert_int_equal(flmem_arch_build(thread, &chain, 1, scratch, NULL), FLMEM_EUNSAFE);
	free(thread);
	free_scratch(scratch);
}
static void an_area_lies_beside_the_data_and_is_passed_by_offset(void **state)
{
	static unsigned char bytes[5000];
	struct flmem_thread_state *thread = calloc(1, sizeof(*thread));
	struct flmem_scratch *scratch = new_scratch(sizeof(bytes));
	struct flmem_chain chain = {.area = {.bytes = bytes, .length = sizeof(bytes)}};
	struct flmem_call *call = flmem_chain_add(&chain, "call", 0x1000);
	uint64_t number, argument;

	(void)state;
	assert_non_null(thread);
	memset(bytes, 0x5a, sizeof(bytes));
	flmem_chain_put(&chain, NULL, 100);
	call->args[0] = 4000;
	call->area_args = 1;
	thread->xstate_length = 2696;
	thread->regs.rsp = 0x7fff00010000;
	assert_int_equal(flmem_arch_build(thread, &chain, 0x4000, scratch, NULL), 0);
	assert_true(scratch->area >= scratch->data + 100);
	assert_true(scratch->area + sizeof(bytes) <= scratch->address + scratch->length);
	assert_memory_equal(scratch->bytes + (scratch->area - scratch->address), bytes,
			    sizeof(bytes));
	number = scratch->area + 4000;
	/* rdi follows the restorer, five words of ucontext and the eight of r8 to r15. */
	memcpy(&argument, scratch->bytes + (size_t)8 * (1 + 5 + 8), sizeof(argument));
	assert_int_equal(argument, number);
	chain.area.length = sizeof(bytes) + FLMEM_SCRATCH_MAX;
	assert_int_equal(flmem_arch_build(thread, &chain, 1, scratch, NULL), FLMEM_EUNSAFE);
	free(thread);
	free_scratch(scratch);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_keeps_its_place),
		cmocka_unit_test(too_much_is_remembered_not_written),
#ifdef __x86_64__
		cmocka_unit_test(frames_lie_below_the_red_zone_and_are_aligned),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(an_area_lies_beside_the_data_and_is_passed_by_offset),
#endif
	};

	return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}
