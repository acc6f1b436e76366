/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__

#include "remote/arch_aarch64.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/task.h"
#include "remote/arch.h"

/* Newer than the headers of some C libraries: linux/elf.h. */
#define REGSET_TLS	   0x401 /* NT_ARM_TLS: TPIDR_EL0, and TPIDR2_EL0 since Linux 6.0 */
#define REGSET_BREAK	   0x402 /* NT_ARM_HW_BREAK */
#define REGSET_WATCH	   0x403 /* NT_ARM_HW_WATCH */
#define REGSET_SVE	   0x405
#define BREAKPOINT_ENABLED 1U
#define REGSET_SSVE	   0x40b
#define REGSET_ZA	   0x40c
#define REGSET_POE	   0x40f
#define REGSET_GCS	   0x410
#define REGSET_TAGS	   0x409 /* NT_ARM_TAGGED_ADDR_CTRL */
#define GCS_ENABLED	   1U	 /* PR_SHADOW_STACK_ENABLE */
#define TAGS_CHECKED	   6U	 /* PR_MTE_TCF_SYNC, PR_MTE_TCF_ASYNC */
#define LINK_POINTER	   30

/* SVE_PT_REGS_SVE: the thread now uses registers wider than FPSIMD. */
#define VECTORS_SVE 1U

/* asm/ptrace.h: state of the interrupted instruction that a function must not start with. */
#define STATE_BTYPE (UINT64_C(3) << 10)
#define STATE_IL    (UINT64_C(1) << 20)
#define STATE_SS    (UINT64_C(1) << 21)
#define STATE_TCO   (UINT64_C(1) << 25) /* memory tags unchecked */
#define STATE_MODE  UINT64_C(0x1f)	/* 0: 64-bit user mode */

#define CODE_BYTES	  4U
#define SVC_0		  0xd4000001U
#define BRK		  0xd4200000U
#define BRK_MASK	  0xffe0001fU
#define ADDRESSES_END	  (UINT64_C(1) << 48)
#define CONTROL_BLOCK_MAX 4096U /* 1,856 bytes in glibc 2.36 */
#define FRAME_WHOLE	  4688U /* the whole frame must be at addresses of the program */
#define VECTOR_BYTES	  528U	/* struct user_fpsimd_state, with the same bytes in a frame */
#define VECTORS_LENGTH	  512U
#define VECTOR_FPSR	  512U /* positions in the register set */

#define KERNEL_SIGSET_BYTES 8U

/* Signals that stay unblocked, for the reasons in arch_x86_64.c. */
#define SIGNAL_OF(number) (UINT64_C(1) << ((number)-1))
#define FAULTING_ONES	  (SIGNAL_OF(7) | SIGNAL_OF(8) | SIGNAL_OF(11))
#define RAISED_ONES	  (SIGNAL_OF(4) | SIGNAL_OF(5) | FAULTING_ONES)
#define CALLS_MASK	  (~(RAISED_ONES | SIGNAL_OF(33)))
#define NEVER_BLOCKED	  (SIGNAL_OF(SIGKILL) | SIGNAL_OF(SIGSTOP))
#define MAYBE_UNBLOCKED	  (NEVER_BLOCKED | SIGNAL_OF(34) | SIGNAL_OF(6) | RAISED_ONES)

static const unsigned char restorer_words[] = {
	0x68, 0x11, 0x80, 0xd2, /* mov x8, #139 */
	0x01, 0x00, 0x00, 0xd4, /* svc #0 */
};

static const unsigned char call_words[] = {
	0x01, 0x00, 0x00, 0xd4, /* svc #0 */
	0xc0, 0x03, 0x5f, 0xd6, /* ret */
};

const struct flmem_arch_code flmem_arch_restorer = {restorer_words, sizeof(restorer_words)};
const struct flmem_arch_code flmem_arch_syscall = {call_words, sizeof(call_words)};

bool flmem_arch_supported(void)
{
	return true;
}

uint16_t flmem_arch_machine(void)
{
	return EM_AARCH64;
}

static bool is_svc(uint32_t code)
{
	return code == SVC_0;
}

bool flmem_arch_is_call_site(const struct flmem_process *process, uint64_t pc)
{
	uint32_t code;

	return flmem_process_read_memory(process, pc - CODE_BYTES, &code, sizeof(code)) == 0 &&
	       is_svc(code);
}

/* A breakpoint is brk with any number (Arm ARM, C6.2). */
bool flmem_arch_is_breakpoint(const struct flmem_process *process, uint64_t address,
			      uint64_t *ret_start)
{
	uint32_t code;

	*ret_start = address - address % CODE_BYTES;
	return flmem_process_read_memory(process, *ret_start, &code, sizeof(code)) == 0 &&
	       (code & BRK_MASK) == BRK;
}

/* Reads up to `length` bytes of a register set; returns their number, or -errno. */
static int read_regset(pid_t tid, int set, void *out, size_t length)
{
	struct iovec io = {.iov_base = out, .iov_len = length};

	return ptrace(PTRACE_GETREGSET, tid, set, &io) < 0 ? -errno : (int)io.iov_len;
}

static int write_regset(pid_t tid, int set, const void *bytes, size_t length)
{
	struct iovec io = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};

	return ptrace(PTRACE_SETREGSET, tid, set, &io) < 0 ? -errno : 0;
}

/* Reads the instruction before the program counter and the one at it, usually by one request. */
static void read_arm_code(pid_t tid, uint64_t pc, uint32_t ret_codes[2])
{
	long word;

	memset(ret_codes, 0, 2 * sizeof(*ret_codes));
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, tid, (void *)(uintptr_t)(pc - CODE_BYTES), NULL);
	if (errno == 0) {
		memcpy(ret_codes, &word, sizeof(word));
		return;
	}
	errno = 0; /* perhaps nothing is mapped before the program counter */
	word = ptrace(PTRACE_PEEKTEXT, tid, (void *)(uintptr_t)pc, NULL);
	if (errno == 0)
		memcpy(ret_codes + 1, &word, sizeof(*ret_codes));
}

int flmem_arch_read_registers(pid_t tid, struct flmem_thread_state *state)
{
	int got = read_regset(tid, NT_PRSTATUS, &state->regs, sizeof(state->regs));
	uint32_t codes[2];

	if (got < 0)
		return got;
	got = read_regset(tid, REGSET_TLS, &state->thread_pointer, sizeof(state->thread_pointer));
	if (got < 0)
		return got;
	read_arm_code(tid, state->regs.pc, codes);
	state->after_svc = is_svc(codes[0]);
	state->at_svc = is_svc(codes[1]);
	return 0;
}

/*
 * Finds out whether a register set is in use; the kernel lacks it if the processor does. The header
 * has the length of the payload; a header without payload means that the feature is not in use.
 */
static bool uses_vectors(pid_t tid, int set, bool *ret_wide)
{
	struct flmem_vector_header header;
	int got = read_regset(tid, set, &header, sizeof(header));

	if (got < (int)sizeof(header))
		return false;
	*ret_wide = header.flags & VECTORS_SVE;
	return header.size > sizeof(header);
}

const char *flmem_aarch64_refuses(const struct flmem_vector_use *use)
{
	if (use->wide)
		return "has vector registers in use that are wider than 128 bits (SVE)";
	if (use->streaming || use->matrix)
		return "uses the matrix extension of its processor (SME)";
	if (use->shadow_stack)
		return "has its returns checked by the processor (GCS)";
	if (use->keys)
		return "has protection keys (POE), with which it has not been tried";
	if (use->breakpoints)
		return FLMEM_ARCH_HAS_BREAKPOINTS;
	return use->tags ? "has its memory tags checked by the processor (MTE)" : NULL;
}

/* Reads struct user_hwdebug_state; the kernel has this set if the processor has debug registers. */
static bool has_breakpoints(pid_t tid, int set)
{
	struct {
		uint32_t info, padding;
		struct {
			uint64_t address;
			uint32_t control, padding;
		} rows[16];
	} state = {0};
	int got = read_regset(tid, set, &state, sizeof(state));

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(state.rows); i++)
		if (got > 0 && state.rows[i].control & BREAKPOINT_ENABLED)
			return true;
	return false;
}

static struct flmem_vector_use read_use(pid_t tid)
{
	struct flmem_vector_use use = {0};
	uint64_t shadow[3] = {0}; /* features_enabled, features_locked, gcspr_el0 */
	bool wide = false;
	uint64_t tags = 0, rights;

	use.wide = uses_vectors(tid, REGSET_SVE, &wide) && wide;
	use.streaming = uses_vectors(tid, REGSET_SSVE, &wide);
	use.matrix = uses_vectors(tid, REGSET_ZA, &wide);
	use.shadow_stack =
		read_regset(tid, REGSET_GCS, shadow, sizeof(shadow)) > 0 && shadow[0] & GCS_ENABLED;
	use.keys = read_regset(tid, REGSET_POE, &rights, sizeof(rights)) > 0;
	use.breakpoints = has_breakpoints(tid, REGSET_BREAK) || has_breakpoints(tid, REGSET_WATCH);
	use.tags = read_regset(tid, REGSET_TAGS, &tags, sizeof(tags)) > 0 && tags & TAGS_CHECKED;
	return use;
}

const char *flmem_arch_refuses(pid_t tid)
{
	const struct flmem_vector_use use = read_use(tid);

	return flmem_aarch64_refuses(&use);
}

int flmem_arch_read_rest(pid_t tid, struct flmem_thread_state *state)
{
	int got = read_regset(tid, NT_PRFPREG, state->xstate, sizeof(state->xstate));

	if (got < 0)
		return got;
	if (got != VECTOR_BYTES)
		return -ENOTSUP;
	state->xstate_length = VECTOR_BYTES;
	state->has_access_rights = false; /* refused, see flmem_aarch64_refuses() */
	if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(state->signal_mask), &state->signal_mask) < 0)
		return -errno;
	return 0;
}

/*
 * The kernel moves the program counter back to the instruction, and restores the first argument in
 * its register, before a tracer sees the thread; it checks for signals only after that (do_signal()
 * in arch/arm64/kernel/signal.c). A thread that was about to make the call looks the same, and
 * makes it when released.
 */
void flmem_arch_read_call(const struct flmem_thread_state *state, struct flmem_task_wait *ret_at)
{
	const struct user_regs_struct *r = &state->regs;

	*ret_at = (struct flmem_task_wait){.number = -1, .sp = r->sp, .pc = r->pc};
	if (!state->at_svc)
		return;
	ret_at->number = (long)(int)r->regs[8];
	memcpy(ret_at->args, r->regs, sizeof(ret_at->args));
	ret_at->pc = r->pc + CODE_BYTES;
}

bool flmem_arch_gave_eintr(const struct flmem_thread_state *state)
{
	return state->after_svc && (int64_t)state->regs.regs[0] == -EINTR;
}

/* A call that ended with plain EINTR has lost its first argument, so it cannot be restarted. */
bool flmem_arch_interrupted_in(const struct flmem_thread_state *state,
			       const struct flmem_task_wait *at)
{
	const struct user_regs_struct *r = &state->regs;

	return state->at_svc && r->pc + CODE_BYTES == at->pc && r->sp == at->sp &&
	       (long)(int)r->regs[8] == at->number &&
	       memcmp(r->regs, at->args, sizeof(at->args)) == 0;
}

bool flmem_arch_has_returned(const struct flmem_thread_state *state,
			     const struct flmem_task_wait *at)
{
	return !flmem_arch_interrupted_in(state, at);
}

/*
 * The result of a call is not marked: a program counter after the instruction counts as in the
 * call.
 */
bool flmem_arch_in_program(const struct flmem_thread_state *state)
{
	return !state->at_svc && !state->after_svc;
}

const bool flmem_arch_forgets_wait = true;

/*
 * The kernel has done so already; in all other calls no thread is stopped
 * (remote/checks/quiet_stop.h).
 */
int flmem_arch_make_resumable(pid_t tid, struct flmem_thread_state *state)
{
	(void)tid, (void)state;
	return 0;
}

void flmem_arch_finish_call(struct flmem_thread_state *state)
{
	if (state->at_svc)
		state->regs.pc += CODE_BYTES;
	state->regs.regs[0] = 0;
	state->at_svc = false;
	memset(state->xstate + VECTOR_FPSR, 0, 8); /* clears FPSR and FPCR */
}

static uint64_t calls_mask(const struct flmem_thread_state *state,
			   const struct flmem_scratch *scratch)
{
	return (CALLS_MASK | (state->signal_mask & RAISED_ONES)) & ~scratch->unblocked;
}

/*
 * Fills the records of the frame. The calls run with the vector registers of the thread, as on
 * x86-64.
 */
static void fill_records(struct flmem_aarch64_frame *frame, const struct flmem_thread_state *state)
{
	frame->vectors.magic = FLMEM_AARCH64_FPSIMD_MAGIC;
	frame->vectors.size = sizeof(frame->vectors);
	memcpy(&frame->vectors.fpsr, state->xstate + VECTOR_FPSR, 8);
	memcpy(frame->vectors.registers, state->xstate, VECTORS_LENGTH);
	if (!state->has_access_rights)
		return;
	frame->rights.magic = FLMEM_AARCH64_POE_MAGIC;
	frame->rights.size = sizeof(frame->rights);
	frame->rights.value = state->access_rights;
}

/* This value of ss_flags is invalid, so rt_sigreturn does not change the alternate stack. */
#define ALTERNATE_UNTOUCHED 0x10U

static void start_frame(struct flmem_aarch64_frame *frame, const struct flmem_thread_state *state,
			uint64_t mask)
{
	*frame = (struct flmem_aarch64_frame){.stack_flags = ALTERNATE_UNTOUCHED, .mask = mask};
	fill_records(frame, state);
}

static uint64_t state_of_calls(const struct flmem_thread_state *state)
{
	return state->regs.pstate & ~(STATE_BTYPE | STATE_IL | STATE_SS | STATE_TCO);
}

/*
 * Fills the registers of a call. It is entered without a branch, so no landing pad is needed (BTI),
 * and left by `ret` to the restorer in the link register, which a function with pointer
 * authentication signs and checks itself.
 */
static void fill_registers(struct flmem_aarch64_frame *frame, const struct flmem_call *call,
			   const struct flmem_scratch *scratch, uint64_t restorer)
{
	for (size_t i = 0; i < FLMEM_CHAIN_ARGS; i++)
		frame->registers[i] = flmem_call_argument(call, i, scratch->data, scratch->area);
	frame->registers[8] = call->number;
	frame->registers[LINK_POINTER] = restorer;
	frame->pc = call->function;
}

/*
 * Fills the registers of the thread itself: a waiting thread is at the instruction that repeats its
 * call.
 */
static void fill_own(struct flmem_aarch64_frame *frame, const struct user_regs_struct *r)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(frame->registers); i++)
		frame->registers[i] = r->regs[i];
	frame->sp = r->sp;
	frame->pc = r->pc;
	frame->pstate = r->pstate;
}

static uint64_t own_frame(const struct flmem_scratch *scratch)
{
	return (scratch->data - FLMEM_AARCH64_FRAME_STEP) & ~UINT64_C(15);
}

/*
 * Lays out the frames. There is no red zone (AAPCS64), and the vector state is part of each frame.
 * From high to low addresses: area, data, the frame of the thread, the frames of the calls from the
 * last to the first. A call has its stack pointer at the frame above its own.
 */
static bool lay_out(const struct flmem_thread_state *state, const struct flmem_chain *chain,
		    struct flmem_scratch *scratch)
{
	uint64_t top = state->regs.sp & ~UINT64_C(15);
	uint64_t own;

	if (chain->overflow || !chain->count || top < scratch->capacity ||
	    chain->area.length > scratch->capacity || state->regs.pstate & STATE_MODE ||
	    state->xstate_length != VECTOR_BYTES)
		return false;
	scratch->area = (top - chain->area.length) & ~UINT64_C(15);
	scratch->data = (scratch->area - chain->data_length) & ~UINT64_C(15);
	own = own_frame(scratch);
	scratch->address = own - FLMEM_AARCH64_FRAME_STEP * chain->count;
	scratch->length = top - scratch->address;
	scratch->entry = scratch->address;
	scratch->unblocked = chain->unblocked;
	return scratch->length <= scratch->capacity && own + FRAME_WHOLE <= ADDRESSES_END;
}

int flmem_arch_build(const struct flmem_thread_state *state, const struct flmem_chain *chain,
		     uint64_t restorer, struct flmem_scratch *scratch, struct flmem_error *err)
{
	struct flmem_scratch planned = *scratch;
	struct flmem_aarch64_frame frame;
	unsigned char *at;

	if (!lay_out(state, chain, &planned))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the calls do not fit on the stack of the thread");
	*scratch = planned;
	memset(scratch->bytes, 0, scratch->length);
	at = scratch->bytes;
	for (size_t i = 0; i < chain->count; i++, at += FLMEM_AARCH64_FRAME_STEP) {
		const struct flmem_call *call = &chain->calls[i];

		start_frame(&frame, state,
			    call->has_mask ? call->mask : calls_mask(state, scratch));
		fill_registers(&frame, call, scratch, restorer);
		frame.pstate = state_of_calls(state);
		frame.sp = scratch->address + FLMEM_AARCH64_FRAME_STEP * (i + 1);
		memcpy(at, &frame, sizeof(frame));
	}
	start_frame(&frame, state, state->signal_mask);
	fill_own(&frame, &state->regs);
	memcpy(at, &frame, sizeof(frame));
	memcpy(scratch->bytes + (scratch->data - scratch->address), chain->data,
	       chain->data_length);
	if (chain->area.length)
		memcpy(scratch->bytes + (scratch->area - scratch->address), chain->area.bytes,
		       chain->area.length);
	return 0;
}

int flmem_arch_arm(pid_t tid, const struct flmem_thread_state *state,
		   const struct flmem_scratch *scratch, uint64_t restorer)
{
	struct user_regs_struct regs = state->regs;
	uint64_t mask = calls_mask(state, scratch);
	int rc;

	regs.regs[0] = 0;
	regs.pc = restorer;
	regs.sp = scratch->entry;
	regs.pstate = state_of_calls(state);
	rc = write_regset(tid, NT_PRSTATUS, &regs, sizeof(regs));
	if (rc)
		return rc;
	/* Set the mask after the registers: from this point on the last frame restores it. */
	(void)ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask);
	return 0;
}

bool flmem_arch_is_chain_mask(uint64_t mask)
{
	return (mask | MAYBE_UNBLOCKED) == (CALLS_MASK | MAYBE_UNBLOCKED);
}

/* The first argument is lost once the call has returned, its number once it was restarted. */
bool flmem_arch_is_in_call(const struct flmem_thread_state *state, const struct flmem_chain *chain,
			   size_t index, const struct flmem_scratch *scratch,
			   const struct flmem_gadgets *gadgets)
{
	const struct user_regs_struct *r = &state->regs;
	const struct flmem_call *call = &chain->calls[index];
	bool inside = r->pc == gadgets->syscall &&
		      r->regs[0] == flmem_call_argument(call, 0, scratch->data, scratch->area);
	bool leaving = r->pc == gadgets->syscall + CODE_BYTES || r->pc == gadgets->restorer ||
		       r->pc == gadgets->restorer + CODE_BYTES;

	if (!inside && !leaving)
		return false;
	for (size_t i = 1; i < FLMEM_CHAIN_ARGS; i++)
		if (r->regs[i] != flmem_call_argument(call, i, scratch->data, scratch->area))
			return false;
	return r->sp == scratch->address + FLMEM_AARCH64_FRAME_STEP * (index + 1) &&
	       r->regs[LINK_POINTER] == gadgets->restorer;
}

/* The kernel ignores writes to this register at system call stops: it must be right already. */
void flmem_aarch64_ask(const struct flmem_thread_state *own, const struct flmem_scratch *scratch,
		       const struct flmem_gadgets *gadgets, int signal,
		       struct user_regs_struct *ret_regs)
{
	const uint64_t arguments[] = {(uint64_t)signal, 0, scratch->data, KERNEL_SIGSET_BYTES};

	*ret_regs = own->regs;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(arguments); i++)
		ret_regs->regs[i] = arguments[i];
	ret_regs->regs[8] = SYS_rt_sigaction;
	ret_regs->regs[LINK_POINTER] = gadgets->restorer;
	ret_regs->pc = gadgets->syscall;
	ret_regs->sp = own_frame(scratch);
	ret_regs->pstate = state_of_calls(own);
}

int flmem_arch_restore(pid_t tid, const struct flmem_thread_state *state)
{
	uint64_t mask = state->signal_mask;
	int rc = write_regset(tid, NT_PRFPREG, state->xstate, state->xstate_length);

	if (rc)
		return rc;
	if (ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask) < 0)
		return -errno;
	return write_regset(tid, NT_PRSTATUS, &state->regs, sizeof(state->regs));
}

uint64_t flmem_arch_sp(const struct flmem_thread_state *state)
{
	return state->regs.sp;
}

uint64_t flmem_arch_pc(const struct flmem_thread_state *state)
{
	return state->regs.pc;
}

uint64_t flmem_arch_link(const struct flmem_thread_state *state)
{
	return flmem_arch_plain_address(state->regs.regs[LINK_POINTER]);
}

/* Program addresses are below this, unless the program asks for others; signatures are above. */
uint64_t flmem_arch_plain_address(uint64_t word)
{
	return word & (ADDRESSES_END - 1);
}

/*
 * In glibc and musl the thread pointer is the end of the control block, whose address
 * pthread_create() returns. No other thread's block can be this close: its stack lies between them.
 */
bool flmem_arch_is_thread(uint64_t pointer, uint64_t pthread)
{
	return pointer > pthread && pointer - pthread <= CONTROL_BLOCK_MAX;
}

uint64_t flmem_arch_thread_pointer(const struct flmem_thread_state *state)
{
	return state->thread_pointer;
}

/*
 * The thread pointer leads to the address of the vector of thread-local blocks, whose own first
 * word is not defined (System V ABI for thread-local storage, variant I): a weaker proof than on
 * x86-64.
 */
bool flmem_arch_has_thread_block(const struct flmem_process *process,
				 const struct flmem_thread_state *state)
{
	uint64_t vector, generation;

	return state->thread_pointer &&
	       flmem_process_read_memory(process, state->thread_pointer, &vector, 8) == 0 &&
	       vector % 8 == 0 && flmem_process_read_memory(process, vector, &generation, 8) == 0;
}

/* Handlers return through their link register. */
const bool flmem_arch_frame_has_restorer = false;

/* Identifies a frame by its record of vector registers, which is always the first. */
bool flmem_arch_is_signal_frame(const uint64_t *words, size_t count, uint64_t *ret_mask)
{
	struct flmem_aarch64_frame frame;

	if (count < sizeof(frame) / sizeof(*words))
		return false;
	if (words[offsetof(struct flmem_aarch64_frame, flags) / 8] ||
	    words[offsetof(struct flmem_aarch64_frame, link) / 8])
		return false;
	memcpy(&frame, words, sizeof(frame));
	if (frame.vectors.magic != FLMEM_AARCH64_FPSIMD_MAGIC ||
	    frame.vectors.size != sizeof(frame.vectors) || !frame.sp || !frame.pc ||
	    frame.pstate & STATE_MODE)
		return false;
	*ret_mask = frame.mask;
	return true;
}

#else
typedef int flmem_arch_aarch64_unused;
#endif
