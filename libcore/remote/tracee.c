/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/tracee.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "proc/task.h"
#include "remote/waits.h"

/* A blocked thread stops within microseconds; one that does not is not worth the wait. */
#define SPIN_US	 2000U
#define SLEEP_US 100U

/* One that is not let go stands still as soon as it runs again, until flmem ends. */
#define RELEASE_WAIT_US 30000000U

static long request(enum __ptrace_request what, pid_t tid, long data)
{
	return ptrace(what, tid, NULL, (void *)data);
}

int flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid)
{
	if (request(PTRACE_SEIZE, tid, 0) < 0)
		return -errno;
	*tracee = (struct flmem_tracee){.tid = tid};
	return 0;
}

static bool is_job_control(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/*
 * With PTRACE_SEIZE an event stop with SIGTRAP is our interrupt, one with a stopping signal is a
 * group stop (ptrace(2)); everything else is a signal on its way to the program, passed on here.
 */
static enum flmem_tracee_event sort_out(struct flmem_tracee *tracee, int status)
{
	int signal = WSTOPSIG(status);

	if (!WIFSTOPPED(status)) {
		*tracee = (struct flmem_tracee){0};
		return FLMEM_TRACEE_GONE;
	}
	if (status >> 16 == PTRACE_EVENT_STOP) {
		tracee->stopped = true;
		return is_job_control(signal) ? FLMEM_TRACEE_GROUP : FLMEM_TRACEE_STOPPED;
	}
	request(PTRACE_CONT, tracee->tid, signal);
	return FLMEM_TRACEE_OTHER;
}

enum flmem_tracee_event flmem_tracee_poll(struct flmem_tracee *tracee)
{
	int status;
	pid_t got = waitpid(tracee->tid, &status, __WALL | WNOHANG);

	if (got == tracee->tid)
		return sort_out(tracee, status);
	if (got == 0 || errno == EINTR)
		return FLMEM_TRACEE_NOTHING;
	*tracee = (struct flmem_tracee){0};
	return FLMEM_TRACEE_GONE;
}

static enum flmem_tracee_event wait_stop(struct flmem_tracee *tracee, uint64_t timeout_us)
{
	uint64_t start = flmem_clock_us(), spent;
	enum flmem_tracee_event event;

	/* The last look comes after the time is up: we may have had no processor ourselves. */
	do {
		spent = flmem_clock_us() - start;
		event = flmem_tracee_poll(tracee);
		if (event != FLMEM_TRACEE_NOTHING && event != FLMEM_TRACEE_OTHER)
			return event;
		if (spent < SPIN_US)
			sched_yield();
		else
			flmem_clock_sleep_us(SLEEP_US);
	} while (spent < timeout_us);
	return event;
}

enum flmem_tracee_event flmem_tracee_stop(struct flmem_tracee *tracee, uint64_t timeout_us)
{
	if (request(PTRACE_INTERRUPT, tracee->tid, 0) < 0) {
		*tracee = (struct flmem_tracee){0};
		return FLMEM_TRACEE_GONE;
	}
	return wait_stop(tracee, timeout_us);
}

int flmem_tracee_continue(struct flmem_tracee *tracee)
{
	if (request(PTRACE_CONT, tracee->tid, 0) < 0)
		return -errno;
	tracee->stopped = false;
	tracee->resumable = false;
	return 0;
}

void flmem_tracee_listen(struct flmem_tracee *tracee)
{
	request(PTRACE_LISTEN, tracee->tid, 0);
	tracee->stopped = false;
}

/* A call that our interrupt ended with EINTR must not end for the program. */
static void make_resumable(pid_t tid)
{
	struct flmem_thread_state state;
	struct flmem_task_wait at;

	if (flmem_arch_read_registers(tid, &state))
		return;
	flmem_arch_read_call(&state, &at);
	if (flmem_wait_is_repeatable(&at))
		flmem_arch_make_resumable(tid, &state);
}

void flmem_tracee_release(struct flmem_tracee *tracee)
{
	if (!tracee->tid)
		return;
	/* Only a stopped thread can be detached. */
	if (!tracee->stopped && flmem_tracee_stop(tracee, RELEASE_WAIT_US) == FLMEM_TRACEE_GONE)
		return;
	if (tracee->stopped && !tracee->resumable)
		make_resumable(tracee->tid);
	request(PTRACE_DETACH, tracee->tid, 0);
	*tracee = (struct flmem_tracee){0};
}
