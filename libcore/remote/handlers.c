/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/handlers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"

/* How much of a stack is searched for signal frames. */
#define SCAN_LIMIT ((uint64_t)1 << 20)
#define SCAN_STEP  65536U
/* A frame may lie across two steps. */
#define SCAN_OVERLAP 512U
#define PAGE	     4096U /* the smallest there is */
#define RESTORER_MAX 16U
/* How often, and after how long, a computing thread is read again. */
#define LOOKS	4U
#define LOOK_US 500U

/* The C library's own; older ones, and some runtimes, have more than one copy of it. */
static bool is_restorer(const struct flmem_process *process, uint64_t address, uint64_t known)
{
	unsigned char code[RESTORER_MAX];
	size_t length = flmem_arch_restorer.length;

	return address == known ||
	       (length <= sizeof(code) &&
		flmem_process_read_memory(process, address, code, length) == 0 &&
		memcmp(code, flmem_arch_restorer.bytes, length) == 0);
}

static bool has_frame(const struct flmem_handler_search *search, const uint64_t *words,
		      size_t count, uint64_t address)
{
	uint64_t mask;

	for (size_t i = 0; i < count; i++)
		if (flmem_arch_is_signal_frame(words + i, count - i, address + i * sizeof(*words),
					       &mask) &&
		    search->blocked & ~mask &&
		    is_restorer(search->process, words[i], search->restorer))
			return true;
	return false;
}

/*
 * Returns the number of bytes before the first unreadable page. Guard pages that the mappings do
 * not show (MADV_GUARD_INSTALL, glibc 2.42 and later) may follow a stack; no frame crosses them.
 */
static size_t read_stack(const struct flmem_process *process, uint64_t at, void *out, size_t length)
{
	size_t done = 0;

	if (flmem_process_read_memory(process, at, out, length) == 0)
		return length;
	while (done < length) {
		size_t step = PAGE - (at + done) % PAGE;

		if (step > length - done)
			step = length - done;
		if (flmem_process_read_memory(process, at + done, (char *)out + done, step))
			break;
		done += step;
	}
	return done;
}

bool flmem_handlers_on_stack(const struct flmem_handler_search *search, uint64_t sp, uint64_t end)
{
	FLMEM_AUTO_FREE uint64_t *words = malloc(SCAN_STEP);
	uint64_t first = sp & ~UINT64_C(7), at = first;

	if (!words)
		return true;
	if (end - at > SCAN_LIMIT)
		end = at + SCAN_LIMIT;
	while (at < end) {
		size_t length = end - at < SCAN_STEP ? (size_t)(end - at) : SCAN_STEP;
		size_t got = read_stack(search->process, at, words, length);

		if (!got && at == first)
			return true;
		if (has_frame(search, words, got / sizeof(*words), at))
			return true;
		if (got < length || at + length >= end)
			break;
		at += length - SCAN_OVERLAP;
	}
	return false;
}

struct search {
	const struct flmem_view *view;
	uint64_t restorer;
	struct flmem_maps now; /* read when a thread is met that is newer than the view */
};

static const struct flmem_map *find_stack(struct search *search, uint64_t sp)
{
	const struct flmem_map *stack = flmem_maps_find(search->view->maps, sp);

	if (!stack && !search->now.count)
		(void)flmem_maps_read(search->view->process, &search->now, NULL);
	return stack ? stack : flmem_maps_find(&search->now, sp);
}

/*
 * What lies on its stack may be left over from a handler that has returned. The frame of one that
 * runs will unblock a signal that is blocked now: its own, unless it has chosen otherwise
 * (SA_NODEFER) or waits with another mask.
 */
static bool waits_in_handler(struct search *search, const struct flmem_task_wait *wait,
			     uint64_t blocked)
{
	const struct flmem_map *stack = find_stack(search, wait->sp);
	const struct flmem_handler_search frames = {
		.process = search->view->process,
		.restorer = search->restorer,
		.blocked = wait->number == SYS_rt_sigsuspend ? UINT64_MAX : blocked,
	};

	return stack && frames.blocked && flmem_handlers_on_stack(&frames, wait->sp, stack->end);
}

static uint64_t value_or_none(struct flmem_u64 mask)
{
	return mask.unknown ? 0 : mask.value;
}

enum handling {
	HANDLING_NOTHING,
	HANDLING_PERHAPS, /* it computes, and blocks a signal as a handler does */
	HANDLING_SIGNAL,
};

static enum handling check_thread(struct search *search, pid_t tid)
{
	const struct flmem_process *process = search->view->process;
	struct flmem_task_wait wait;
	struct flmem_status status;
	uint64_t caught, blocked, pending;
	int rc;

	/* The masks first: a signal that is no longer pending already has its handler running. */
	if (flmem_status_read_thread(process, tid, &status))
		return HANDLING_NOTHING; /* it has ended */
	caught = value_or_none(status.sig_caught);
	blocked = value_or_none(status.sig_blocked);
	pending = value_or_none(status.sig_pending) | value_or_none(status.shared_pending);
	if (pending & caught & ~blocked)
		return HANDLING_SIGNAL;
	/* The frames of a chain have the form of signal frames. */
	if (!caught || flmem_arch_is_chain_mask(blocked))
		return HANDLING_NOTHING;
	rc = flmem_task_read_wait(process, tid, &wait);
	if (rc == 0)
		return caught & blocked ? HANDLING_PERHAPS : HANDLING_NOTHING;
	return rc > 0 && waits_in_handler(search, &wait, caught & blocked) ? HANDLING_SIGNAL
									   : HANDLING_NOTHING;
}

/*
 * A handler that will wait does so within microseconds, unless its thread gets no processor; a
 * thread that blocks a signal for as long as it lives computes on.
 */
static bool is_handling(struct search *search, pid_t tid)
{
	enum handling now = check_thread(search, tid);

	for (size_t i = 0; i < LOOKS && now == HANDLING_PERHAPS; i++) {
		flmem_clock_sleep_us(LOOK_US);
		now = check_thread(search, tid);
	}
	return now == HANDLING_SIGNAL;
}

pid_t flmem_handlers_find(const struct flmem_view *view, const struct flmem_gadgets *gadgets)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct search search = {.view = view, .restorer = gadgets->restorer};
	pid_t found = 0;

	if (flmem_tasks_read(view->process, &tasks))
		return 0; /* it has ended, which the next step reports */
	for (size_t i = 0; i < tasks.count && !found; i++)
		if (is_handling(&search, tasks.ids[i]))
			found = tasks.ids[i];
	flmem_maps_clear(&search.now);
	return found;
}
