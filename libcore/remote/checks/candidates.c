/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/candidates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task_scheduling.h"
#include "remote/checks/handlers.h"
#include "remote/checks/libc_threads.h"
#include "remote/checks/quiet_stop.h"
#include "remote/checks/thread_stack.h"

#define LATE "could not be examined in time"

/*
 * Adds a range; one that continues the last range is merged with it. Returns false if the table is
 * full.
 */
static bool add_guard_range(struct flmem_range *ranges, size_t *count, uint64_t start, uint64_t end)
{
	if (*count && ranges[*count - 1].end == start && start < end)
		ranges[*count - 1].end = end;
	else if (start < end && *count == FLMEM_GUARD_RANGES)
		return false;
	else if (start < end)
		ranges[(*count)++] = (struct flmem_range){start, end};
	return true;
}

void flmem_guard_add_code(struct flmem_guard *guard, uint64_t start, uint64_t end)
{
	guard->has_more_ranges |= !add_guard_range(guard->code, &guard->code_count, start, end);
}

void flmem_guard_add_locks(struct flmem_guard *guard, uint64_t start, uint64_t end)
{
	guard->has_more_ranges |= !add_guard_range(guard->locks, &guard->lock_count, start, end);
}

void flmem_guard_add_word(struct flmem_guard *guard, uint64_t address)
{
	if (guard->word_count < FLMEM_GUARD_WORDS)
		guard->words[guard->word_count++] = address;
	else
		guard->has_more_words = true;
}

/* State of one search over the threads of a process. */
struct candidate_search {
	const struct flmem_view *view;
	const struct flmem_candidate_needs *needs;
	struct flmem_candidates *found;
	struct flmem_task_groups *groups;
};

/*
 * Makes the cheap checks. Returns NULL and fills *row if the thread may be borrowed, else the
 * reason.
 */
static const char *examine_thread(const struct candidate_search *search, pid_t tid,
				  struct flmem_candidate *row)
{
	const struct flmem_process *process = search->view->process;
	const char *reason = NULL, *ends;
	char name[32];

	row->tid = tid;
	row->leader = tid == process->pid; /* the stack of the first thread is mapped differently */
	if (row->at.number < 0)
		return "is blocked outside a system call";
	if (!flmem_arch_is_call_site(process, row->at.pc))
		return "made its system call by an unusual instruction";
	if (!flmem_wait_classify(process, tid, &row->at, &row->wait, &reason))
		return reason;
	ends = flmem_quiet_stop_refuses(process, search->view->maps, tid, &row->at);
	if (ends)
		return ends;
	if (row->wait.late_us > FLMEM_LATE_US_MAX)
		return "is in a long relative sleep, whose timeout would restart";
	/* jemalloc's own threads count as inside the allocator in every wait. */
	flmem_task_name(process, tid, name, sizeof(name));
	if (flmem_text_starts(name, "jemalloc_bg"))
		return "is a thread of the allocator";
	if (search->needs->filter &&
	    !search->needs->filter->accepts(search->needs->filter->context, row, 0, &reason))
		return reason;
	row->cpu_ns = flmem_task_cpu_ns(process, tid);
	return NULL;
}

static int compare_candidates(const void *left, const void *right)
{
	const struct flmem_candidate *a = left, *b = right;

	if (a->wait.quality != b->wait.quality)
		return a->wait.quality < b->wait.quality ? -1 : 1;
	if (a->leader != b->leader)
		return a->leader ? 1 : -1;
	if (a->wait.late_us != b->wait.late_us)
		return a->wait.late_us < b->wait.late_us ? -1 : 1;
	return a->cpu_ns < b->cpu_ns ? -1 : a->cpu_ns > b->cpu_ns;
}

static bool is_late(const struct candidate_search *search)
{
	return flmem_clock_us() > search->needs->deadline_us;
}

/*
 * Examines a thread, within a time limit: each of thousands of threads may wait for a thousand
 * descriptors.
 */
static const char *examine_in_time(const struct candidate_search *search, pid_t tid,
				   struct flmem_candidate *row)
{
	return is_late(search) ? LATE : examine_thread(search, tid, row);
}

static int add_thread(struct candidate_search *search, pid_t tid)
{
	struct flmem_candidates *found = search->found;
	struct flmem_candidate *row = &found->rows[found->count];
	const char *reason;
	int rc;

	*row = (struct flmem_candidate){0};
	rc = flmem_task_read_wait(search->view->process, tid, &row->at);
	if (flmem_task_has_ended(rc))
		return 0;
	if (rc < 0)
		return rc;
	/* This is a thread of the kernel, such as one of io_uring. */
	if (rc && !row->at.sp && flmem_task_is_kernels(search->view->process, tid))
		return 0;
	found->threads++;
	if (rc == 0) {
		found->running++;
		return 0;
	}
	reason = examine_in_time(search, tid, row);
	if (reason) {
		found->rejected = reason;
		found->rejected_tid = tid;
	} else {
		found->count++;
	}
	return 0;
}

/* Makes the expensive checks, for a thread that has passed the others. */
static const char *examine_further(const struct candidate_search *search,
				   struct flmem_candidate *row)
{
	const char *reason =
		flmem_task_scheduling_refuses(search->view->process, row->tid, search->groups);
	struct flmem_status status;

	if (!reason)
		reason = flmem_stack_check(search->view, search->needs, row);
	if (reason)
		return reason;
	if (flmem_status_read_thread(search->view->process, row->tid, &status) ||
	    status.voluntary_switches.unknown || status.involuntary_switches.unknown)
		return "cannot be read";
	if (flmem_libc_threads_shares_data(search->view->process, row->tid))
		return "shares its thread-local data with a process that it has started";
	if (status.shadow_stack) /* a thread may have a shadow stack that the first thread lacks */
		return "has a shadow stack";
	/*
	 * A tracer stops a thread that its cgroup has frozen nevertheless, and it makes the calls
	 * when it is thawed.
	 */
	if (flmem_task_is_frozen(search->view->process, row->tid))
		return "is frozen by its control group";
	/* An interrupt would restart the request, and the other process would handle it twice. */
	if (flmem_u64_or(status.seccomp_mode, 0) &&
	    flmem_task_is_supervised(search->view->process, row->tid))
		return "has its system call made by another process (seccomp)";
	row->sleeps = status.voluntary_switches.value;
	row->losses = status.involuntary_switches.value;
	return NULL;
}

/*
 * Keeps the best rows, and examines only these further: reading stacks takes time, and few threads
 * are tried.
 */
static void keep_best(struct candidate_search *search)
{
	struct flmem_candidates *found = search->found;
	size_t kept = 0;

	qsort(found->rows, found->count, sizeof(*found->rows), compare_candidates);
	for (size_t i = 0; i < found->count && kept < FLMEM_CANDIDATES_MAX; i++) {
		const char *reason =
			is_late(search) ? LATE : examine_further(search, &found->rows[i]);

		if (reason) {
			found->rejected = reason;
			found->rejected_tid = found->rows[i].tid;
		} else {
			found->rows[kept++] = found->rows[i];
		}
	}
	found->count = kept;
}

int flmem_candidates_find(const struct flmem_view *view, const struct flmem_candidate_needs *needs,
			  struct flmem_candidates *ret_candidates)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	FLMEM_AUTO_TASK_GROUPS struct flmem_task_groups groups = FLMEM_TASK_GROUPS_INIT;
	struct candidate_search search = {view, needs, &found, &groups};
	int rc = flmem_tasks_read(view->process, &tasks);

	if (rc)
		return rc;
	found.rows = calloc(tasks.count + 1, sizeof(*found.rows));
	if (!found.rows)
		return -ENOMEM;
	for (size_t i = 0; i < tasks.count && !rc; i++)
		if (!needs->only || needs->only == tasks.ids[i])
			rc = add_thread(&search, tasks.ids[i]);
	if (rc)
		return rc;
	keep_best(&search);
	/*
	 * Search after the rows were read, to include signals that a thread sent before it last
	 * slept.
	 */
	if (!needs->only && tasks.count > 1 && found.count)
		found.handling = flmem_handlers_find(view, needs->gadgets, 0, needs->deadline_us);
	*ret_candidates = found;
	found = (struct flmem_candidates){0};
	return 0;
}

static int refuse_handling(const struct flmem_process *process, pid_t handling,
			   struct flmem_error *err)
{
	if (handling == FLMEM_HANDLERS_UNREAD)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "not all threads of process %d can be searched for signal "
				       "handlers: it has %u or more, or flmem cannot list them",
				       (int)process->pid, FLMEM_TASKS_MAX);
	if (handling == FLMEM_HANDLERS_LATE)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the threads of process %d could not be searched for "
				       "signal handlers in time; give a longer --timeout",
				       (int)process->pid);
	if (flmem_handlers_is_in_chain(process, handling))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "no thread of process %d can be borrowed now: thread %d "
				       "waits for a lock in calls of flmem, where another one "
				       "could be blocked as well; try again",
				       (int)process->pid, (int)handling);
	if (flmem_handlers_is_stopped(process, handling))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "no thread of process %d can be borrowed now: thread %d is "
				       "stopped, perhaps by a debugger, and may hold a lock of the "
				       "allocator; continue it first",
				       (int)process->pid, (int)handling);
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "no thread of process %d can be borrowed now: thread %d is inside a "
			       "signal handler, and may hold a lock of the allocator while it "
			       "waits for another thread; try again or give a longer --timeout",
			       (int)process->pid, (int)handling);
}

int flmem_candidates_refuse(const struct flmem_process *process,
			    const struct flmem_candidates *found, struct flmem_error *err)
{
	char why[256];

	if (found->handling)
		return refuse_handling(process, found->handling, err);
	if (found->rejected && found->threads > 1)
		snprintf(why, sizeof(why), "%zu of its %zu threads %s running, and thread %d %s",
			 found->running, found->threads, found->running == 1 ? "is" : "are",
			 (int)found->rejected_tid, found->rejected);
	else if (found->rejected)
		snprintf(why, sizeof(why), "its only thread %s", found->rejected);
	else if (found->threads > 1)
		snprintf(why, sizeof(why), "all %zu threads are running", found->threads);
	else
		snprintf(why, sizeof(why), "its only thread is running");
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "no thread of process %d can be borrowed now: %s; try again or give "
			       "a longer --timeout",
			       (int)process->pid, why);
}

void flmem_candidates_clear(struct flmem_candidates *candidates)
{
	free(candidates->rows);
	*candidates = (struct flmem_candidates){0};
}
