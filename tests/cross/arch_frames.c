/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the frames of a chain on aarch64 on the emulator's kernel: each call gets its arguments, its
 * mask and its stack, and the last frame restores every register. Then tests decisions from the
 * registers of a stopped thread. ptrace itself does not work in the emulator.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <time.h>
#include <unistd.h>

#include "proc/process.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/arch_aarch64.h"

#define CHECK(condition) check((condition), #condition, __LINE__)
#define STACK_BYTES	 (1U << 20)
#define OWN_MASK	 UINT64_C(0x800)      /* SIGUSR2 */
#define OWN_FLAGS	 UINT64_C(0x60000000) /* Z and C */
#define CHAIN_BLOCKS	 (UINT64_C(1) << (SIGUSR1 - 1))
/* Signals that user-mode emulation cannot block. */
#define EMULATORS  (UINT64_C(3) << 62)
#define MASK_BYTES 8L

struct seen {
	uint64_t registers[31], sp, flags;
	unsigned char vectors[512];
};

struct seen landed;
static unsigned char stack[STACK_BYTES] __attribute__((aligned(16)));
static uint64_t arguments[8], masks[3], stacks[3];
static unsigned calls;
static jmp_buf back;

void landing(void);
void take_over(void);
void start(uint64_t sp, uint64_t restorer);
extern const char restorer[], call_gadget[];

__asm__(".text\n"
	".global restorer, call_gadget, landing, start\n"
	"restorer: mov x8, #139\n"
	"	svc #0\n"
	"call_gadget: svc #0\n"
	"	ret\n"
	"start:	mov sp, x0\n"
	"	br x1\n"
	/* x16 and x17 are saved on the stack while they hold the address. */
	"landing: stp x16, x17, [sp, #-16]!\n"
	"	adrp x16, landed\n"
	"	add x16, x16, :lo12:landed\n"
	"	stp x0, x1, [x16]\n"
	"	stp x2, x3, [x16, #16]\n"
	"	stp x4, x5, [x16, #32]\n"
	"	stp x6, x7, [x16, #48]\n"
	"	stp x8, x9, [x16, #64]\n"
	"	stp x10, x11, [x16, #80]\n"
	"	stp x12, x13, [x16, #96]\n"
	"	stp x14, x15, [x16, #112]\n"
	"	ldp x0, x1, [sp], #16\n"
	"	stp x0, x1, [x16, #128]\n"
	"	stp x18, x19, [x16, #144]\n"
	"	stp x20, x21, [x16, #160]\n"
	"	stp x22, x23, [x16, #176]\n"
	"	stp x24, x25, [x16, #192]\n"
	"	stp x26, x27, [x16, #208]\n"
	"	stp x28, x29, [x16, #224]\n"
	"	str x30, [x16, #240]\n"
	"	mov x0, sp\n"
	"	str x0, [x16, #248]\n"
	"	mrs x0, nzcv\n"
	"	str x0, [x16, #256]\n"
	"	add x16, x16, #264\n"
	"	stp q0, q1, [x16], #32\n"
	"	stp q2, q3, [x16], #32\n"
	"	stp q4, q5, [x16], #32\n"
	"	stp q6, q7, [x16], #32\n"
	"	stp q8, q9, [x16], #32\n"
	"	stp q10, q11, [x16], #32\n"
	"	stp q12, q13, [x16], #32\n"
	"	stp q14, q15, [x16], #32\n"
	"	stp q16, q17, [x16], #32\n"
	"	stp q18, q19, [x16], #32\n"
	"	stp q20, q21, [x16], #32\n"
	"	stp q22, q23, [x16], #32\n"
	"	stp q24, q25, [x16], #32\n"
	"	stp q26, q27, [x16], #32\n"
	"	stp q28, q29, [x16], #32\n"
	"	stp q30, q31, [x16], #32\n"
	"	sub sp, sp, #16, lsl #12\n" /* keeps away from the data of the chain */
	"	b take_over\n");

static void check(bool holds, const char *what, int line)
{
	if (holds)
		return;
	printf("arch_frames.c:%d: %s\n", line, what);
	exit(1);
}

/* The functions that arch_aarch64.c needs of the library; nothing here reads another process. */
int flmem_process_read_memory(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length)
{
	(void)process;
	memcpy(out, (const void *)(uintptr_t)address, length);
	return 0;
}

static uint64_t current_mask(void)
{
	uint64_t mask = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, MASK_BYTES);
	return mask;
}

void take_over(void)
{
	longjmp(back, 1);
}

static void note_call(void)
{
	stacks[calls] = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	masks[calls++] = current_mask();
}

/* Uses its stack and changes vector registers, as any function may. */
__attribute__((noinline)) static void first(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
					    uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
	const uint64_t got[] = {a, b, c, d, e, f, g, h};
	volatile char below[4096];

	memset((char *)below, 0xff, sizeof(below));
	memcpy(arguments, got, sizeof(got));
	__asm__ volatile("movi v0.16b, #255\n movi v31.16b, #1" ::: "v0", "v31");
	note_call();
}

__attribute__((noinline)) static void second(void)
{
	note_call();
}

static void fill_state(struct flmem_thread_state *state)
{
	for (unsigned i = 0; i < 31; i++)
		state->regs.regs[i] = UINT64_C(0x1111000000000000) + i;
	state->regs.sp = (uint64_t)(uintptr_t)(stack + sizeof(stack) - 8192);
	state->regs.pc = (uint64_t)(uintptr_t)landing;
	state->regs.pstate = OWN_FLAGS;
	state->signal_mask = OWN_MASK;
	state->xstate_length = 528;
	for (unsigned i = 0; i < 512; i++)
		state->xstate[i] = (unsigned char)(i * 7);
}

static void plan(struct flmem_chain *chain)
{
	struct flmem_call *call = flmem_chain_add(chain, "first", (uint64_t)(uintptr_t)first);

	for (unsigned i = 0; i < FLMEM_CHAIN_ARGS; i++)
		call->args[i] = 100 + i;
	call->args[5] = flmem_chain_put_string(chain, "data");
	call->data_args = 1U << 5;
	flmem_chain_add(chain, "second", (uint64_t)(uintptr_t)second);
	call = flmem_chain_add(chain, "clock", (uint64_t)(uintptr_t)call_gadget);
	call->number = SYS_clock_gettime;
	call->args[0] = CLOCK_MONOTONIC;
	call->args[1] = flmem_chain_put(chain, NULL, 16);
	call->data_args = 2;
	flmem_chain_put(chain, NULL, 16); /* landing() writes to these bytes */
}

static struct flmem_scratch run_chain(const struct flmem_thread_state *state,
				      const struct flmem_chain *chain)
{
	struct flmem_scratch scratch = {.capacity = FLMEM_SCRATCH_MAX};

	scratch.bytes = malloc(scratch.capacity);
	CHECK(scratch.bytes != NULL);
	CHECK(flmem_arch_build(state, chain, (uint64_t)(uintptr_t)restorer, &scratch, NULL) == 0);
	CHECK(scratch.address + scratch.length <= state->regs.sp);
	memcpy((void *)(uintptr_t)scratch.address, scratch.bytes, scratch.length);
	if (setjmp(back) == 0)
		start(scratch.entry, (uint64_t)(uintptr_t)restorer);
	return scratch;
}

static void the_calls_are_made_and_the_thread_comes_back(void)
{
	static struct flmem_thread_state state;
	struct flmem_chain chain = {0};
	struct flmem_scratch scratch;
	uint64_t seconds;

	fill_state(&state);
	plan(&chain);
	scratch = run_chain(&state, &chain);
	CHECK(current_mask() == OWN_MASK);
	CHECK(calls == 2);
	for (unsigned i = 0; i < 5; i++)
		CHECK(arguments[i] == 100 + i);
	CHECK(strcmp((const char *)(uintptr_t)arguments[5], "data") == 0);
	CHECK(arguments[6] == 0 && arguments[7] == 0);
	CHECK(masks[0] & CHAIN_BLOCKS && masks[1] & CHAIN_BLOCKS);
	CHECK(flmem_arch_is_chain_mask(masks[0] | EMULATORS) &&
	      !flmem_arch_is_chain_mask(OWN_MASK));
	CHECK(stacks[0] % 16 == 0 && stacks[0] < scratch.data && stacks[1] > stacks[0]);
	memcpy(&seconds, (void *)(uintptr_t)(scratch.data + chain.calls[2].args[1]), 8);
	CHECK(seconds > 0);
	CHECK(memcmp(landed.registers, state.regs.regs, sizeof(landed.registers)) == 0);
	CHECK(landed.sp == state.regs.sp && landed.flags == OWN_FLAGS);
	CHECK(memcmp(landed.vectors, state.xstate, sizeof(landed.vectors)) == 0);
	free(scratch.bytes);
}

/* The state that the kernel shows of a thread that waited in ppoll(). */
static struct flmem_task_wait stop_in_wait(struct flmem_thread_state *state)
{
	struct flmem_task_wait at = {.number = SYS_ppoll,
				     .args = {11, 12, 13, 14, 15, 16},
				     .sp = 0x7fff0000,
				     .pc = 0x4004};

	*state = (struct flmem_thread_state){.at_svc = true};
	memcpy(state->regs.regs, at.args, sizeof(at.args));
	state->regs.regs[8] = SYS_ppoll;
	state->regs.sp = at.sp;
	state->regs.pc = at.pc - 4;
	return at;
}

static void a_call_to_repeat_is_known_by_its_place(void)
{
	static struct flmem_thread_state state;
	const struct flmem_task_wait at = stop_in_wait(&state);
	struct flmem_task_wait read;

	flmem_arch_read_call(&state, &read);
	CHECK(memcmp(&read, &at, sizeof(at)) == 0);
	CHECK(flmem_arch_interrupted_in(&state, &at) && !flmem_arch_has_returned(&state, &at));
	CHECK(!flmem_arch_gave_eintr(&state) && !flmem_arch_in_program(&state));
	state.regs.regs[0] = 99;
	CHECK(!flmem_arch_interrupted_in(&state, &at));
	state.regs.regs[0] = at.args[0];
	state.regs.regs[5] = 99;
	CHECK(!flmem_arch_interrupted_in(&state, &at));
	state.regs.regs[5] = at.args[5];
	state.regs.sp -= 16;
	CHECK(!flmem_arch_interrupted_in(&state, &at));
	state.at_svc = false; /* the thread computes */
	CHECK(flmem_arch_in_program(&state) && flmem_arch_has_returned(&state, &at));
	flmem_arch_read_call(&state, &read);
	CHECK(read.number == -1);
}

/* The call's first argument is lost, so it is neither a wait nor made again. */
static void a_call_that_ended_with_eintr_is_over(void)
{
	static struct flmem_thread_state state;
	const struct flmem_task_wait at = stop_in_wait(&state);
	struct flmem_thread_state before;

	state.at_svc = false;
	state.after_svc = true;
	state.regs.pc = at.pc;
	state.regs.regs[0] = (uint64_t)-EINTR;
	CHECK(flmem_arch_gave_eintr(&state) && !flmem_arch_interrupted_in(&state, &at));
	CHECK(flmem_arch_has_returned(&state, &at));
	before = state;
	CHECK(flmem_arch_make_resumable(0, &state) == 0);
	CHECK(memcmp(&state, &before, sizeof(state)) == 0);
}

static void a_finished_call_has_returned_0(void)
{
	static struct flmem_thread_state state;
	const struct flmem_task_wait at = stop_in_wait(&state);

	flmem_arch_finish_call(&state);
	CHECK(state.regs.regs[0] == 0 && state.regs.pc == at.pc);
}

static void a_thread_is_in_the_park_with_all_its_registers(void)
{
	static struct flmem_thread_state state, other;
	const struct flmem_gadgets gadgets = {.restorer = 0x1000, .syscall = 0x2000};
	const struct flmem_scratch scratch = {.address = 0x7fff0000, .data = 0x7fff8000};
	struct flmem_chain chain = {0};

	flmem_chain_add(&chain, "park", gadgets.syscall)->args[0] = 64;
	chain.calls[0].data_args = 1;
	state.regs.sp = scratch.address + FLMEM_AARCH64_FRAME_STEP;
	state.regs.pc = gadgets.syscall;
	state.regs.regs[0] = scratch.data + 64;
	state.regs.regs[30] = gadgets.restorer;
	CHECK(flmem_arch_is_in_call(&state, &chain, 0, &scratch, &gadgets));
	other = state;
	other.regs.regs[0] = 0;
	CHECK(!flmem_arch_is_in_call(&other, &chain, 0, &scratch, &gadgets));
	for (uint64_t at = 0; at < 8; at += 4) { /* the function has returned to the restorer */
		other.regs.pc = gadgets.restorer + at;
		CHECK(flmem_arch_is_in_call(&other, &chain, 0, &scratch, &gadgets));
	}
	other = state;
	other.regs.regs[1] = 1;
	CHECK(!flmem_arch_is_in_call(&other, &chain, 0, &scratch, &gadgets));
	other = state;
	other.regs.regs[30] = 0x3000;
	CHECK(!flmem_arch_is_in_call(&other, &chain, 0, &scratch, &gadgets));
	other = state;
	other.regs.sp += 16;
	CHECK(!flmem_arch_is_in_call(&other, &chain, 0, &scratch, &gadgets));
}

static uint64_t frame_mask;
static bool frame_known;

static void find_own_frame(int number)
{
	const uint64_t *words = __builtin_frame_address(0);
	uint64_t mask;

	(void)number;
	for (unsigned i = 0; i < 1024 && !frame_known; i++) {
		frame_known = flmem_arch_is_signal_frame(words + i, 256, &mask);
		frame_mask = mask;
	}
}

/* The frame of a real handler, as the emulator's kernel writes it. */
static void the_frame_of_a_handler_is_found(void)
{
	const struct flmem_vector_use none = {0}, wide = {.wide = true}, sme = {.streaming = true};
	const struct flmem_vector_use matrix = {.matrix = true}, shadow = {.shadow_stack = true};
	const struct flmem_vector_use tags = {.tags = true}, keys = {.keys = true};
	const struct flmem_vector_use breakpoints = {.breakpoints = true};
	uint64_t words[256] = {0}, mask;

	signal(SIGUSR1, find_own_frame);
	raise(SIGUSR1);
	CHECK(frame_known && frame_mask == current_mask());
	CHECK(!flmem_arch_is_signal_frame(words, 256, &mask));
	CHECK(!flmem_aarch64_refuses(&none) && flmem_aarch64_refuses(&wide));
	CHECK(flmem_aarch64_refuses(&sme) && flmem_aarch64_refuses(&matrix));
	CHECK(flmem_aarch64_refuses(&shadow) && flmem_aarch64_refuses(&tags));
	CHECK(flmem_aarch64_refuses(&keys) && flmem_aarch64_refuses(&breakpoints));
}

static void what_does_not_fit_is_refused(void)
{
	static struct flmem_thread_state state;
	struct flmem_scratch scratch = {.capacity = FLMEM_SCRATCH_MAX};
	struct flmem_chain chain = {0};

	fill_state(&state);
	CHECK(flmem_arch_build(&state, &chain, 1, &scratch, NULL) != 0); /* no call */
	plan(&chain);
	scratch.capacity = 2048;
	CHECK(flmem_arch_build(&state, &chain, 1, &scratch, NULL) != 0);
	scratch.capacity = FLMEM_SCRATCH_MAX;
	state.regs.pstate = 0x10; /* 32-bit code */
	CHECK(flmem_arch_build(&state, &chain, 1, &scratch, NULL) != 0);
	state.regs.pstate = 0;
	state.regs.sp = UINT64_C(1) << 48; /* the kernel checks the whole frame */
	CHECK(flmem_arch_build(&state, &chain, 1, &scratch, NULL) != 0);
	CHECK(flmem_arch_supported());
}

int main(void)
{
	the_calls_are_made_and_the_thread_comes_back();
	a_call_to_repeat_is_known_by_its_place();
	a_call_that_ended_with_eintr_is_over();
	a_finished_call_has_returned_0();
	a_thread_is_in_the_park_with_all_its_registers();
	the_frame_of_a_handler_is_found();
	what_does_not_fit_is_refused();
	return puts("aarch64: frames and decisions as they should be") < 0;
}
