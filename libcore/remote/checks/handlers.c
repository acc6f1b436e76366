/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/handlers.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"

/* Length of stack that is searched for signal frames. */
#define SCAN_LIMIT ((uint64_t)1 << 20)
#define SCAN_STEP  65536U
/* A frame may span two reads; those of aarch64 are the longest. */
#define SCAN_OVERLAP 2048U
#define PAGE	     4096U /* the smallest page size */
#define RESTORER_MAX 16U
/* Distance above its stack pointer in which the variables of a thread are searched for. */
#define OWN_STACK_BYTES 65536U
/* Minimum number of reads of a computing thread, and the pause between them. */
#define HANDLER_READS 4U
#define READ_PAUSE_US 500U
/*
 * Processor time within which a handler that waits does so; the kernel may count this time a tick
 * later.
 */
#define COMPUTED_NS 1000000U

static bool reads_as_restorer(const struct flmem_process *process, uint64_t address)
{
	unsigned char code[RESTORER_MAX];
	size_t length = flmem_arch_restorer.length;

	return length <= sizeof(code) &&
	       flmem_process_read_memory(process, address, code, length) == 0 &&
	       memcmp(code, flmem_arch_restorer.bytes, length) == 0;
}

/*
 * True if the address is the restorer of the C library; older ones and some runtimes have more than
 * one copy. A hostile stack may be full of frames: only code is read, each address once, and a
 * limited number of them.
 */
static bool is_restorer(struct flmem_handler_search *search, uint64_t address)
{
	const struct flmem_map *map = flmem_maps_find(search->maps, address);

	if (address == search->restorer)
		return true;
	if (!map || !(map->flags & FLMEM_MAP_EXEC))
		return false;
	for (size_t i = 0; i < search->known_count; i++)
		if (search->known[i].address == address)
			return search->known[i].is_restorer;
	if (search->known_count == FLMEM_RESTORERS_MAX)
		return true;
	search->known[search->known_count++] = (struct flmem_known_code){
		.address = address,
		.is_restorer = reads_as_restorer(search->process, address),
	};
	return search->known[search->known_count - 1].is_restorer;
}

static bool has_signal_frame(struct flmem_handler_search *search, const uint64_t *words,
			     size_t count)
{
	uint64_t mask;

	for (size_t i = 0; i < count; i++)
		if (flmem_arch_is_signal_frame(words + i, count - i, &mask) &&
		    search->blocked & ~mask &&
		    (!flmem_arch_frame_has_restorer || is_restorer(search, words[i])))
			return true;
	return false;
}

/*
 * Returns the number of bytes before the first unreadable page. Guard pages that the mappings do
 * not show (MADV_GUARD_INSTALL, glibc 2.42 and later) may follow a stack; no frame spans them.
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

bool flmem_handlers_on_stack(struct flmem_handler_search *search, uint64_t sp, uint64_t end)
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
		if (has_signal_frame(search, words, got / sizeof(*words)))
			return true;
		if (got < length || at + length >= end)
			break;
		at += length - SCAN_OVERLAP;
	}
	return false;
}

struct handlers_search {
	const struct flmem_view *view;
	struct flmem_maps now; /* mappings that are read if a thread is newer than the view */
	struct flmem_handler_search frames;
	pid_t own; /* thread that the caller has stopped */
};

static const struct flmem_map *find_stack(struct handlers_search *search, uint64_t sp)
{
	const struct flmem_map *stack = flmem_maps_find(search->view->maps, sp);

	if (!stack)
		stack = flmem_maps_find(&search->now, sp);
	if (stack)
		return stack;
	flmem_maps_clear(&search->now);
	(void)flmem_maps_read(search->view->process, &search->now, NULL);
	return flmem_maps_find(&search->now, sp);
}

/*
 * True if the thread waits in a handler. A frame on the stack may be left over from a handler that
 * has returned. The frame of a running handler will unblock a signal that is blocked now: its own,
 * unless it uses SA_NODEFER or waits with another mask. Threads of the kernel have no stack in the
 * process.
 */
static bool waits_in_handler(struct handlers_search *search, pid_t tid,
			     const struct flmem_task_wait *wait, uint64_t blocked)
{
	const struct flmem_map *stack;

	search->frames.blocked = wait->number == SYS_rt_sigsuspend ? UINT64_MAX : blocked;
	if (!search->frames.blocked)
		return false;
	stack = find_stack(search, wait->sp);
	if (!stack)
		return !flmem_task_is_kernels(search->view->process, tid);
	return flmem_handlers_on_stack(&search->frames, wait->sp, stack->end);
}

/*
 * Detects a chain that was left waiting for a lock: whatever holds that lock may block the next
 * thread, too. Waits with a time limit end, such as those for Python's lock; a word on its own
 * stack belongs to a thread that flmem stopped forever (runtimes/cpython_new_thread.c).
 */
static bool waits_in_chain(const struct flmem_process *process, pid_t tid)
{
	struct flmem_task_wait wait;
	unsigned operation;

	if (flmem_task_read_wait(process, tid, &wait) != 1 || wait.number != SYS_futex)
		return false;
	operation = (unsigned)wait.args[1] & (unsigned)FUTEX_CMD_MASK;
	return (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) && !wait.args[3] &&
	       wait.args[0] - wait.sp >= OWN_STACK_BYTES;
}

bool flmem_handlers_is_in_chain(const struct flmem_process *process, pid_t tid)
{
	struct flmem_status status;

	return flmem_status_read_thread(process, tid, &status) == 0 &&
	       flmem_arch_is_chain_mask(flmem_u64_or(status.sig_blocked, 0)) &&
	       waits_in_chain(process, tid);
}

bool flmem_handlers_is_stopped(const struct flmem_process *process, pid_t tid)
{
	struct flmem_status status;

	return flmem_status_read_thread(process, tid, &status) == 0 &&
	       flmem_status_is_stopped(&status);
}

enum signal_handling {
	HANDLING_NOTHING,
	HANDLING_PERHAPS, /* the thread computes, and blocks a signal as a handler does */
	HANDLING_SIGNAL,
};

static enum signal_handling check_thread(struct handlers_search *search, pid_t tid)
{
	const struct flmem_process *process = search->view->process;
	struct flmem_task_wait wait;
	struct flmem_status status;
	uint64_t caught, blocked, pending;
	int rc;

	/* Read the masks first: the handler of a signal that is no longer pending already runs. */
	rc = flmem_status_read_thread(process, tid, &status);
	if (rc) /* a thread that cannot be read may be anywhere */
		return flmem_task_has_ended(rc) ? HANDLING_NOTHING : HANDLING_SIGNAL;
	if (tid != search->own && flmem_status_is_stopped(&status))
		return HANDLING_SIGNAL;
	caught = flmem_u64_or(status.sig_caught, 0);
	blocked = flmem_u64_or(status.sig_blocked, 0);
	pending = flmem_u64_or(status.sig_pending, 0) | flmem_u64_or(status.shared_pending, 0);
	if (pending & caught & ~blocked)
		return HANDLING_SIGNAL;
	/* The frames of a chain have the form of signal frames. */
	if (flmem_arch_is_chain_mask(blocked))
		return waits_in_chain(process, tid) ? HANDLING_SIGNAL : HANDLING_NOTHING;
	if (!caught)
		return HANDLING_NOTHING;
	rc = flmem_task_read_wait(process, tid, &wait);
	if (rc == 0)
		return caught & blocked ? HANDLING_PERHAPS : HANDLING_NOTHING;
	if (rc < 0)
		return flmem_task_has_ended(rc) ? HANDLING_NOTHING : HANDLING_SIGNAL;
	return waits_in_handler(search, tid, &wait, caught & blocked) ? HANDLING_SIGNAL
								      : HANDLING_NOTHING;
}

/* A thread that was computing when it was read, and blocks a signal as a handler does. */
struct suspect_thread {
	pid_t tid;
	uint64_t cpu_ns; /* processor time that it had used; 0 if the kernel does not report it */
};

struct suspect_threads {
	struct suspect_thread *rows;
	size_t count;
};

static void clear_suspects(struct suspect_threads *suspects)
{
	free(suspects->rows);
}

/*
 * True if the thread has used enough processor time: on a busy machine it may have had no
 * processor.
 */
static bool has_computed(const struct handlers_search *search, const struct suspect_thread *suspect)
{
	uint64_t now = flmem_task_cpu_ns(search->view->process, suspect->tid);

	return !suspect->cpu_ns || now >= suspect->cpu_ns + COMPUTED_NS;
}

/*
 * Returns the first thread that now waits in its handler; 0 if there is none. Removes the others.
 */
static pid_t find_handler_again(struct handlers_search *search, struct suspect_threads *suspects,
				bool is_early)
{
	size_t kept = 0;

	for (size_t i = 0; i < suspects->count; i++) {
		const struct suspect_thread *suspect = &suspects->rows[i];
		enum signal_handling now = check_thread(search, suspect->tid);

		if (now == HANDLING_SIGNAL)
			return suspect->tid;
		if (now == HANDLING_PERHAPS && (is_early || !has_computed(search, suspect)))
			suspects->rows[kept++] = *suspect;
	}
	suspects->count = kept;
	return 0;
}

/*
 * Reads the suspects again: a handler that waits does so within microseconds of its own processor
 * time; a thread that blocks a signal permanently keeps computing.
 */
static pid_t watch_suspects(struct handlers_search *search, struct suspect_threads *suspects,
			    uint64_t deadline_us)
{
	pid_t found = 0;

	for (unsigned reads = 1; suspects->count && !found; reads++) {
		if (flmem_clock_us() > deadline_us)
			return FLMEM_HANDLERS_LATE;
		flmem_clock_sleep_us(READ_PAUSE_US);
		found = find_handler_again(search, suspects, reads < HANDLER_READS);
	}
	return found;
}

/* Reads each thread once; those that compute are left to watch_suspects(). */
static pid_t find_handler_once(struct handlers_search *search, const struct flmem_tasks *tasks,
			       struct suspect_threads *suspects, uint64_t deadline_us)
{
	for (size_t i = 0; i < tasks->count; i++) {
		const pid_t tid = tasks->ids[i];
		enum signal_handling now = check_thread(search, tid);

		if (now == HANDLING_SIGNAL)
			return tid;
		if (now == HANDLING_PERHAPS)
			suspects->rows[suspects->count++] = (struct suspect_thread){
				tid, flmem_task_cpu_ns(search->view->process, tid)};
		if (flmem_clock_us() > deadline_us)
			return FLMEM_HANDLERS_LATE;
	}
	return 0;
}

pid_t flmem_handlers_find(const struct flmem_view *view, const struct flmem_gadgets *gadgets,
			  pid_t own, uint64_t deadline_us)
{
	FLMEM_AUTO(clear_suspects) struct suspect_threads suspects = {0};
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct handlers_search search = {
		.view = view,
		.frames = {.process = view->process,
			   .maps = view->maps,
			   .restorer = gadgets->restorer},
		.own = own,
	};
	pid_t found;
	int rc;

	rc = flmem_tasks_read(view->process, &tasks);
	if (flmem_task_has_ended(rc))
		return 0; /* the next step reports that */
	if (rc || tasks.count >= FLMEM_TASKS_MAX)
		return FLMEM_HANDLERS_UNREAD;
	suspects.rows = calloc(tasks.count, sizeof(*suspects.rows));
	if (!suspects.rows && tasks.count)
		return FLMEM_HANDLERS_LATE;
	found = find_handler_once(&search, &tasks, &suspects, deadline_us);
	if (!found)
		found = watch_suspects(&search, &suspects, deadline_us);
	flmem_maps_clear(&search.now);
	return found;
}
