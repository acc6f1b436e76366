/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_call.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/limits/group_room.h"
#include "proc/limits/headroom.h"
#include "proc/process.h"
#include "proc/task.h"
#include "remote/checks/preflight.h"
#include "runtimes/cpython_entry_points.h"
#include "runtimes/cpython_watchdog.h"

/*
 * Time for which the lock is watched, and time after which an unanswered request for it means C
 * code.
 */
#define WATCH_US      40000U
#define UNANSWERED_US 20000U
#define SAMPLE_US     1000U
#define BACKOFF_US    20000U

const char *flmem_cpython_entry_name(enum flmem_cpython_entry entry)
{
	static const char *const names[] = {
#define DOOR_NAME(name, text) text,
		FLMEM_CPYTHON_ENTRIES(DOOR_NAME)
#undef DOOR_NAME
	};

	return names[entry];
}

void flmem_cpython_result_clear(struct flmem_cpython_result *result)
{
	flmem_cpython_answer_clear(&result->answer);
}

static int find_usable_interpreter(struct flmem_cpython_session *session, struct flmem_error *err)
{
	const struct flmem_cpython *python = &session->python;
	int pid = (int)session->view->process->pid;

	if (!flmem_cpython_find(session->view, &session->python))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "process %d has no CPython",
				       pid);
	if (!flmem_cpython_runs_code((unsigned)python->major, (unsigned)python->minor))
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"process %d runs Python %s; flmem runs code in Python 3.8 to 3.15", pid,
			python->version[0] ? python->version : "of an unknown version");
	return flmem_cpython_locate(session->view, python, &session->place, err);
}

static int refuse_ending(const struct flmem_cpython_session *session, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0, "the Python in process %d is finalising",
			       (int)session->view->process->pid);
}

static bool is_thread_blocked(const struct flmem_cpython_session *session, pid_t tid)
{
	struct flmem_task_wait wait;

	return tid && flmem_task_read_wait(session->view->process, tid, &wait) == 1;
}

/* Results of watching the lock so far. */
struct gil_watch {
	struct flmem_cpython_gil first;
	uint64_t wanted_since_us; /* time of the current request for the lock; 0: none */
	bool always_blocked;	  /* the holder of the lock was never seen running */
};

/*
 * True if the holder released the lock on request, which it does between two instructions of Python
 * code.
 */
static bool was_released(const struct flmem_cpython_session *session, struct gil_watch *watch,
			 pid_t holder, uint64_t now_us)
{
	struct flmem_cpython_gil gil;

	if (flmem_cpython_gil_read(session->view, &session->place, session->state.main_interpreter,
				   &gil, NULL) ||
	    !gil.locked || gil.holder != watch->first.holder ||
	    gil.switches != watch->first.switches)
		return true;
	watch->always_blocked = watch->always_blocked && is_thread_blocked(session, holder);
	if (!gil.wanted)
		watch->wanted_since_us = 0;
	else if (!watch->wanted_since_us)
		watch->wanted_since_us = now_us;
	return false;
}

/*
 * Returns false when a thread holds the lock inside C code: it is blocked while holding it, or
 * ignores the requests of others. A thread that computes in Python without requests from others is
 * accepted.
 */
static bool is_lock_usable(const struct flmem_cpython_session *session, pid_t *ret_holder)
{
	struct gil_watch watch = {.first = session->state.gil, .always_blocked = true};
	const struct flmem_cpython_thread *holder =
		flmem_cpython_state_find(&session->state, watch.first.holder);
	uint64_t start = flmem_clock_us(), now = start;

	*ret_holder = holder ? holder->tid : 0;
	if (!watch.first.locked)
		return true;
	while (now - start < WATCH_US) {
		if (was_released(session, &watch, *ret_holder, now))
			return true;
		flmem_clock_sleep_us(SAMPLE_US);
		now = flmem_clock_us();
	}
	return !watch.always_blocked &&
	       !(watch.wanted_since_us && now - watch.wanted_since_us > UNANSWERED_US);
}

static int refuse_lock(const struct flmem_cpython_session *session, pid_t holder,
		       struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "thread %d of process %d holds the interpreter's lock inside C "
			       "code; try again or give a longer --timeout",
			       (int)holder, (int)session->view->process->pid);
}

/*
 * Chooses the entry point. Starting a thread from a blocked one costs the program nothing, so that
 * is tried first. The interpreter's debugger interface runs code on the main thread, where an
 * exception of a signal handler may be lost, so it is the last, and only where flmem cannot start a
 * thread.
 */
static int choose_entry(struct flmem_cpython_session *session, struct flmem_error *err)
{
	int rc = flmem_cpython_entry_new_thread(session, err);

	if (rc == FLMEM_EUNSAFE && session->cannot_start && !session->call->function.address &&
	    flmem_cpython_has_debugger_entry(session))
		return flmem_cpython_entry_debugger(session, err);
	return rc == FLMEM_EUNSAFE ? flmem_cpython_entry_computing(session, err) : rc;
}

/*
 * Checks the room in the control group, unless a function is called: its callers have checked that
 * themselves.
 */
static int check_memory_room(const struct flmem_cpython_session *session, struct flmem_error *err)
{
	const struct flmem_process *process = session->view->process;
	int rc = flmem_headroom_check_thread(process, FLMEM_CPYTHON_HEADROOM, err);

	return rc || session->call->function.address
		       ? rc
		       : flmem_group_room_check(process, FLMEM_CPYTHON_HEADROOM, "Python code",
						"trim without it first", err);
}

/* Reads the interpreter once and uses the entry point that fits; FLMEM_EUNSAFE may be temporary. */
static int try_entry(struct flmem_cpython_session *session, struct flmem_error *err)
{
	pid_t holder;
	int rc;

	flmem_cpython_state_clear(&session->state);
	/* A stopped process may have stopped with the lock held: name the cause. */
	rc = flmem_preflight_now(session->view->process, err);
	if (!rc)
		rc = flmem_cpython_state_read(session->view, &session->place, &session->state, err);
	if (rc)
		return rc;
	if (session->state.finalizing)
		return refuse_ending(session, err);
	rc = check_memory_room(session, err);
	if (!rc && !session->call->function.address) /* functions run without a thread state */
		rc = flmem_cpython_watchdog_check(session->view, &session->python, &session->state,
						  err);
	if (rc)
		return rc;
	if (!is_lock_usable(session, &holder))
		return refuse_lock(session, holder, err);
	return choose_entry(session, err);
}

static int try_until_timeout(struct flmem_cpython_session *session, struct flmem_error *err)
{
	uint64_t start = flmem_clock_us();

	for (;;) {
		int rc = try_entry(session, err);
		uint64_t spent = flmem_clock_us() - start;

		/* Never run the code twice once it was injected. */
		if (rc != FLMEM_EUNSAFE || session->state.finalizing ||
		    spent + BACKOFF_US > session->call->timeout_us)
			return rc;
		flmem_clock_sleep_us(BACKOFF_US);
	}
}

int flmem_cpython_code_check(const struct flmem_cpython_code *code, struct flmem_error *err)
{
	if (code->length <= FLMEM_CPYTHON_CODE_MAX)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is larger than %u KiB: put it into a module and import that",
			       code->name, FLMEM_CPYTHON_CODE_MAX / 1024U);
}

int flmem_cpython_call(const struct flmem_view *view, const struct flmem_cpython_call *call,
		       struct flmem_cpython_result *ret_result, struct flmem_error *err)
{
	struct flmem_cpython_session session = {.view = view, .call = call, .result = ret_result};
	int rc = flmem_cpython_code_check(&call->code, err);

	*ret_result = (struct flmem_cpython_result){0};
	if (!rc)
		rc = find_usable_interpreter(&session, err);
	if (!rc)
		rc = try_until_timeout(&session, err);
	flmem_cpython_state_clear(&session.state);
	return rc;
}
