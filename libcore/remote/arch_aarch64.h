/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_ARCH_AARCH64_H
#define FLMEM_REMOTE_ARCH_AARCH64_H

/*
 * Parts of arch_aarch64.c that can be tested without a thread: the frame, and the state that it
 * does not contain.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

struct flmem_gadgets;
struct flmem_scratch;
struct flmem_thread_state;

#define FLMEM_AARCH64_FPSIMD_MAGIC 0x46508001U
#define FLMEM_AARCH64_POE_MAGIC	   0x504f4530U

/*
 * What rt_sigreturn reads in the kernel: struct rt_sigframe in arch/arm64/kernel/signal.c, with
 * arch/arm64/include/uapi/asm/{ucontext,sigcontext}.h. The space for records is cut after those
 * that a chain uses; a record head of 0 ends the list.
 */
struct flmem_aarch64_frame {
	unsigned char info[128];
	uint64_t flags;
	uint64_t link;
	uint64_t stack_pointer;
	uint32_t stack_flags;
	uint32_t padding;
	uint64_t stack_size;
	uint64_t mask;
	unsigned char unused[128]; /* room for more signals, and alignment to 16 */
	uint64_t fault;
	uint64_t registers[31];
	uint64_t sp, pc, pstate;
	uint64_t alignment;
	struct {
		uint32_t magic, size;
		uint32_t fpsr, fpcr;
		unsigned char registers[512];
	} vectors;
	struct {
		uint32_t magic, size;
		uint64_t value; /* POR_EL0, the rights under protection keys */
	} rights;
	uint64_t end[2];
};

_Static_assert(offsetof(struct flmem_aarch64_frame, mask) == 128 + 40, "kernel ABI");
_Static_assert(offsetof(struct flmem_aarch64_frame, fault) == 128 + 176, "kernel ABI");
_Static_assert(offsetof(struct flmem_aarch64_frame, vectors) == 128 + 176 + 288, "kernel ABI");
_Static_assert(sizeof(struct flmem_aarch64_frame) % 16 == 0, "the stack pointer is its address");

#define FLMEM_AARCH64_FRAME_STEP sizeof(struct flmem_aarch64_frame)

/* State of a thread that its frame does not hold. */
struct flmem_vector_use {
	bool wide;	   /* registers of SVE that are wider than FPSIMD are in use */
	bool streaming;	   /* SME's streaming mode */
	bool matrix;	   /* SME's matrix register is on: functions may not be called as usual */
	bool shadow_stack; /* GCS: the processor checks return addresses */
	bool keys;	   /* POE: memory protection keys are in use */
	bool tags;	   /* MTE: tags are checked; frames are written without tags */
	bool breakpoints;  /* breakpoints or watchpoints of the processor are set */
};

/* Returns the reason not to borrow the thread, or NULL. */
const char *flmem_aarch64_refuses(const struct flmem_vector_use *use);

/*
 * Makes the registers with which the thread, wherever it is stopped, reads the action of a signal:
 * a call that stores the action in the data of the chain and returns through the last frame.
 */
void flmem_aarch64_ask(const struct flmem_thread_state *own, const struct flmem_scratch *scratch,
		       const struct flmem_gadgets *gadgets, int signal,
		       struct user_regs_struct *ret_regs);

struct flmem_vector_header {
	uint32_t size, max_size;
	uint16_t length, max_length, flags, reserved;
};

#endif
