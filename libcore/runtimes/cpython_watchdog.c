/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_watchdog.h"

#include <signal.h>

#include "base/clock.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/checks/call_sites.h"
#include "remote/checks/thread_stack.h"

/*
 * Distance above its stack pointer in which the control block of a thread with a state is searched
 * for.
 */
#define OWN_STACK UINT64_C(65536)

#define BIT_OF(signal) (UINT64_C(1) << ((signal)-1))
/* Signals that nothing blocks, and those that glibc and musl keep to themselves. */
#define NEVER_BLOCKED (BIT_OF(SIGKILL) | BIT_OF(SIGSTOP) | BIT_OF(32) | BIT_OF(33) | BIT_OF(34))

/*
 * Number of reads and the pause between them: a thread that prints soon returns to its wait; other
 * threads that block all signals may compute for long.
 */
#define READS_MAX 10
#define PAUSE_US  1000U

struct frame_search {
	const struct flmem_process *process;
	const struct flmem_module *module;
};

static bool is_python_frame(void *context, uint64_t word, uint64_t depth)
{
	const struct frame_search *search = context;
	const uint64_t address = flmem_arch_plain_address(word);
	uint64_t target;

	(void)depth;
	return address > search->module->start && address < search->module->end &&
	       flmem_call_before(search->process, address, &target) != FLMEM_CALL_NONE;
}

static bool has_state(const struct flmem_cpython_state *state, uint64_t sp)
{
	for (size_t i = 0; i < state->thread_count; i++)
		if (state->threads[i].pointer - sp < OWN_STACK)
			return true;
	return false;
}

static bool blocks_all_signals(const struct flmem_process *process, pid_t tid)
{
	struct flmem_status status;
	int rc = flmem_status_read_thread(process, tid, &status);

	if (rc)
		return !flmem_task_has_ended(rc);
	return (flmem_u64_or(status.sig_blocked, UINT64_MAX) | NEVER_BLOCKED) == UINT64_MAX;
}

static int read_silent_wait(const struct flmem_process *process, pid_t tid,
			    struct flmem_task_wait *wait)
{
	int rc = flmem_task_read_wait(process, tid, wait);

	for (int i = 1; !rc && i < READS_MAX; i++) {
		flmem_clock_sleep_us(PAUSE_US);
		rc = flmem_task_read_wait(process, tid, wait);
	}
	return rc;
}

/*
 * True for the thread of the watchdog: it blocks all signals, and runs no Python code but has its
 * start routine in the interpreter's file.
 */
static bool is_watchdog(const struct flmem_process *process, const struct flmem_cpython *python,
			const struct flmem_cpython_state *state, pid_t tid)
{
	struct frame_search search = {.process = process, .module = python->module};
	struct flmem_task_wait wait;
	int rc;

	if (tid == process->pid || !blocks_all_signals(process, tid))
		return false;
	rc = read_silent_wait(process, tid, &wait);
	if (rc <= 0)
		return rc < 0 && !flmem_task_has_ended(rc);
	return !has_state(state, wait.sp) && !flmem_task_is_kernels(process, tid) &&
	       flmem_stack_has_word(process, wait.sp, UINT64_MAX, is_python_frame, &search);
}

int flmem_cpython_watchdog_check(const struct flmem_view *view, const struct flmem_cpython *python,
				 const struct flmem_cpython_state *state, struct flmem_error *err)
{
	const struct flmem_process *process = view->process;
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	int rc = flmem_tasks_read(process, &tasks);

	if (flmem_task_has_ended(rc))
		return 0; /* the next step reports that */
	if (rc)
		return flmem_process_error(process, rc, "list the threads", err);
	for (size_t i = 0; i < tasks.count; i++)
		if (is_watchdog(process, python, state, tasks.ids[i]))
			return flmem_error_set(
				err, FLMEM_EUNSAFE, 0,
				"thread %d of process %d waits to print the stacks of all threads "
				"(faulthandler.dump_traceback_later()), which may crash the "
				"program when a thread for the code begins or ends just then",
				(int)tasks.ids[i], (int)process->pid);
	return 0;
}
