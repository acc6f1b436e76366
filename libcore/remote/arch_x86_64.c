/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __x86_64__

#include "remote/arch.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/task.h"

#define RED_ZONE 128 /* System V AMD64 ABI 3.2.2 */

/* Kernel-internal results of interrupted calls, include/linux/errno.h; visible only to tracers. */
#define RESTART_SYS	      (-512)
#define RESTART_NO_INTR	      (-513)
#define RESTART_NO_HAND	      (-514)
#define RESTART_RESTART_BLOCK (-516)

#define USER_CS		    0x33U
#define USER_DS		    0x2bU
#define FLAG_TRAP	    0x100U
#define FLAG_DIRECTION	    0x400U
#define BREAKPOINTS_ENABLED 0xffU  /* in debug register 7: four local and four global enable bits */
#define FLAGS_CLEAN	    0x202U /* interrupts on, and the bit that is always one */

/*
 * Signals that the processor raises stay unblocked: if blocked, they kill without a handler. Those
 * that the thread itself blocks stay blocked: another process may have sent them, and the program
 * waits for them with sigwait() or signalfd().
 * SIGSETXID (33, nptl/pthreadP.h) stays unblocked, too: setuid() and similar functions of glibc
 * send it to every thread and wait, also for threads that a chain starts and that inherit its mask.
 */
#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))
#define FAULT_BITS	   (SIGNAL_BIT(7) | SIGNAL_BIT(8) | SIGNAL_BIT(11))
#define RAISED_BITS	   (SIGNAL_BIT(4) | SIGNAL_BIT(5) | FAULT_BITS)
#define CHAIN_MASK	   (~(RAISED_BITS | SIGNAL_BIT(33)))

/* Beside the two: musl's SIGSYNCCALL, SIGABRT in older versions, what the thread may block. */
#define ALWAYS_UNBLOCKED (SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP))
#define MAY_BE_UNBLOCKED (ALWAYS_UNBLOCKED | SIGNAL_BIT(34) | SIGNAL_BIT(6) | RAISED_BITS)

/*
 * The structures that rt_sigreturn reads in the kernel:
 * arch/x86/include/uapi/asm/{sigcontext,ucontext}.h.
 */
struct signal_context {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t error, trap, old_mask, cr2;
	uint64_t fpstate; /* address of the vector state */
	uint64_t reserved[8];
};

struct signal_frame {
	uint64_t restorer; /* return address of the call */
	uint64_t flags;
	uint64_t link;
	uint64_t stack_pointer;
	uint32_t stack_flags;
	uint32_t padding;
	uint64_t stack_size;
	struct signal_context context;
	uint64_t mask;
};

_Static_assert(sizeof(struct signal_context) == 256, "kernel ABI");
_Static_assert(sizeof(struct signal_frame) == 312, "kernel ABI");

/*
 * UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS. The frames of calls have none of them: a
 * function that returns into such a frame reads its seventh and eighth argument from the first
 * words of the frame, which have to be 0 (and may be overwritten). Without the last flag the kernel
 * only repairs an ss that is not a valid segment.
 */
#define FRAME_FLAGS 7U
/* This value of ss_flags is invalid, so rt_sigreturn does not change the alternate stack. */
#define STACK_UNTOUCHED 0x10U
#define FRAME_STEP	320U /* keeps the 16-byte alignment */

/* Software bytes at the end of the legacy area: struct _fpx_sw_bytes. */
#define SOFTWARE_BYTES 464
#define XSTATE_MAGIC1  0x46505853U
#define XSTATE_MAGIC2  0x46505845U

/* The XSAVE area: Intel SDM volume 1, chapter 13. */
#define CPUID_XSTATE	   0xdU
#define XSTATE_X87_CONTROL 0
#define XSTATE_MXCSR	   24
#define X87_INITIAL	   0x37fU
#define MXCSR_INITIAL	   0x1f80U
#define XSTATE_PRESENT	   512 /* XSTATE_BV: components that are not in their initial state */
#define XSTATE_HEADER_END  576
#define XSTATE_TILE_DATA   (UINT64_C(1) << 18)

static const unsigned char restorer_code[] = {
	0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, /* mov $15, %rax */
	0x0f, 0x05,				  /* syscall */
};

static const unsigned char syscall_code[] = {
	0x0f, 0x05, /* syscall */
	0xc3,	    /* ret */
};

#define MOV_LENGTH     7U
#define SYSCALL_LENGTH 2U
#define BREAKPOINT     0xccU /* int3 */

const struct flmem_arch_code flmem_arch_restorer = {restorer_code, sizeof(restorer_code)};
const struct flmem_arch_code flmem_arch_syscall = {syscall_code, sizeof(syscall_code)};

bool flmem_arch_supported(void)
{
	return true;
}

uint16_t flmem_arch_machine(void)
{
	return EM_X86_64;
}

/*
 * True for the instruction syscall. Not int $0x80 or the vsyscall page: their call numbers or
 * instruction lengths differ.
 */
bool flmem_arch_is_call_site(const struct flmem_process *process, uint64_t pc)
{
	unsigned char code[2];

	return flmem_process_read_memory(process, pc - sizeof(code), code, sizeof(code)) == 0 &&
	       memcmp(code, syscall_code, sizeof(code)) == 0;
}

bool flmem_arch_is_breakpoint(const struct flmem_process *process, uint64_t address,
			      uint64_t *ret_start)
{
	unsigned char code;

	*ret_start = address;
	return flmem_process_read_memory(process, address, &code, sizeof(code)) == 0 &&
	       code == BREAKPOINT;
}

int flmem_arch_read_registers(pid_t tid, struct flmem_thread_state *state)
{
	struct iovec io = {.iov_base = &state->regs, .iov_len = sizeof(state->regs)};

	return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &io) < 0 ? -errno : 0;
}

static int write_registers(pid_t tid, const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	struct iovec io = {.iov_base = &copy, .iov_len = sizeof(copy)};

	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io) < 0 ? -errno : 0;
}

int flmem_arch_read_rest(pid_t tid, struct flmem_thread_state *state)
{
	struct iovec io = {.iov_base = state->xstate, .iov_len = sizeof(state->xstate)};

	if (ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &io) < 0)
		return -errno;
	/* A full buffer may be truncated. */
	if (io.iov_len < XSTATE_HEADER_END || io.iov_len >= sizeof(state->xstate))
		return -E2BIG;
	state->xstate_length = io.iov_len;
	if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(state->signal_mask), &state->signal_mask) < 0)
		return -errno;
	return 0;
}

void flmem_arch_read_call(const struct flmem_thread_state *state, struct flmem_task_wait *ret_at)
{
	const struct user_regs_struct *r = &state->regs;

	*ret_at = (struct flmem_task_wait){
		.number = (long)r->orig_rax < 0 ? -1 : (long)r->orig_rax,
		.args = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9},
		.sp = r->rsp,
		.pc = r->rip,
	};
}

bool flmem_arch_gave_eintr(const struct flmem_thread_state *state)
{
	return !flmem_arch_in_program(state) && (long)state->regs.rax == -EINTR;
}

bool flmem_arch_interrupted_in(const struct flmem_thread_state *state,
			       const struct flmem_task_wait *at)
{
	struct flmem_task_wait now;

	flmem_arch_read_call(state, &now);
	if (now.number != at->number || now.sp != at->sp || now.pc != at->pc ||
	    memcmp(now.args, at->args, sizeof(now.args)) != 0)
		return false;
	switch ((long)state->regs.rax) {
	case RESTART_SYS:
	case RESTART_NO_INTR:
	case RESTART_NO_HAND:
	case RESTART_RESTART_BLOCK:
	case -EINTR:
		return true;
	default:
		return false;
	}
}

/* orig_rax and the argument registers hold the call completely. */
const bool flmem_arch_forgets_wait = false;

/* A repeated call stops again at its instruction: the result register then has its number. */
bool flmem_arch_has_returned(const struct flmem_thread_state *state,
			     const struct flmem_task_wait *at)
{
	return !flmem_arch_interrupted_in(state, at) && state->regs.rax != state->regs.orig_rax;
}

bool flmem_arch_in_program(const struct flmem_thread_state *state)
{
	return (long)state->regs.orig_rax < 0;
}

/*
 * The kernel clears breakpoints when a thread exits or executes a program, not when its tracer
 * exits.
 */
const char *flmem_arch_refuses(pid_t tid)
{
	long enabled;

	errno = 0;
	enabled = ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user, u_debugreg[7]), NULL);
	return errno || enabled & BREAKPOINTS_ENABLED ? FLMEM_ARCH_HAS_BREAKPOINTS : NULL;
}

/*
 * With RESTART_NO_HAND the kernel repeats the call if no handler runs and returns EINTR if one
 * does, as all these calls document. A plain EINTR would reach the program although nothing
 * happened. RESTART_RESTART_BLOCK relies on a restart block that the chain is about to overwrite.
 */
int flmem_arch_make_resumable(pid_t tid, struct flmem_thread_state *state)
{
	if (flmem_arch_in_program(state))
		return 0;
	if ((long)state->regs.rax == -EINTR) {
		state->regs.rax = (unsigned long)RESTART_NO_HAND;
		return write_registers(tid, &state->regs);
	}
	if ((long)state->regs.rax == RESTART_RESTART_BLOCK)
		state->regs.rax = (unsigned long)RESTART_NO_HAND;
	return 0;
}

int flmem_arch_repeat_call(pid_t tid, struct flmem_thread_state *state)
{
	if (flmem_arch_in_program(state) || (long)state->regs.rax != RESTART_RESTART_BLOCK)
		return 0;
	state->regs.rax = (unsigned long)RESTART_NO_HAND;
	return write_registers(tid, &state->regs);
}

void flmem_arch_finish_call(struct flmem_thread_state *state)
{
	const uint16_t control = X87_INITIAL;
	const uint32_t mxcsr = MXCSR_INITIAL;

	state->regs.rax = 0;
	state->regs.orig_rax = (unsigned long)-1;
	memcpy(state->xstate + XSTATE_X87_CONTROL, &control, sizeof(control));
	memcpy(state->xstate + XSTATE_MXCSR, &mxcsr, sizeof(mxcsr));
}

static uint64_t chain_mask(const struct flmem_thread_state *state,
			   const struct flmem_scratch *scratch)
{
	return (CHAIN_MASK | (state->signal_mask & RAISED_BITS)) & ~scratch->unblocked;
}

static void fill_frame(struct signal_frame *frame, uint64_t restorer, uint64_t mask)
{
	*frame = (struct signal_frame){
		.restorer = restorer,
		.stack_flags = STACK_UNTOUCHED,
		.mask = mask,
	};
	frame->context.cs = USER_CS;
	frame->context.ss = USER_DS;
	frame->context.eflags = FLAGS_CLEAN;
}

/*
 * The calls run with the vector state of the thread. A clean state has the default rights of
 * protection keys, with which a heap under a key of the program faults (init_pkru in the kernel's
 * arch/x86/mm/pkeys.c).
 */
static void fill_call(struct signal_frame *frame, const struct flmem_call *call,
		      const struct flmem_scratch *scratch, uint64_t sp, uint64_t fpstate)
{
	uint64_t *const places[FLMEM_CHAIN_ARGS] = {
		&frame->context.rdi, &frame->context.rsi, &frame->context.rdx,
		&frame->context.rcx, &frame->context.r8,  &frame->context.r9,
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(places); i++)
		*places[i] = flmem_call_argument(call, i, scratch->data, scratch->area);
	frame->context.rax = call->number;
	frame->context.rip = call->function;
	frame->context.rsp = sp;
	frame->context.fpstate = fpstate;
}

/*
 * Fills the saved state of the thread; if it was in a system call, at the instruction that makes
 * the call again.
 */
static void fill_thread(struct signal_frame *frame, const struct user_regs_struct *r,
			uint64_t fpstate)
{
	struct signal_context *c = &frame->context;

	c->r8 = r->r8;
	c->r9 = r->r9;
	c->r10 = r->r10;
	c->r11 = r->r11;
	c->r12 = r->r12;
	c->r13 = r->r13;
	c->r14 = r->r14;
	c->r15 = r->r15;
	c->rdi = r->rdi;
	c->rsi = r->rsi;
	c->rbp = r->rbp;
	c->rbx = r->rbx;
	c->rdx = r->rdx;
	c->rcx = r->rcx;
	c->rsp = r->rsp;
	c->eflags = r->eflags;
	c->rax = (long)r->orig_rax < 0 ? r->rax : r->orig_rax;
	c->rip = (long)r->orig_rax < 0 ? r->rip : r->rip - SYSCALL_LENGTH;
	c->fpstate = fpstate;
}

/* Returns the offset at which the last of the state components ends in the standard format. */
static uint32_t xstate_end(uint64_t components)
{
	uint32_t end = XSTATE_HEADER_END;

	for (unsigned i = 2; i < 63; i++) {
		uint32_t length, offset, flags, unused;

		if (!(components >> i & 1U))
			continue;
		__cpuid_count(CPUID_XSTATE, i, length, offset, flags, unused);
		if (offset + length > end)
			end = offset + length;
	}
	return end;
}

/*
 * rt_sigreturn restores vector state only if the second magic word is at the end of the size that
 * the thread's own frames have; otherwise it clears the registers. The frames of a thread have no
 * room for AMX tile data until it has used some, but ptrace always returns that part. Whether a
 * thread without live tiles has used them before is unknown, so the word is written at both ends.
 * Source: check_xstate_in_sigframe() in arch/x86/kernel/fpu/signal.c.
 */
static void fill_xstate(unsigned char *out, const struct flmem_thread_state *state)
{
	uint32_t whole = (uint32_t)state->xstate_length, size = whole, extended;
	uint32_t magic1 = XSTATE_MAGIC1, magic2 = XSTATE_MAGIC2;
	uint64_t enabled, present;

	memcpy(out, state->xstate, whole);
	/* ptrace stores the mask of enabled features (xcr0) at the start of the software bytes. */
	memcpy(&enabled, state->xstate + SOFTWARE_BYTES, sizeof(enabled));
	memcpy(&present, state->xstate + XSTATE_PRESENT, sizeof(present));
	if (enabled & ~present & XSTATE_TILE_DATA) {
		enabled &= ~XSTATE_TILE_DATA;
		if (xstate_end(enabled) < whole)
			size = xstate_end(enabled);
	}
	extended = size + 4;
	memcpy(out + SOFTWARE_BYTES, &magic1, 4);
	memcpy(out + SOFTWARE_BYTES + 4, &extended, 4);
	memcpy(out + SOFTWARE_BYTES + 8, &enabled, 8);
	memcpy(out + SOFTWARE_BYTES + 16, &size, 4);
	memcpy(out + size, &magic2, 4);
	memcpy(out + whole, &magic2, 4);
}

/*
 * Builds the frames. From high to low addresses: red zone, vector state, area, data, the frame of
 * the thread, the frames of the calls from the last to the first. A call starts with its stack
 * pointer at the frame above its own, so it may overwrite its own frame and all frames below, which
 * are used up.
 */
int flmem_arch_build(const struct flmem_thread_state *state, const struct flmem_chain *chain,
		     uint64_t restorer, struct flmem_scratch *scratch, struct flmem_error *err)
{
	uint64_t top = state->regs.rsp - RED_ZONE;
	uint64_t fpstate = (top - state->xstate_length - 4) & ~UINT64_C(63);
	uint64_t area = (fpstate - chain->area.length) & ~UINT64_C(15);
	uint64_t data = (area - chain->data_length) & ~UINT64_C(15);
	uint64_t last = ((data - FRAME_STEP) & ~UINT64_C(15)) - 8;
	uint64_t first = last - FRAME_STEP * chain->count;
	struct signal_frame frame;

	if (chain->overflow || !chain->count || top < scratch->capacity ||
	    chain->area.length > scratch->capacity || top - first > scratch->capacity)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the calls do not fit on the stack of the thread");
	scratch->unblocked = chain->unblocked;
	scratch->address = first;
	scratch->length = fpstate + state->xstate_length + 4 - first;
	scratch->data = data;
	scratch->area = area;
	/* The thread starts as if a handler had returned: above the restorer's own slot. */
	scratch->entry = first + sizeof(frame.restorer);
	memset(scratch->bytes, 0, scratch->length);
	for (size_t i = 0; i < chain->count; i++) {
		const struct flmem_call *call = &chain->calls[i];

		fill_frame(&frame, restorer,
			   call->has_mask ? call->mask : chain_mask(state, scratch));
		fill_call(&frame, call, scratch, first + FRAME_STEP * (i + 1), fpstate);
		memcpy(scratch->bytes + FRAME_STEP * i, &frame, sizeof(frame));
	}
	fill_frame(&frame, restorer, state->signal_mask);
	frame.flags = FRAME_FLAGS;
	fill_thread(&frame, &state->regs, fpstate);
	memcpy(scratch->bytes + (last - first), &frame, sizeof(frame));
	memcpy(scratch->bytes + (data - first), chain->data, chain->data_length);
	if (chain->area.length)
		memcpy(scratch->bytes + (area - first), chain->area.bytes, chain->area.length);
	fill_xstate(scratch->bytes + (fpstate - first), state);
	return 0;
}

int flmem_arch_arm(pid_t tid, const struct flmem_thread_state *state,
		   const struct flmem_scratch *scratch, uint64_t restorer)
{
	struct user_regs_struct regs = state->regs;
	uint64_t mask = chain_mask(state, scratch);
	int rc;

	regs.orig_rax = (unsigned long)-1; /* no system call to repeat */
	regs.rax = 0;
	regs.rip = restorer;
	regs.rsp = scratch->entry;
	regs.eflags &= ~(unsigned long)(FLAG_TRAP | FLAG_DIRECTION);
	rc = write_registers(tid, &regs);
	if (rc)
		return rc;
	/* Set the mask after the registers: from this point on the last frame restores it. */
	(void)ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask);
	return 0;
}

/*
 * The kernel never blocks two signals, and a chain may leave more unblocked (struct flmem_chain).
 * glibc's own functions and sigfillset() block neither or both of its two signals.
 */
bool flmem_arch_is_chain_mask(uint64_t mask)
{
	return (mask | MAY_BE_UNBLOCKED) == (CHAIN_MASK | MAY_BE_UNBLOCKED);
}

/*
 * System calls keep their arguments, except that the fourth is in rcx; returning through the
 * restorer keeps them as well.
 */
bool flmem_arch_is_in_call(const struct flmem_thread_state *state, const struct flmem_chain *chain,
			   size_t index, const struct flmem_scratch *scratch,
			   const struct flmem_gadgets *gadgets)
{
	const struct user_regs_struct *r = &state->regs;
	const struct flmem_call *call = &chain->calls[index];
	uint64_t sp = scratch->address + FRAME_STEP * (index + 1);
	bool inside = r->rsp == sp &&
		      (r->rip == gadgets->syscall || r->rip == gadgets->syscall + SYSCALL_LENGTH);
	bool leaving = r->rsp == sp + sizeof(uint64_t) &&
		       (r->rip == gadgets->restorer || r->rip == gadgets->restorer + MOV_LENGTH);

	return (inside || leaving) &&
	       r->rdi == flmem_call_argument(call, 0, scratch->data, scratch->area) &&
	       r->rsi == flmem_call_argument(call, 1, scratch->data, scratch->area) &&
	       r->rdx == flmem_call_argument(call, 2, scratch->data, scratch->area) &&
	       r->r8 == flmem_call_argument(call, 4, scratch->data, scratch->area) &&
	       r->r9 == flmem_call_argument(call, 5, scratch->data, scratch->area);
}

int flmem_arch_restore(pid_t tid, const struct flmem_thread_state *state)
{
	uint64_t mask = state->signal_mask;
	struct iovec io = {.iov_base = (void *)(uintptr_t)state->xstate,
			   .iov_len = state->xstate_length};

	if (ptrace(PTRACE_SETREGSET, tid, NT_X86_XSTATE, &io) < 0)
		return -errno;
	if (ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask) < 0)
		return -errno;
	return write_registers(tid, &state->regs);
}

uint64_t flmem_arch_sp(const struct flmem_thread_state *state)
{
	return state->regs.rsp;
}

uint64_t flmem_arch_pc(const struct flmem_thread_state *state)
{
	return state->regs.rip;
}

uint64_t flmem_arch_link(const struct flmem_thread_state *state)
{
	(void)state;
	return 0;
}

uint64_t flmem_arch_plain_address(uint64_t word)
{
	return word;
}

/* glibc and musl return the thread pointer. */
bool flmem_arch_is_thread(uint64_t pointer, uint64_t pthread)
{
	return pointer == pthread;
}

uint64_t flmem_arch_thread_pointer(const struct flmem_thread_state *state)
{
	return state->regs.fs_base;
}

bool flmem_arch_has_thread_block(const struct flmem_process *process,
				 const struct flmem_thread_state *state)
{
	uint64_t first, block = state->regs.fs_base;

	return flmem_process_read_memory(process, block, &first, sizeof(first)) == 0 &&
	       first == block;
}

const bool flmem_arch_frame_has_restorer = true;

bool flmem_arch_is_signal_frame(const uint64_t *words, size_t count, uint64_t *ret_mask)
{
	struct signal_frame frame;

	/* Two cheap conditions first; stale words of an old frame rarely meet all of them. */
	if (count < sizeof(frame) / sizeof(*words) || words[1] > FRAME_FLAGS || words[2])
		return false;
	memcpy(&frame, words, sizeof(frame));
	/* The interrupted stack may be above or below an alternate one. */
	if (frame.context.cs != USER_CS || !frame.context.rsp || !frame.context.rip)
		return false;
	*ret_mask = frame.mask;
	return true;
}

#else
typedef int flmem_arch_x86_64_unused;
#endif
