/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_ARCH_H
#define FLMEM_REMOTE_ARCH_H

/*
 * The processor-specific part of borrowing a thread: its registers, and the frames on its stack.
 * One file per architecture; arch_none.c refuses on all others. Every function that takes a thread
 * requires that the calling thread holds it in a ptrace stop.
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

/*
 * Size of the buffer for the vector state. AMX needs 11 KiB, and the kernel may enlarge the state.
 * On aarch64 each frame contains it, and threads with more of it than FPSIMD are not borrowed.
 */
#define FLMEM_XSTATE_MAX 16384

/*
 * Size of the frames, the data and the vector state together; the area of a chain is added to it.
 */
#ifdef __aarch64__
#define FLMEM_SCRATCH_MAX 28672
#else
#define FLMEM_SCRATCH_MAX (FLMEM_XSTATE_MAX + 8192)
#endif

/* The saved state of a stopped thread, complete enough to restore it. */
struct flmem_thread_state {
	struct user_regs_struct regs;
	uint64_t signal_mask;
	size_t xstate_length;
	unsigned char xstate[FLMEM_XSTATE_MAX] __attribute__((aligned(64)));
#ifdef __aarch64__
	uint64_t thread_pointer;
	uint64_t access_rights; /* POR_EL0 */
	bool has_access_rights;
	bool at_svc;	/* the next instruction is a system call */
	bool after_svc; /* the previous instruction was a system call */
#endif
};

/* The addresses of all parts on the stack of the borrowed thread, and the bytes to write there. */
struct flmem_scratch {
	uint64_t address; /* address of bytes[0] in the target */
	size_t length;
	uint64_t data;	      /* address of the chain's data */
	uint64_t area;	      /* address of the chain's area */
	uint64_t unblocked;   /* signals that stay unblocked, as in the chain */
	uint64_t entry;	      /* stack pointer that starts the chain at the restorer */
	size_t capacity;      /* FLMEM_SCRATCH_MAX and the length of the area */
	unsigned char *bytes; /* buffer of `capacity` bytes, owned by the caller */
};

bool flmem_arch_supported(void);

/* ELF machine of targets, EM_*. */
uint16_t flmem_arch_machine(void);

/* Instructions in the C library of the target that a chain uses. */
struct flmem_arch_code {
	const unsigned char *bytes;
	size_t length;
};

/* Code that calls rt_sigreturn; signal handlers return to it. */
extern const struct flmem_arch_code flmem_arch_restorer;

/* Code that makes a system call whose number and arguments are in the registers, then returns. */
extern const struct flmem_arch_code flmem_arch_syscall;

/* Addresses of the two instruction sequences in the target. */
struct flmem_gadgets {
	uint64_t restorer;
	uint64_t syscall;
};

/*
 * True if the instruction before `pc` makes system calls in 64-bit code, so that moving pc back by
 * its length repeats the call.
 */
bool flmem_arch_is_call_site(const struct flmem_process *process, uint64_t pc);

/* Reads only the general registers. Returns 0 or -errno. */
int flmem_arch_read_registers(pid_t tid, struct flmem_thread_state *state);

/*
 * Reads the vector state and the signal mask of a thread that flmem_arch_refuses() has accepted in
 * this stop. Returns 0 or -errno.
 */
int flmem_arch_read_rest(pid_t tid, struct flmem_thread_state *state);

/*
 * Returns the system call that the stopped thread is in, with its arguments; number -1 if it is in
 * none.
 */
void flmem_arch_read_call(const struct flmem_thread_state *state, struct flmem_task_wait *ret_at);

/*
 * True if that call of the stopped thread has returned: the kernel neither continues nor restarts
 * it.
 */
bool flmem_arch_has_returned(const struct flmem_thread_state *state,
			     const struct flmem_task_wait *at);

/* True if the system call of the stopped thread has failed with plain EINTR. */
bool flmem_arch_gave_eintr(const struct flmem_thread_state *state);

/*
 * True if the stopped thread was interrupted in exactly this wait, with the same arguments, and can
 * resume it.
 */
bool flmem_arch_interrupted_in(const struct flmem_thread_state *state,
			       const struct flmem_task_wait *at);

/*
 * True on processors where the kernel decides before the stop whether it restarts the call, and the
 * registers of a stopped thread do not show that it was in one.
 */
extern const bool flmem_arch_forgets_wait;

/*
 * The reason (static) why no thread in this processor state may be borrowed, or NULL: the state
 * includes something that a frame does not hold, or that the calls of a chain would violate.
 */
const char *flmem_arch_refuses(pid_t tid);

/*
 * The reason of flmem_arch_refuses() for a thread with breakpoints: a call that reaches one would
 * end the program.
 */
#define FLMEM_ARCH_HAS_BREAKPOINTS                                                             \
	"has breakpoints or watchpoints of the processor, as after a debugger was killed, or " \
	"they cannot be read"

/*
 * Returns true if the instruction that has a byte at this address is one that debuggers and probes
 * of the kernel put into code. *ret_start is where it begins.
 */
bool flmem_arch_is_breakpoint(const struct flmem_process *process, uint64_t address,
			      uint64_t *ret_start);

/* True if the stopped thread was computing: not in a system call, and not returning from one. */
bool flmem_arch_in_program(const struct flmem_thread_state *state);

/*
 * Changes the registers, in memory and in the thread, so that a thread released now repeats its
 * system call in the cases in which the kernel would return EINTR. Returns 0 or -errno.
 */
int flmem_arch_make_resumable(pid_t tid, struct flmem_thread_state *state);

/*
 * Makes the kernel start a wait with a relative timeout again when the thread is released, instead
 * of continuing it through restart_syscall. Returns 0 or -errno. Only on x86-64; elsewhere the
 * release does that (struct flmem_tracee).
 */
int flmem_arch_repeat_call(pid_t tid, struct flmem_thread_state *state);

/*
 * Changes the registers in memory only, as if the interrupted system call had returned 0. Resets
 * the floating-point modes to those at program start (System V ABI, "process initialization"): a
 * new thread inherits them from the thread that started it.
 */
void flmem_arch_finish_call(struct flmem_thread_state *state);

/*
 * Lays out the frames below the stack pointer: each call returns through `restorer` into the next
 * one, the last one into the thread's saved state. FLMEM_EUNSAFE if they do not fit.
 */
int flmem_arch_build(const struct flmem_thread_state *state, const struct flmem_chain *chain,
		     uint64_t restorer, struct flmem_scratch *scratch, struct flmem_error *err);

/*
 * Sets the registers of the thread to start the chain: the one step that arms it. Then blocks its
 * signals before it runs. Otherwise a handler that runs before the chain would take a signal whose
 * EINTR the interrupted call then never returns, and a stop for each of many signals would keep the
 * chain from starting. Returns 0 or -errno.
 */
int flmem_arch_arm(pid_t tid, const struct flmem_thread_state *state,
		   const struct flmem_scratch *scratch, uint64_t restorer);

/*
 * True if this is a signal mask of calls in a chain, or of a thread that such a call has started.
 * Programs do not set it: C libraries block both of their internal signals (32 and 33) or neither,
 * and a chain leaves only 33, which setuid() uses, unblocked.
 */
bool flmem_arch_is_chain_mask(uint64_t mask);

/*
 * True if the stopped thread is in call `index` of the chain or returning from it. The call is one
 * of flmem_arch_syscall. False for every thread that has restored itself: its argument registers
 * differ from those of the call, whatever its stack pointer.
 */
bool flmem_arch_is_in_call(const struct flmem_thread_state *state, const struct flmem_chain *chain,
			   size_t index, const struct flmem_scratch *scratch,
			   const struct flmem_gadgets *gadgets);

/*
 * Restores the saved state of the thread. The thread is consistent after each step, even if no
 * other follows; the registers are written last. Returns 0 or -errno; after a failure the thread
 * restores itself through its frames.
 */
int flmem_arch_restore(pid_t tid, const struct flmem_thread_state *state);

/* Return the stack pointer and the program counter in the registers. */
uint64_t flmem_arch_sp(const struct flmem_thread_state *state);
uint64_t flmem_arch_pc(const struct flmem_thread_state *state);

/*
 * Returns the return address that a function which has called no other one keeps in a register; 0
 * on processors that put it on the stack.
 */
uint64_t flmem_arch_link(const struct flmem_thread_state *state);

/* Returns a return address without the bits that sign it. */
uint64_t flmem_arch_plain_address(uint64_t word);

/*
 * Returns the thread pointer: the address at which the C library keeps the thread's control block.
 */
uint64_t flmem_arch_thread_pointer(const struct flmem_thread_state *state);

/*
 * True if the thread pointer leads to a control block of a C library (on x86-64 its first word is
 * its own address: System V ABI for thread-local storage). The C library's functions must not be
 * called with another one.
 */
bool flmem_arch_has_thread_block(const struct flmem_process *process,
				 const struct flmem_thread_state *state);

/*
 * True if a thread with this thread pointer is the one for which pthread_create() has returned this
 * value.
 */
bool flmem_arch_is_thread(uint64_t pointer, uint64_t pthread);

/*
 * True if the bytes at `words` (`count` words of a stack) have the form of a signal frame. With
 * flmem_arch_frame_has_restorer words[0] is then the return address of its handler:
 * flmem_arch_restorer, in any library. *ret_mask is the signal mask that returning through the
 * frame restores.
 */
extern const bool flmem_arch_frame_has_restorer;
bool flmem_arch_is_signal_frame(const uint64_t *words, size_t count, uint64_t *ret_mask);

#endif
