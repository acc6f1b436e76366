/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_entry_points.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/checks/locks.h"
#include "remote/checks/userfaults.h"
#include "remote/seccomp/seccomp.h"
#include "runtimes/cpython_injected_script.h"
#include "runtimes/cpython_script.h"
#include "runtimes/cpython_syscalls.h"

#define NONE FLMEM_CPYTHON_NONE

/*
 * The low byte of eval_breaker (Include/internal/pycore_ceval.h). Bit 0 asks the thread to release
 * the lock, and then it waits until another thread has it: set without another thread, it would
 * wait forever. A bit that others set between the read and the write would be lost, so set all bits
 * that are harmless without a request; a thread that wants the lock asks again after the switch
 * interval.
 */
#define BREAK_GIL_DROP 0x01U
#define BREAK_HARMLESS 0x0eU /* signals, pending calls, an asynchronous exception */
#define BREAK_DEBUGGER 0x20U

/*
 * Pause between withdrawing the request and removing the file, which the interpreter may be
 * opening.
 */
#define OPENING_US 50000U

static int write_script(const struct flmem_cpython_session *session,
			const struct flmem_cpython_injected *injected,
			struct flmem_cpython_script *script, struct flmem_error *err)
{
	uint64_t number;

	memcpy(&number, injected->cookie, sizeof(number));
	return flmem_cpython_script_write(session->view->process, number, injected->text.data,
					  script, err);
}

/*
 * Chooses the main thread: another thread may end meanwhile, and the request would be written into
 * freed memory. NULL while it is blocked, since it checks requests only when it continues.
 */
static const struct flmem_cpython_thread *choose_thread(const struct flmem_cpython_session *session)
{
	const struct flmem_cpython_thread *thread = flmem_cpython_state_main(&session->state);
	struct flmem_task_wait wait;

	if (!thread || !thread->main_interpreter || !thread->tid ||
	    (flmem_task_read_wait(session->view->process, thread->tid, &wait) == 1 &&
	     !flmem_cpython_gil_is_waited_for(&session->state.gil, &wait)))
		return NULL;
	return thread;
}

static int report_write_failure(const struct flmem_cpython_session *session,
				struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0, "cannot write to the memory of process %d",
			       (int)session->view->process->pid);
}

static bool is_pending(const struct flmem_cpython_session *session, uint64_t thread_state)
{
	const struct flmem_cpython_layout *layout = &session->place.layout;
	int32_t pending = 1;

	flmem_process_read_memory(session->view->process,
				  thread_state + layout->debugger_support +
					  layout->debugger_pending,
				  &pending, sizeof(pending));
	return pending != 0;
}

#define SCRIPT_PATH_MAX 128

static size_t print_path(const struct flmem_cpython_script *script, char path[SCRIPT_PATH_MAX])
{
	return (size_t)snprintf(path, SCRIPT_PATH_MAX, "%s/%s", script->path, script->name);
}

static int refuse_pending(const struct flmem_cpython_session *session,
			  const struct flmem_cpython_thread *thread, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "a debugger has just requested code in thread %d of process %d",
			       (int)thread->tid, (int)session->view->process->pid);
}

/*
 * True if this request is pending: another debugger may have made one after the interpreter took
 * this one.
 */
static bool is_pending_here(const struct flmem_cpython_session *session, uint64_t thread_state,
			    const struct flmem_cpython_script *script)
{
	const struct flmem_cpython_layout *layout = &session->place.layout;
	char path[SCRIPT_PATH_MAX], now[SCRIPT_PATH_MAX];
	const size_t length = print_path(script, path);

	return is_pending(session, thread_state) &&
	       flmem_process_read_memory(session->view->process,
					 thread_state + layout->debugger_support +
						 layout->debugger_path,
					 now, length + 1) == 0 &&
	       memcmp(now, path, length + 1) == 0;
}

/* Writes the path, then the pending flag, and last the request to check it. */
static int request_script(const struct flmem_cpython_session *session,
			  const struct flmem_cpython_thread *thread,
			  const struct flmem_cpython_script *script, struct flmem_error *err)
{
	const struct flmem_cpython_layout *layout = &session->place.layout;
	const struct flmem_process *process = session->view->process;
	uint64_t support = thread->state + layout->debugger_support;
	uint64_t breaker = thread->state + layout->eval_breaker;
	const int32_t pending = 1;
	char path[SCRIPT_PATH_MAX];
	const size_t length = print_path(script, path);
	uint8_t byte;

	if (is_pending(session, thread->state)) /* since the script was begun */
		return refuse_pending(session, thread, err);
	if (length >= layout->debugger_path_size ||
	    flmem_process_write_memory(process, support + layout->debugger_path, path,
				       length + 1) ||
	    flmem_process_write_memory(process, support + layout->debugger_pending, &pending,
				       sizeof(pending)) ||
	    flmem_process_read_memory(process, breaker, &byte, sizeof(byte)))
		return report_write_failure(session, err);
	byte = (uint8_t)((byte & ~BREAK_GIL_DROP) | BREAK_HARMLESS | BREAK_DEBUGGER);
	if (flmem_process_write_memory(process, breaker, &byte, sizeof(byte)))
		return report_write_failure(session, err);
	return 0;
}

/*
 * Withdraws the request. Returns true if the interpreter has not taken it; it may be about to do
 * so.
 */
static bool take_back_request(const struct flmem_cpython_session *session,
			      const struct flmem_cpython_thread *thread,
			      const struct flmem_cpython_script *script)
{
	const struct flmem_cpython_layout *layout = &session->place.layout;
	const int32_t none = 0;
	bool waits = is_pending_here(session, thread->state, script);

	if (waits)
		flmem_process_write_memory(session->view->process,
					   thread->state + layout->debugger_support +
						   layout->debugger_pending,
					   &none, sizeof(none));
	flmem_clock_sleep_us(OPENING_US);
	return waits;
}

static int withdraw_script(const struct flmem_cpython_session *session,
			   const struct flmem_cpython_thread *thread,
			   const struct flmem_cpython_script *script, struct flmem_error *err)
{
	bool waits = take_back_request(session, thread, script);

	return flmem_error_set(
		err, FLMEM_EFAILED, 0, "%s within %llu ms for thread %d of process %d%s",
		waits ? "the code has not begun" : "the code has not ended",
		(unsigned long long)(session->call->timeout_us / 1000U), (int)thread->tid,
		(int)session->view->process->pid,
		waits ? ", and the request was withdrawn"
		      : "; it continues in a separate thread, unless an audit hook has forbidden "
			"it");
}

/* Makes the checks that come before a thread is borrowed: the code may call malloc_trim(), too. */
static int check_allocators(const struct flmem_cpython_session *session, struct flmem_error *err)
{
	const struct flmem_cpython_call *call = session->call;
	int rc = call->recheck ? call->recheck(call->rechecker, err) : 0;

	if (!rc)
		rc = flmem_userfaults_check(session->view->process, err);
	return rc ? rc : flmem_locks_check(session->view->process, call->guard, err);
}

/* A request that the interpreter has not taken yet, and the state at the time it was made. */
struct waiting_request {
	const struct flmem_cpython_session *session;
	const struct flmem_cpython_thread *thread;
	const struct flmem_cpython_script *script;
	struct flmem_status status;
	bool is_unsafe; /* the process is unsafe now, so the request has to be withdrawn */
};

static bool has_other_filters(const struct waiting_request *request)
{
	const struct flmem_status *before = &request->status;
	struct flmem_status now;

	return flmem_status_read_thread(request->session->view->process, request->thread->tid,
					&now) ||
	       flmem_u64_or(now.seccomp_mode, 0) != flmem_u64_or(before->seccomp_mode, 0) ||
	       flmem_u64_or(now.seccomp_filters, 0) != flmem_u64_or(before->seccomp_filters, 0);
}

/*
 * Checks the process again while the request waits, which may last as long as the main thread
 * computes in C.
 */
static int check_waiting_request(void *context, struct flmem_error *err)
{
	struct waiting_request *request = context;
	int rc;

	if (!is_pending_here(request->session, request->thread->state, request->script))
		return 0;
	rc = check_allocators(request->session, err);
	if (!rc && has_other_filters(request))
		rc = flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				     "thread %d of process %d has set a seccomp filter meanwhile",
				     (int)request->thread->tid,
				     (int)request->session->view->process->pid);
	request->is_unsafe = rc;
	return rc;
}

/*
 * Withdraws the request. The interpreter may have taken it at the same moment, so it is not made
 * again.
 */
static int withdraw_unsafe(const struct waiting_request *request, struct flmem_error *err)
{
	bool waits = take_back_request(request->session, request->thread, request->script);

	return flmem_error_prefix(err, FLMEM_EFAILED, "%s",
				  waits ? "the request for code was withdrawn"
					: "the code runs, though it became unsafe");
}

static int run_script(struct flmem_cpython_session *session,
		      const struct flmem_cpython_thread *thread, struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_INJECTED struct flmem_cpython_injected injected = {
		.text = FLMEM_BUF_INIT};
	FLMEM_AUTO_CPYTHON_SCRIPT struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
	struct waiting_request request = {.session = session, .thread = thread, .script = &script};
	int rc = flmem_cpython_injected_write(session, &injected, err);

	injected.check = check_waiting_request;
	injected.checker = &request;
	if (!rc && flmem_status_read_thread(session->view->process, thread->tid, &request.status))
		rc = flmem_process_error(session->view->process, -ESRCH, "read the threads", err);
	if (!rc)
		rc = write_script(session, &injected, &script, err);
	if (!rc)
		rc = request_script(session, thread, &script, err);
	if (!rc)
		rc = flmem_cpython_injected_await(session, &injected, err);
	if (request.is_unsafe)
		return withdraw_unsafe(&request, err);
	if (rc == FLMEM_EFAILED)
		return withdraw_script(session, thread, &script, err);
	flmem_cpython_injected_erase(session, &injected);
	return rc;
}

bool flmem_cpython_has_debugger_entry(const struct flmem_cpython_session *session)
{
	const struct flmem_cpython_layout *layout = &session->place.layout;
	int32_t enabled = 0;

	return layout->debugger_support != NONE &&
	       flmem_process_read_memory(session->view->process,
					 session->state.main_interpreter + layout->debugger_enabled,
					 &enabled, sizeof(enabled)) == 0 &&
	       enabled == 1;
}

/*
 * Checks the seccomp filters. This entry point stops no thread, except one with filters, to read
 * them.
 */
static int check_seccomp(const struct flmem_cpython_session *session, pid_t tid,
			 struct flmem_error *err)
{
	const struct flmem_seccomp_calls calls = {
		.list = &flmem_cpython_syscalls_debugger,
		.assume = session->call->assume_seccomp,
		.repeated = {.number = -1},
	};

	return flmem_seccomp_check_running(session->view->process, tid, &calls, err);
}

int flmem_cpython_entry_debugger(struct flmem_cpython_session *session, struct flmem_error *err)
{
	const struct flmem_cpython_thread *thread = choose_thread(session);
	int rc;

	if (!thread)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the main thread of the Python of process %d is blocked",
				       (int)session->view->process->pid);
	if (is_pending(session, thread->state))
		return refuse_pending(session, thread, err);
	session->result->entry = FLMEM_CPYTHON_ENTRY_DEBUGGER;
	session->result->tid = thread->tid;
	session->result->waited_in = NULL;
	rc = check_allocators(session, err);
	if (!rc)
		rc = check_seccomp(session, thread->tid, err);
	return rc || session->call->dry_run ? rc : run_script(session, thread, err);
}
