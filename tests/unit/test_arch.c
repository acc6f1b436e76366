/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the registers of a borrowed thread, step by step, on a child that the test itself traces.
 */
#include "borrowed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "remote/arch.h"
#include "remote/gadgets.h"

#define FLAG_TRAP    0x100U
#define FLAG_REVERSE 0x400U
#define RESTORER     0x400000U
#define WORD(index)  (UINT64_C(8) * (index))

#ifdef __x86_64__
static pid_t child;

static void be_child(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (;;)
		pause();
}

static bool is_in_pause(void)
{
	char path[40], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child);
	file = fopen(path, "re");
	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	if (file)
		fclose(file);
	return strncmp(text, "34 ", 3) == 0;
}

/* A child that is blocked in pause(), traced by this test. */
static int stop_child(void **state)
{
	int status;

	(void)state;
	child = child_start(be_child);
	await_true(is_in_pause());
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) < 0)
		return 0; /* the tests skip */
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, __WALL), child);
	assert_true(WIFSTOPPED(status));
	return 0;
}

static int end_child(void **state)
{
	(void)state;
	child_end(child);
	return 0;
}

static struct flmem_thread_state *read_child(void)
{
	struct flmem_thread_state *thread = calloc(1, sizeof(*thread));

	assert_non_null(thread);
	if (flmem_arch_read_registers(child, thread)) {
		free(thread);
		print_message("SKIP: children may not be traced here\n");
		skip();
	}
	assert_int_equal(flmem_arch_read_rest(child, thread), 0);
	return thread;
}

static void what_is_armed_begins_clean(void **state)
{
	struct flmem_thread_state *thread = read_child();
	struct flmem_thread_state *now = calloc(1, sizeof(*now));
	const struct flmem_scratch scratch = {.entry = 0x7fff00001008};
	uint64_t signals = ~(uint64_t)0;

	(void)state;
	assert_non_null(now);
	thread->regs.eflags |= FLAG_TRAP | FLAG_REVERSE;
	assert_int_equal(flmem_arch_arm(child, thread, &scratch, RESTORER), 0);
	assert_int_equal(flmem_arch_read_registers(child, now), 0);
	assert_int_equal(now->regs.eflags & (FLAG_TRAP | FLAG_REVERSE), 0);
	assert_int_equal(now->regs.rip, RESTORER);
	assert_int_equal(now->regs.rsp, scratch.entry);
	/*
	 * Otherwise the kernel would take the restorer's first instruction for an interrupted call.
	 */
	assert_int_equal((long)now->regs.orig_rax, -1);
	assert_int_equal(now->regs.rax, 0);
	assert_int_equal(ptrace(PTRACE_GETSIGMASK, child, sizeof(signals), &signals), 0);
	assert_true(signals >> (SIGUSR1 - 1) & 1U);
	assert_true(signals >> (SIGINT - 1) & 1U);
	assert_false(signals >> (SIGSEGV - 1) & 1U);
	assert_false(signals >> (SIGTRAP - 1) & 1U);
	assert_false(signals >> (33 - 1) & 1U);
	free(now);
	free(thread);
}

static void what_is_restored_is_what_was_read(void **state)
{
	struct flmem_thread_state *thread = read_child();
	struct flmem_thread_state *now = calloc(1, sizeof(*now));
	const struct flmem_scratch scratch = {.entry = 0x7fff00001008};

	(void)state;
	assert_non_null(now);
	assert_int_equal(thread->signal_mask, UINT64_C(1) << (SIGUSR2 - 1));
	assert_int_equal(flmem_arch_arm(child, thread, &scratch, RESTORER), 0);
	/* The calls have changed the vector state. */
	*now = *thread;
	now->xstate[160] ^= 0xffU; /* xmm0 */
	now->xstate[512] |= 2U;	   /* XSTATE_BV: SSE is in use */
	assert_int_equal(ptrace(PTRACE_SETREGSET, child, 0x202 /* NT_X86_XSTATE */,
				&(struct iovec){now->xstate, now->xstate_length}),
			 0);
	assert_int_equal(flmem_arch_restore(child, thread), 0);
	memset(now, 0, sizeof(*now));
	assert_int_equal(flmem_arch_read_registers(child, now), 0);
	assert_int_equal(flmem_arch_read_rest(child, now), 0);
	assert_memory_equal(&now->regs, &thread->regs, sizeof(now->regs));
	assert_int_equal(now->signal_mask, thread->signal_mask);
	assert_int_equal(now->xstate[160], thread->xstate[160]);
	free(now);
	free(thread);
}

static void only_the_very_wait_counts_as_interrupted(void **state)
{
	struct flmem_thread_state *thread = read_child();
	struct flmem_task_wait at = {
		.number = SYS_pause, .sp = thread->regs.rsp, .pc = thread->regs.rip};
	struct flmem_task_wait other, read;

	(void)state;
	at.args[0] = thread->regs.rdi;
	at.args[1] = thread->regs.rsi;
	at.args[2] = thread->regs.rdx;
	at.args[3] = thread->regs.r10;
	at.args[4] = thread->regs.r8;
	at.args[5] = thread->regs.r9;
	flmem_arch_read_call(thread, &read);
	assert_memory_equal(&read, &at, sizeof(at));
	assert_false(flmem_arch_gave_eintr(thread));
	assert_false(flmem_arch_in_program(thread));
	assert_true(flmem_arch_interrupted_in(thread, &at));
	other = at;
	other.number = SYS_read;
	assert_false(flmem_arch_interrupted_in(thread, &other));
	other = at;
	other.sp -= 8;
	assert_false(flmem_arch_interrupted_in(thread, &other));
	other = at;
	other.pc += 2;
	assert_false(flmem_arch_interrupted_in(thread, &other));
	thread->regs.rax = 0; /* the call has returned */
	assert_false(flmem_arch_interrupted_in(thread, &at));
	thread->regs.rax = (unsigned long)-EINTR;
	assert_true(flmem_arch_gave_eintr(thread));
	assert_true(flmem_arch_interrupted_in(thread, &at));
	free(thread);
}

static void a_plain_eintr_becomes_a_repetition(void **state)
{
	struct flmem_thread_state *thread = read_child();
	struct flmem_thread_state *now = calloc(1, sizeof(*now));

	(void)state;
	assert_non_null(now);
	thread->regs.rax = (unsigned long)-EINTR;
	assert_int_equal(ptrace(PTRACE_SETREGSET, child, 1 /* NT_PRSTATUS */,
				&(struct iovec){&thread->regs, sizeof(thread->regs)}),
			 0);
	assert_int_equal(flmem_arch_make_resumable(child, thread), 0);
	assert_int_equal((long)thread->regs.rax, -514); /* ERESTARTNOHAND */
	assert_int_equal(flmem_arch_read_registers(child, now), 0);
	assert_int_equal((long)now->regs.rax, -514);
	/* A lost restart block: it does not describe what the thread would do. */
	thread->regs.rax = (unsigned long)-516;
	assert_int_equal(flmem_arch_make_resumable(child, thread), 0);
	assert_int_equal((long)thread->regs.rax, -514);
	/* A thread that computes is in no call: its register holds a value of the program. */
	thread->regs.orig_rax = (unsigned long)-1;
	thread->regs.rax = (unsigned long)-EINTR;
	assert_int_equal(flmem_arch_make_resumable(child, thread), 0);
	assert_int_equal((long)thread->regs.rax, -EINTR);
	assert_true(flmem_arch_in_program(thread));
	free(now);
	free(thread);
}

/* Makes the state of a thread in call 1 of a chain of two, as the kernel shows it. */
static void put_in_call(const struct flmem_chain *chain, const struct flmem_scratch *scratch,
			const struct flmem_gadgets *gadgets, struct flmem_thread_state *ret_thread)
{
	*ret_thread = (struct flmem_thread_state){0};
	ret_thread->regs.rsp = scratch->address + 2 * 320;
	ret_thread->regs.rip = gadgets->syscall + 2;
	ret_thread->regs.rdi = scratch->data + chain->calls[1].args[0];
	ret_thread->regs.rsi = chain->calls[1].args[1];
}

static void a_thread_is_parked_only_with_all_its_registers(void **state)
{
	static struct flmem_thread_state thread, other;
	const struct flmem_gadgets gadgets = {.restorer = 0x1000, .syscall = 0x2000};
	const struct flmem_scratch scratch = {.address = 0x7fff0000, .data = 0x7fff8000};
	struct flmem_chain chain = {0};
	struct flmem_call *park;

	(void)state;
	flmem_chain_add(&chain, "first", 0x3000);
	park = flmem_chain_add(&chain, "park", gadgets.syscall);
	park->args[0] = 64;
	park->data_args = 1;
	put_in_call(&chain, &scratch, &gadgets, &thread);
	assert_true(flmem_arch_is_in_call(&thread, &chain, 1, &scratch, &gadgets));
	assert_false(flmem_arch_is_in_call(&thread, &chain, 0, &scratch, &gadgets));
	other = thread;
	other.regs.rsp += 320;
	assert_false(flmem_arch_is_in_call(&other, &chain, 1, &scratch, &gadgets));
	other = thread;
	other.regs.rip += 100;
	assert_false(flmem_arch_is_in_call(&other, &chain, 1, &scratch, &gadgets));
	/* The same place with other arguments is a call of the program. */
	other = thread;
	other.regs.rdi += 8;
	assert_false(flmem_arch_is_in_call(&other, &chain, 1, &scratch, &gadgets));
	other = thread;
	other.regs.rsi = 1;
	assert_false(flmem_arch_is_in_call(&other, &chain, 1, &scratch, &gadgets));
	other = thread;
	other.regs.rdx = 1;
	assert_false(flmem_arch_is_in_call(&other, &chain, 1, &scratch, &gadgets));
	/* The thread is leaving the call. */
	other = thread;
	other.regs.rsp += 8;
	other.regs.rip = gadgets.restorer;
	assert_true(flmem_arch_is_in_call(&other, &chain, 1, &scratch, &gadgets));
	other.regs.rip += 7;
	assert_true(flmem_arch_is_in_call(&other, &chain, 1, &scratch, &gadgets));
}

static void a_signal_frame_is_known_by_its_shape(void **state)
{
	uint64_t words[64] = {0}, mask = 0;

	(void)state;
	words[0] = RESTORER;
	words[1] = 7;		/* uc_flags */
	words[21] = 0x7fff1000; /* rsp: after the restorer, five words and 15 registers */
	words[22] = 0x1234;	/* rip */
	words[24] = 0x33;	/* cs of 64-bit code */
	words[38] = 0x200;	/* the mask, after eight reserved words */
	assert_true(flmem_arch_is_signal_frame(words, 64, &mask));
	assert_int_equal(mask, 0x200);
	assert_false(flmem_arch_is_signal_frame(words, 38, &mask));
	words[21] = 0;
	assert_false(flmem_arch_is_signal_frame(words, 64, &mask));
	words[21] = 0x1000; /* a lower stack: the frame is on an alternate one */
	assert_true(flmem_arch_is_signal_frame(words, 64, &mask));
	words[24] = 0x2b;
	assert_false(flmem_arch_is_signal_frame(words, 64, &mask));
	words[24] = 0x33;
	words[1] = 8;
	assert_false(flmem_arch_is_signal_frame(words, 64, &mask));
}

static uint64_t word_at(const struct flmem_scratch *scratch, uint64_t address)
{
	uint64_t word;

	assert_true(address >= scratch->address &&
		    address + sizeof(word) <= scratch->address + scratch->length);
	memcpy(&word, scratch->bytes + (address - scratch->address), sizeof(word));
	return word;
}

/*
 * Offsets in struct rt_sigframe, in words: the restorer, five words of ucontext, then the
 * registers.
 */
static void the_last_frame_holds_the_thread(void **state)
{
	struct flmem_thread_state *thread = read_child();
	struct flmem_scratch scratch = {.capacity = FLMEM_SCRATCH_MAX};
	struct flmem_chain chain = {0};
	uint64_t frame, fpstate;

	(void)state;
	scratch.bytes = malloc(scratch.capacity);
	assert_non_null(scratch.bytes);
	flmem_chain_add(&chain, "call", 0x3000);
	assert_int_equal(flmem_arch_build(thread, &chain, RESTORER, &scratch, NULL), 0);
	assert_true(scratch.address + scratch.length <= thread->regs.rsp - 128);
	frame = scratch.address + 320;
	assert_int_equal(word_at(&scratch, frame), RESTORER);
	/*
	 * An alternate stack cannot have this state: rt_sigreturn leaves the program's unchanged.
	 */
	assert_int_equal(word_at(&scratch, frame + WORD(4)) & UINT32_MAX, 0x10);
	assert_int_equal(word_at(&scratch, frame + WORD(12)), thread->regs.r14);
	assert_int_equal(word_at(&scratch, frame + WORD(14)), thread->regs.rdi);
	assert_int_equal(word_at(&scratch, frame + WORD(16)), thread->regs.rbp);
	/* The call is made again: the frame has its number, and the instruction that makes it. */
	assert_int_equal(word_at(&scratch, frame + WORD(19)), SYS_pause);
	assert_int_equal(word_at(&scratch, frame + WORD(21)), thread->regs.rsp);
	assert_int_equal(word_at(&scratch, frame + WORD(22)), thread->regs.rip - 2);
	assert_int_equal(word_at(&scratch, frame + WORD(23)), thread->regs.eflags);
	assert_int_equal(word_at(&scratch, frame + WORD(38)), thread->signal_mask);
	fpstate = word_at(&scratch, frame + WORD(29));
	assert_int_equal(fpstate % 64, 0);
	assert_int_equal(word_at(&scratch, fpstate + 464) & UINT32_MAX, 0x46505853);
	assert_int_equal(scratch.bytes[fpstate - scratch.address + 160], thread->xstate[160]);
	free(scratch.bytes);
	free(thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_armed_begins_clean, stop_child, end_child),
		cmocka_unit_test_setup_teardown(what_is_restored_is_what_was_read, stop_child,
						end_child),
		cmocka_unit_test_setup_teardown(only_the_very_wait_counts_as_interrupted,
						stop_child, end_child),
		cmocka_unit_test_setup_teardown(a_plain_eintr_becomes_a_repetition, stop_child,
						end_child),
		cmocka_unit_test(a_thread_is_parked_only_with_all_its_registers),
		cmocka_unit_test(a_signal_frame_is_known_by_its_shape),
		cmocka_unit_test_setup_teardown(the_last_frame_holds_the_thread, stop_child,
						end_child),
	};

	return cmocka_run_group_tests_name("arch", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
