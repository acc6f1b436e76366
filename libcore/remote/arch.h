/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_ARCH_H
#define FLMEM_REMOTE_ARCH_H

/*
 * What differs between processors when a thread is borrowed: its registers, and the frames on its
 * stack. One file per architecture; arch_none.c refuses on all others. All calls take a thread that
 * is ptrace-stopped by the calling thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include <flmem/error.h>

#include "remote/chain.h"

struct flmem_process;
struct flmem_task_wait;

/* Room for the vector state; AMX needs 11 KiB, the kernel may grow it. */
#define FLMEM_XSTATE_MAX 16384

/* The frames, the data and the vector state together; a chain's area comes on top of it. */
#define FLMEM_SCRATCH_MAX (FLMEM_XSTATE_MAX + 8192)

/* What a stopped thread was, complete enough to make it that again. */
struct flmem_thread_state {
	struct user_regs_struct regs;
	uint64_t signal_mask;
	size_t xstate_length;
	unsigned char xstate[FLMEM_XSTATE_MAX] __attribute__((aligned(64)));
};

/* Where things will lie on the borrowed thread's stack, and the bytes to put there. */
struct flmem_scratch {
	uint64_t address; /* of bytes[0] */
	size_t length;
	uint64_t data;	      /* address of the chain's data */
	uint64_t area;	      /* address of the chain's area */
	uint64_t unblocked;   /* signals, as in the chain */
	uint64_t entry;	      /* stack pointer that starts the chain at the restorer */
	size_t capacity;      /* FLMEM_SCRATCH_MAX and the length of the area */
	unsigned char *bytes; /* the caller's */
};

bool flmem_arch_supported(void);

/* ELF machine of targets, EM_*. */
uint16_t flmem_arch_machine(void);

/* Instructions of the target's own C library that a chain goes through. */
struct flmem_arch_code {
	const unsigned char *bytes;
	size_t length;
};

/* Makes rt_sigreturn: what signal handlers return to. */
extern const struct flmem_arch_code flmem_arch_restorer;

/* Makes a system call whose number and arguments are in the registers, then returns. */
extern const struct flmem_arch_code flmem_arch_syscall;

/* Where the two are in the target. */
struct flmem_gadgets {
	uint64_t restorer;
	uint64_t syscall;
};

/*
 * True when the instruction before `pc` is the one that makes system calls in 64-bit code: going
 * back by its length repeats the call.
 */
bool flmem_arch_is_call_site(const struct flmem_process *process, uint64_t pc);

/* Reads the general registers only; negative errno on failure. */
int flmem_arch_read_registers(pid_t tid, struct flmem_thread_state *state);

/* Reads vector state and signal mask as well. */
int flmem_arch_read_rest(pid_t tid, struct flmem_thread_state *state);

/* The system call that the stopped thread is in, with its arguments; its number is -1: in none. */
void flmem_arch_read_call(const struct flmem_thread_state *state, struct flmem_task_wait *ret_at);

/* True when that call of the stopped thread has returned: it neither goes on nor is repeated. */
bool flmem_arch_has_returned(const struct flmem_thread_state *state,
			     const struct flmem_task_wait *at);

/* True when the stopped thread's system call has ended with plain EINTR. */
bool flmem_arch_gave_eintr(const struct flmem_thread_state *state);

/*
 * True when the stopped thread was interrupted in exactly this wait, with the same arguments, and
 * can resume it.
 */
bool flmem_arch_interrupted_in(const struct flmem_thread_state *state,
			       const struct flmem_task_wait *at);

/* True when the stopped thread was computing: not in a system call, nor just coming from one. */
bool flmem_arch_in_program(const struct flmem_thread_state *state);

/*
 * Changes the registers, in memory and in the thread, so that letting go of it at this very moment
 * repeats the system call where the kernel would else return EINTR. Negative errno on failure.
 */
int flmem_arch_make_resumable(pid_t tid, struct flmem_thread_state *state);

/*
 * A wait with a relative timeout that would go on through the kernel's restart block, by
 * restart_syscall, starts again instead when the thread is let go. Negative errno on failure.
 */
int flmem_arch_repeat_call(pid_t tid, struct flmem_thread_state *state);

/* Changes the registers in memory only: the interrupted system call has returned 0. */
void flmem_arch_finish_call(struct flmem_thread_state *state);

/*
 * Lays out the frames below the stack pointer: each call returns through `restorer` into the next
 * one, the last into the thread's own state. FLMEM_EUNSAFE when it does not fit.
 */
int flmem_arch_build(const struct flmem_thread_state *state, const struct flmem_chain *chain,
		     uint64_t restorer, struct flmem_scratch *scratch, struct flmem_error *err);

/*
 * Points the thread at the chain: the one step that arms it. Then blocks its signals, before it
 * runs: a handler in front of the chain would take a signal whose EINTR the interrupted call then
 * never gets, and a stop for each of many signals would keep the chain from beginning. Negative
 * errno on failure.
 */
int flmem_arch_arm(pid_t tid, const struct flmem_thread_state *state,
		   const struct flmem_scratch *scratch, uint64_t restorer);

/*
 * True when this is the signal mask of calls in a chain, or of a thread that such a call has
 * started: no program blocks exactly these signals.
 */
bool flmem_arch_is_chain_mask(uint64_t mask);

/*
 * True when the stopped thread is in call `index` of the chain or on its way out of it. The call is
 * one of flmem_arch_syscall, and this holds for no thread that has restored itself: its argument
 * registers are not those of the call, whatever its stack pointer.
 */
bool flmem_arch_is_in_call(const struct flmem_thread_state *state, const struct flmem_chain *chain,
			   size_t index, const struct flmem_scratch *scratch,
			   const struct flmem_gadgets *gadgets);

/*
 * Makes the thread what it was. Each step leaves it whole if it is the last; the registers come
 * last. Negative errno on failure, the thread then restores itself through its frames.
 */
int flmem_arch_restore(pid_t tid, const struct flmem_thread_state *state);

/* Stack pointer and program counter in the registers. */
uint64_t flmem_arch_sp(const struct flmem_thread_state *state);
uint64_t flmem_arch_pc(const struct flmem_thread_state *state);

/* Thread pointer: where the C library keeps the thread's control block. */
uint64_t flmem_arch_thread_pointer(const struct flmem_thread_state *state);

/*
 * True when the bytes at `words` (of `count` words, read from a stack at `address`) have the form
 * of a signal frame. Its handler returns to words[0], which is flmem_arch_restorer then, in
 * whatever library; *ret_mask is the signal mask that comes back by it.
 */
bool flmem_arch_is_signal_frame(const uint64_t *words, size_t count, uint64_t address,
				uint64_t *ret_mask);

#endif
