/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/stopped_thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "remote/checks/libc_stack.h"
#include "remote/checks/rseq.h"
#include "remote/checks/thread_stack.h"

#define SEARCH_US_MIN 500000U

/*
 * Returns why the stack is refused, or NULL. C libraries put the control block of a thread that
 * they start at the upper end of its stack. A stack without one was made by the program, and its
 * end is unknown. One that was made below the stack of a thread may be in the same mapping, after
 * the guard page of that stack, or without one between them.
 */
static const char *refuse_stack(const struct flmem_borrow_state *borrow,
				const struct flmem_candidate *candidate)
{
	static const char foreign[] = "runs on a stack that the program allocated itself";
	const struct flmem_candidate_needs needs = flmem_stopped_thread_needs(
		borrow->options, &borrow->gadgets, borrow->chain.area.length);
	const struct flmem_map *stack = flmem_maps_find(borrow->view->maps, candidate->at.sp);
	uint64_t block = flmem_arch_thread_pointer(&borrow->state), start;

	if (candidate->leader)
		return NULL;
	if (!stack || block <= candidate->at.sp || block >= stack->end ||
	    !flmem_stack_is_whole(borrow->view->process, candidate->at.sp, block))
		return foreign;
	start = flmem_libc_stack_start(borrow->view->process, stack, block);
	if (start > candidate->at.sp)
		return foreign;
	return start && candidate->at.sp - start < flmem_stack_bytes_needed(&needs, false)
		       ? "has too little space left on its stack"
		       : NULL;
}

static bool may_have_timeout(const struct flmem_candidate *candidate)
{
	return candidate->wait.stop_restarts || candidate->wait.eintr_means_timeout;
}

void flmem_stopped_thread_spare(struct flmem_borrow_state *borrow,
				const struct flmem_candidate *candidate, const char *why)
{
	struct flmem_spared_threads *spared = borrow->spared;

	if (!may_have_timeout(candidate) || spared->count == FLMEM_SPARED_MAX ||
	    flmem_borrow_may_fetch(borrow))
		return;
	spared->rows[spared->count].tid = candidate->tid;
	spared->rows[spared->count++].why = why;
}

/*
 * If the list is full, it does not show which others were stopped, so every thread that may have a
 * timeout counts as spared.
 */
bool flmem_stopped_thread_is_spared(struct flmem_borrow_state *borrow,
				    const struct flmem_candidate *candidate)
{
	const struct flmem_spared_threads *spared = borrow->spared;
	const char *why = NULL;

	for (size_t i = 0; i < spared->count && !why; i++)
		if (spared->rows[i].tid == candidate->tid)
			why = spared->rows[i].why;
	if (!why && spared->count == FLMEM_SPARED_MAX && may_have_timeout(candidate))
		why = "may have a timeout that would restart, as others have";
	if (!why)
		return false;
	borrow->refused = why;
	borrow->refused_tid = candidate->tid;
	return true;
}

/* Makes the checks that require a stopped thread. */
static bool is_accepted(struct flmem_borrow_state *borrow, const struct flmem_candidate *candidate)
{
	const struct flmem_candidate_filter *filter = borrow->options->filter;
	uint64_t pointer = flmem_arch_thread_pointer(&borrow->state);
	const char *reason = flmem_arch_refuses(candidate->tid);

	if (!reason) /* NULL: the processor state is accepted */
		reason = refuse_stack(borrow, candidate);
	if (reason)
		;
	else if (!flmem_arch_has_thread_block(borrow->view->process, &borrow->state))
		reason = "runs with thread-local data that is not the C library's";
	else if (!filter || filter->accepts(filter->context, candidate, pointer, &reason))
		return true;
	borrow->refused = reason;
	borrow->refused_tid = candidate->tid;
	flmem_stopped_thread_spare(borrow, candidate, reason);
	return false;
}

struct flmem_candidate_needs flmem_stopped_thread_needs(const struct flmem_borrow_options *options,
							const struct flmem_gadgets *gadgets,
							size_t area_bytes)
{
	const uint64_t now = flmem_clock_us();
	uint64_t search_us =
		options->timeout_us > SEARCH_US_MIN ? options->timeout_us : SEARCH_US_MIN;

	return (struct flmem_candidate_needs){
		.guard = flmem_borrow_guard(options),
		.gadgets = gadgets,
		.filter = options->filter,
		.area_bytes = area_bytes,
		.stack_bytes = options->stack_bytes,
		.only = options->only,
		.deadline_us = search_us < UINT64_MAX - now ? now + search_us : UINT64_MAX,
	};
}

static bool refuse_timed(struct flmem_borrow_state *borrow, const struct flmem_candidate *candidate)
{
	borrow->refused = "is in a wait with a timeout of unknown length, which would restart";
	borrow->refused_tid = candidate->tid;
	flmem_stopped_thread_spare(borrow, candidate, borrow->refused);
	return false;
}

/*
 * True if the thread's own call is at the address of the chain's calls: where the kernel decides
 * before the stop, such a thread would be mistaken for one that is still in the last of them.
 */
static bool is_at_gadget(struct flmem_borrow_state *borrow, const struct flmem_candidate *candidate)
{
	const uint64_t place = borrow->gadgets.syscall;

	if (!flmem_arch_forgets_wait || candidate->at.pc < place ||
	    candidate->at.pc >= place + flmem_arch_syscall.length)
		return false;
	borrow->refused = "made its system call at the place that flmem uses for its own";
	borrow->refused_tid = candidate->tid;
	return true;
}

/* Makes what is read of the stack in the hold resident; an error shows there. */
static void fetch_stack(const struct flmem_borrow_state *borrow,
			const struct flmem_candidate *candidate)
{
	const struct flmem_maps *maps = borrow->view->maps;
	const struct flmem_process *process = borrow->view->process;

	for (size_t i = 0; candidate->computes && i < maps->count; i++)
		if (strcmp(maps->rows[i].name, FLMEM_MAP_MAIN_STACK) == 0)
			(void)flmem_stack_is_whole(process, maps->rows[i].start, maps->rows[i].end);
	for (size_t i = 0; !candidate->computes && !candidate->leader && i < maps->count; i++)
		if (maps->rows[i].start <= candidate->at.sp && candidate->at.sp < maps->rows[i].end)
			(void)flmem_stack_is_whole(process, candidate->at.sp, maps->rows[i].end);
}

bool flmem_stopped_thread_prepare(struct flmem_borrow_state *borrow,
				  const struct flmem_candidate *candidate)
{
	const struct flmem_candidate_needs needs = flmem_stopped_thread_needs(
		borrow->options, &borrow->gadgets, borrow->chain.area.length);

	borrow->refused = candidate->computes
				  ? NULL
				  : flmem_stack_check_room(borrow->view, &needs, candidate);
	borrow->refused_tid = candidate->tid;
	if (!borrow->refused)
		fetch_stack(borrow, candidate);
	return !borrow->refused;
}

/*
 * True if the thread may be borrowed where it is. The position of a computing thread is known only
 * when it is stopped; a blocked one must still be where it was found. Its stack is checked again:
 * it may have returned to the same call from another caller.
 */
static bool is_in_place(struct flmem_borrow_state *borrow, struct flmem_candidate *candidate)
{
	const struct flmem_candidate_needs needs = flmem_stopped_thread_needs(
		borrow->options, &borrow->gadgets, borrow->chain.area.length);

	if (!candidate->computes && !flmem_arch_interrupted_in(&borrow->state, &candidate->at))
		return false;
	if (!candidate->computes && candidate->wait.eintr_means_timeout &&
	    flmem_arch_gave_eintr(&borrow->state))
		return refuse_timed(borrow, candidate);
	if (!candidate->computes && is_at_gadget(borrow, candidate))
		return false;
	candidate->at.sp = flmem_arch_sp(&borrow->state);
	candidate->at.pc = flmem_arch_pc(&borrow->state);
	candidate->link = flmem_arch_link(&borrow->state);
	borrow->refused_tid = candidate->tid;
	if (candidate->computes &&
	    (!flmem_arch_in_program(&borrow->state) ||
	     flmem_rseq_is_inside(borrow->view->process, candidate->tid, candidate->at.pc)))
		borrow->refused = "is in a system call or a restartable sequence";
	else if (candidate->computes)
		borrow->refused = flmem_stack_check(borrow->view, &needs, candidate);
	else /* the area below its stack pointer was checked just before */
		borrow->refused = flmem_stack_check_frames(borrow->view, &needs, candidate);
	return !borrow->refused;
}

/* True if the thread with this id is one of the process; a seized thread keeps its id. */
static bool is_of_process(const struct flmem_borrow_state *borrow, pid_t tid)
{
	char name[32];

	snprintf(name, sizeof(name), "task/%d", (int)tid);
	return faccessat(borrow->view->process->dirfd, name, F_OK, 0) == 0;
}

bool flmem_stopped_thread_has_slept(const struct flmem_candidate *candidate,
				    const struct flmem_status *status)
{
	return !candidate->computes &&
	       flmem_u64_or(status->voluntary_switches, candidate->sleeps) == candidate->sleeps + 1;
}

/*
 * True if the thread computes, or has not run since it was found: one that was awake may have sent
 * a signal whose handler blocks another thread inside the allocator until this one resumes it.
 */
static bool was_quiet(struct flmem_borrow_state *borrow, const struct flmem_candidate *candidate,
		      const struct flmem_status *status)
{
	if (candidate->computes || flmem_stopped_thread_has_slept(candidate, status))
		return true;
	borrow->refused = "ran for a moment while flmem read the other threads";
	borrow->refused_tid = candidate->tid;
	return false;
}

/*
 * Returns the signals of faults, whose handlers read the registers of the instruction that failed.
 */
static uint64_t list_faults(void)
{
	static const int faults[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
	uint64_t bits = 0;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(faults); i++)
		bits |= UINT64_C(1) << (faults[i] - 1);
	return bits;
}

/*
 * True if a signal came just before the stop. The calls would block it until they end. A signal for
 * the process could be handled by another thread, but the kernel gives it to no other when a tracer
 * blocks it (ptrace_request() in kernel/ptrace.c); one that comes later goes to another thread. A
 * thread that computes while a timer sends it signals may have one at each stop: a signal that no
 * other thread could handle then waits, like those that come during the calls. A fault in the calls
 * must not wait: its handler would run in the calls, with their registers.
 */
static bool has_signal(struct flmem_borrow_state *borrow, const struct flmem_candidate *candidate,
		       const struct flmem_status *status)
{
	const bool computes = borrow->options->computing == candidate->tid;
	uint64_t pending = flmem_u64_or(status->sig_pending, 0);

	if (computes)
		pending &= list_faults();
	if (!computes || flmem_u64_or(status->threads, 2) > 1)
		pending |= flmem_u64_or(status->shared_pending, 0);
	if (!(pending & ~flmem_u64_or(status->sig_blocked, 0)))
		return false;
	borrow->refused = "has a signal to handle";
	borrow->refused_tid = candidate->tid;
	return true;
}

bool flmem_stopped_thread_check(struct flmem_borrow_state *borrow,
				struct flmem_candidate *candidate, int status_fd,
				struct flmem_status *ret_status)
{
	*ret_status = (struct flmem_status){.voluntary_switches = FLMEM_UNKNOWN("not read")};
	/* The kernel answers the first request only when the thread has left its processor. */
	return is_of_process(borrow, candidate->tid) &&
	       flmem_arch_read_registers(candidate->tid, &borrow->state) == 0 &&
	       flmem_status_read_open(status_fd, ret_status) == 0 &&
	       is_in_place(borrow, candidate) && was_quiet(borrow, candidate, ret_status) &&
	       !has_signal(borrow, candidate, ret_status) && is_accepted(borrow, candidate);
}
