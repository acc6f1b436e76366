/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_entry_points.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/limits/headroom.h"
#include "proc/process.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/new_thread.h"
#include "runtimes/cpython_syscalls.h"

/*
 * Stack that the code needs: compiling, collecting and the finalisers of the program's objects run
 * on it. Python limits their recursion in C to what took up to 6 MiB of it (sorts in each other's
 * key(), 3.13). A thread has 8 MiB, less the data that the C library keeps there for each thread.
 */
#define STACK_BYTES (6U << 20)

/*
 * PyGILState_UNLOCKED, the result of PyGILState_Ensure() in a thread that does not hold the lock;
 * PyGILState_LOCKED, with which PyGILState_Release() keeps it.
 */
#define STATE_UNLOCKED 1
#define STATE_LOCKED   0

/* The larger one of pthread_mutex_t and pthread_rwlock_t. */
#define LOCK_SIZE 64

/* memccpy() ends after it; the low byte of a pointer to a structure is even. */
#define NO_BYTE_OF_A_POINTER 0xff

/*
 * Limit of threads: each one that cannot be used, for example with a stack that is too small,
 * sleeps for some more seconds.
 */
#define THREADS_MAX 3U

/* Time to wait for the end of a thread whose code is done: it only has to leave sleep(). */
#define END_US 1000000U

/* Time until a thread that is not running shows as blocked, and the interval of checks. */
#define BLOCKED_US 20000U
#define POLL_US	   200U

struct new_thread_functions {
	uint64_t create; /* PyThreadState_New(), if PyGILState_Ensure() must find a state */
	uint64_t ensure, run, release;
	struct flmem_thread_functions thread;
};

static int find_python_functions(struct flmem_cpython_session *session,
				 struct new_thread_functions *ret_functions,
				 struct flmem_error *err)
{
	const struct flmem_module *module = session->python.module;
	struct new_thread_functions found = {0};

	if ((session->place.layout.creates_state &&
	     !flmem_module_symbol_any(module, "PyThreadState_New", &found.create)) ||
	    !flmem_module_symbol_any(module, "PyGILState_Ensure", &found.ensure) ||
	    !flmem_module_symbol_any(module, "PyRun_SimpleString", &found.run) ||
	    !flmem_module_symbol_any(module, "PyGILState_Release", &found.release))
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"'%s' does not export the functions that flmem needs to run Python code",
			module->path);
	/*
	 * If flmem cannot start a thread through the C library, another entry point may still work.
	 */
	session->cannot_start = flmem_thread_functions_find(session->view, &found.thread, err) != 0;
	if (!session->cannot_start && found.create && !found.thread.copy) {
		session->cannot_start = true;
		flmem_error_set(err, FLMEM_EUNSAFE, 0,
				"the C library of process %d does not export memccpy() or "
				"its locks",
				(int)session->view->process->pid);
	}
	if (session->cannot_start)
		return err ? err->code = FLMEM_EUNSAFE : FLMEM_EUNSAFE;
	*ret_functions = found;
	return 0;
}

/*
 * Called while the thread is stopped, right before its calls: in an interpreter that is finalising,
 * PyGILState_Ensure() would end the thread in the middle of the chain, or never return. The stack
 * of the new thread may have taken the memory that was left.
 */
static bool accepts_new_thread(void *context, const struct flmem_candidate *candidate,
			       uint64_t pointer, const char **ret_reason)
{
	const struct flmem_cpython_session *session = context;
	bool finalizing = true;

	(void)candidate;
	(void)pointer;
	if (flmem_cpython_finalizing_read(session->view, &session->place, &finalizing, NULL) ||
	    finalizing)
		*ret_reason = "belongs to an interpreter that is finalising or not initialised";
	else if (flmem_headroom_check(session->view->process, FLMEM_CPYTHON_HEADROOM, NULL))
		*ret_reason = "belongs to a process that could end for lack of memory";
	else
		return true;
	return false;
}

/* Plans a call that does not return where the word of the lock is not zero. */
static void plan_stopping_lock(struct flmem_cpython_session *session,
			       const struct new_thread_functions *functions, uint64_t lock,
			       struct flmem_chain *chain)
{
	struct flmem_call *call;

	session->stopping_calls |= 1U << chain->count;
	call = flmem_chain_add(chain, "lock", functions->thread.lock);
	call->args[0] = lock;
	call->data_args = 1U;
}

/*
 * Stops the thread forever if the interpreter is finalising: a copy of the pointer that it then
 * sets is used for the first word of a lock, which only zero leaves open. Waiting for a lock
 * survives signals, such as those of setuid(); sleeping does not.
 */
static void plan_stop(struct flmem_cpython_session *session,
		      const struct new_thread_functions *functions, struct flmem_chain *chain)
{
	uint64_t lock = flmem_chain_put(chain, NULL, LOCK_SIZE);
	struct flmem_call *call = flmem_chain_add(chain, "memccpy", functions->thread.copy);

	call->args[0] = lock;
	call->args[1] = session->place.runtime + session->place.layout.finalizing;
	call->args[2] = NO_BYTE_OF_A_POINTER;
	call->args[3] = sizeof(uint64_t);
	call->data_args = 1U;
	plan_stopping_lock(session, functions, lock, chain);
}

static bool stops_unless_initialised(const struct flmem_cpython_session *session,
				     const struct new_thread_functions *functions)
{
	return functions->thread.copy && session->place.layout.initialized;
}

/*
 * Stops the thread forever unless the interpreter is initialised: one that a program has ended,
 * and perhaps makes again, must not be entered. Of the number, which is 1 then, bytes are copied up
 * to the first zero, so that the second one opens the lock; of 0 only one is, before the lock.
 */
static void plan_stop_unless_initialised(struct flmem_cpython_session *session,
					 const struct new_thread_functions *functions,
					 struct flmem_chain *chain)
{
	static const unsigned char held[8 + LOCK_SIZE] = {[8] = 1};
	uint64_t lock = flmem_chain_put(chain, held, sizeof(held)) + 8;
	struct flmem_call *call = flmem_chain_add(chain, "memccpy", functions->thread.copy);

	call->args[0] = lock - 1;
	call->args[1] = session->place.runtime + session->place.layout.initialized;
	call->args[2] = 0;
	call->args[3] = 2;
	call->data_args = 1U;
	plan_stopping_lock(session, functions, lock, chain);
}

/*
 * Plans the calls that take the lock. An interpreter that is not initialised is not entered at all.
 * Since 3.14 finalisation turns away only the threads that have a state when it begins. So
 * PyThreadState_New() creates the state, then the interpreter must not be finalising: what begins
 * later finds that state. PyGILState_Ensure() of 3.15 has its own check, but makes finalisation
 * wait meanwhile, by a counter that fork() copies and the child does not reset: a child that is
 * forked in that moment never finishes Py_FinalizeEx(). PyThreadState_New() counts as one use,
 * hence the second PyGILState_Release(), which ends the process if PyThreadState_New() had no
 * memory: accepts_new_thread() requires it.
 */
static void plan_lock(struct flmem_cpython_session *session,
		      const struct new_thread_functions *functions, struct flmem_chain *chain)
{
	session->stopping_calls = 0;
	if (stops_unless_initialised(session, functions))
		plan_stop_unless_initialised(session, functions, chain);
	if (functions->create) {
		flmem_chain_add(chain, "PyThreadState_New", functions->create)->args[0] =
			session->state.main_interpreter;
		plan_stop(session, functions, chain);
	}
	flmem_chain_add(chain, "PyGILState_Ensure", functions->ensure);
}

static void plan_release(const struct new_thread_functions *functions, struct flmem_chain *chain)
{
	if (functions->create)
		flmem_chain_add(chain, "PyGILState_Release", functions->release)->args[0] =
			STATE_LOCKED;
	flmem_chain_add(chain, "PyGILState_Release", functions->release)->args[0] = STATE_UNLOCKED;
}

static void plan_calls(struct flmem_cpython_session *session,
		       const struct new_thread_functions *functions,
		       const struct flmem_new_thread *thread, struct flmem_chain *chain)
{
	struct flmem_call *run;

	plan_lock(session, functions, chain);
	session->calls_locked = chain->count;
	run = flmem_chain_add(chain, "PyRun_SimpleString", functions->run);
	run->args[0] = FLMEM_CPYTHON_ANSWER_MAX;
	run->area_args = 1U;
	run->has_mask = true;
	run->mask = thread->signal_mask;
	plan_release(functions, chain);
}

/* Fills the area with the place of the answer, then the source. */
static int fill_area(const struct flmem_cpython_session *session, const unsigned char *cookie,
		     struct flmem_buf *area, struct flmem_chain *chain, struct flmem_error *err)
{
	static const unsigned char zeros[FLMEM_CPYTHON_ANSWER_MAX];

	flmem_buf_append(area, zeros, sizeof(zeros));
	flmem_cpython_source_wrap(&session->call->code, cookie, FLMEM_CPYTHON_OUTPUT_MAX, area,
				  &chain->area.address_at);
	if (area->failed)
		return flmem_error_nomem(err, "cannot store the code for the interpreter");
	chain->area.bytes = (unsigned char *)area->data;
	chain->area.length = area->length;
	chain->area.writes_address = true;
	return 0;
}

static void copy_borrowed_tid(const struct flmem_new_thread *thread,
			      struct flmem_cpython_result *result)
{
	result->tid = thread->borrowed_tid;
	result->waited_in = thread->waited_in;
	result->late_us = thread->late_us;
	result->stopped_us = thread->stopped_ns / 1000U;
}

static void copy_times(const struct flmem_cpython_session *session,
		       const struct flmem_borrow_result *run)
{
	size_t locked = session->calls_locked;

	if (!run->complete)
		return;
	session->result->waited_us = run->call_ns[locked - 1] / 1000U;
	session->result->took_us = run->call_ns[locked] / 1000U;
}

/* Describes what the unfinished code is doing; flmem has just stopped its thread briefly. */
static const char *describe_wait(const struct flmem_cpython_session *session,
				 const struct flmem_cpython_gil *gil, pid_t tid)
{
	uint64_t start = flmem_clock_us();
	struct flmem_task_wait wait;

	while (flmem_task_read_wait(session->view->process, tid, &wait) != 1) {
		if (flmem_clock_us() - start > BLOCKED_US)
			return "is running";
		flmem_clock_sleep_us(POLL_US);
	}
	if (flmem_cpython_gil_is_waited_for(gil, &wait))
		return "is waiting for the interpreter's lock";
	return wait.number == SYS_futex ? "is waiting for a lock of the program"
					: "is blocked in a system call";
}

static int explain_finalizing(const struct flmem_cpython_session *session,
			      const struct flmem_borrow_result *run, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the interpreter of process %d began to end, so the code does not "
			       "run; its thread %d remains until the process ends",
			       (int)session->view->process->pid, (int)run->tid);
}

static int explain_unlocked(const struct flmem_cpython_session *session,
			    const struct flmem_cpython_gil *gil,
			    const struct flmem_borrow_result *run, struct flmem_error *err)
{
	const struct flmem_cpython_thread *holder =
		flmem_cpython_state_find(&session->state, gil->holder);

	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the interpreter's lock was not released within %llu ms (held by "
			       "thread %d of process %d); the code runs later, in thread %d",
			       (unsigned long long)(session->call->timeout_us / 1000U),
			       holder ? (int)holder->tid : 0, (int)session->view->process->pid,
			       (int)run->tid);
}

/*
 * True if a lock stopped the thread before PyGILState_Ensure(); the interpreter may be initialised
 * again by now.
 */
static bool was_stopped(const struct flmem_cpython_session *session,
			const struct flmem_borrow_result *run)
{
	return session->stopping_calls >> run->returned & 1U;
}

/* Explains the state of injected code that has not ended. */
static int explain_late_code(const struct flmem_cpython_session *session,
			     const struct flmem_borrow_result *run, struct flmem_error *err)
{
	struct flmem_cpython_gil gil = {0};
	bool finalizing = false;

	if (run->self_restored)
		return flmem_error_prefix(err, FLMEM_EFAILED, "the outcome of the code is unknown");
	flmem_cpython_gil_read(session->view, &session->place, session->state.main_interpreter,
			       &gil, NULL);
	flmem_cpython_finalizing_read(session->view, &session->place, &finalizing, NULL);
	if (run->returned < session->calls_locked && !session->call->function.address)
		return finalizing || was_stopped(session, run)
			       ? explain_finalizing(session, run, err)
			       : explain_unlocked(session, &gil, run, err);
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the code has not ended within %llu ms; it continues in thread %d "
			       "of process %d, which %s",
			       (unsigned long long)(session->call->timeout_us / 1000U),
			       (int)run->tid, (int)session->view->process->pid,
			       describe_wait(session, &gil, run->tid));
}

/*
 * Python reports errors as return values, which are lost: without an answer the outcome is unknown.
 */
static int parse_answer(const struct flmem_cpython_session *session,
			const struct flmem_borrow_result *run, const struct flmem_buf *area,
			const unsigned char *cookie, struct flmem_error *err)
{
	struct flmem_cpython_result *result = session->result;

	if (!flmem_cpython_answer_parse((const unsigned char *)area->data, FLMEM_CPYTHON_ANSWER_MAX,
					cookie, &result->answer))
		return flmem_error_set(
			err, FLMEM_EFAILED, 0,
			"the code returned no result in process %d: it did not run (for example "
			"out of memory), or the process cannot write to its /proc/self/mem",
			(int)session->view->process->pid);
	result->complete = true;
	result->took_us = result->answer.took_ns / 1000U;
	copy_times(session, run);
	return 0;
}

static void take_function_answer(const struct flmem_cpython_session *session,
				 const struct flmem_borrow_result *run,
				 const struct flmem_buf *area)
{
	const struct flmem_cpython_function *function = &session->call->function;
	struct flmem_cpython_result *result = session->result;

	if (function->answer)
		memcpy(function->answer, area->data, function->answer_size);
	result->complete = true;
	result->took_us = run->complete ? run->call_ns[0] / 1000U : 0;
}

/* Runs the chain of a function between the calls of `begin` and `end`. */
static int run_function_chain(struct flmem_cpython_session *session,
			      const struct flmem_new_thread *thread,
			      const struct flmem_chain *chain,
			      const struct flmem_borrow_options *options,
			      struct flmem_borrow_result *ret_run, struct flmem_error *err)
{
	const struct flmem_cpython_function *function = &session->call->function;
	int rc = function->begin ? function->begin(function->context, err) : 0;

	*ret_run = (struct flmem_borrow_result){0};
	if (rc)
		return rc;
	rc = flmem_new_thread_run(session->view, thread, chain, options, ret_run, err);
	if (function->end)
		function->end(function->context, !(rc == FLMEM_EFAILED && ret_run->started &&
						   !ret_run->self_restored));
	return rc;
}

static int run_function(struct flmem_cpython_session *session,
			const struct flmem_new_thread *thread,
			const struct flmem_borrow_options *options, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf area = FLMEM_BUF_INIT;
	struct flmem_borrow_result run;
	struct flmem_chain chain = {0};
	int rc = flmem_cpython_function_plan(&session->call->function, &area, &chain, err);

	if (rc)
		return rc;
	rc = run_function_chain(session, thread, &chain, options, &run, err);
	/* The area is read before the thread is stopped again, which may come too late. */
	if (rc && !(rc == FLMEM_EFAILED && run.self_restored))
		return rc == FLMEM_EFAILED && run.started ? explain_late_code(session, &run, err)
							  : rc;
	flmem_new_thread_await_end(session->view, thread, END_US);
	take_function_answer(session, &run, &area);
	return 0;
}

/* Lists the system calls; those of the function come first, for the reason of a refusal. */
static const struct flmem_syscall_list *list_thread_syscalls(struct flmem_cpython_session *session)
{
	const struct flmem_syscall_table *own = session->call->syscalls;
	struct flmem_syscall_list *list = &session->syscalls;

	*list = flmem_cpython_syscalls_new_thread;
	if (own) {
		const struct flmem_syscall_table *last = list->tables[list->count - 1];

		list->tables[list->count - 1] = own;
		flmem_syscall_list_add(list, last);
	}
	return list;
}

static int run_code(struct flmem_cpython_session *session,
		    const struct new_thread_functions *functions,
		    const struct flmem_new_thread *thread, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf area = FLMEM_BUF_INIT;
	const struct flmem_candidate_filter filter = {.accepts = accepts_new_thread,
						      .context = session};
	const struct flmem_borrow_options options = {
		.timeout_us = session->call->timeout_us,
		.filter = &filter,
		.stack_bytes = STACK_BYTES,
		.syscalls = list_thread_syscalls(session),
		.assume_seccomp = session->call->assume_seccomp,
	};
	unsigned char cookie[FLMEM_CPYTHON_COOKIE];
	struct flmem_borrow_result run;
	struct flmem_chain chain = {0};
	int rc;

	if (session->call->function.address)
		return run_function(session, thread, &options, err);
	plan_calls(session, functions, thread, &chain);
	rc = flmem_cpython_cookie_make(cookie, err);
	if (!rc)
		rc = fill_area(session, cookie, &area, &chain, err);
	if (rc)
		return rc;
	rc = flmem_new_thread_run(session->view, thread, &chain, &options, &run, err);
	/* The answer is read before the thread is stopped again, which may come too late. */
	if (rc == FLMEM_EFAILED && run.self_restored &&
	    parse_answer(session, &run, &area, cookie, NULL) == 0)
		rc = 0;
	else if (rc == FLMEM_EFAILED && run.started)
		return explain_late_code(session, &run, err);
	else if (rc)
		return rc;
	/* Wait for the end of the thread, so that the target is unchanged when flmem returns. */
	flmem_new_thread_await_end(session->view, thread, END_US);
	return session->result->complete ? 0 : parse_answer(session, &run, &area, cookie, err);
}

static int run_in_new_thread(struct flmem_cpython_session *session,
			     const struct new_thread_functions *functions,
			     const struct flmem_borrow_options *options, struct flmem_error *err)
{
	struct flmem_new_thread thread;
	int rc;

	if (session->threads_started >= THREADS_MAX)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "%u threads were started in process %d and none could be "
				       "used; they end without running code: %s",
				       session->threads_started, (int)session->view->process->pid,
				       session->unusable);
	rc = flmem_new_thread_start(session->view, &functions->thread, options, &thread, err);

	copy_borrowed_tid(&thread, session->result);
	session->threads_started += thread.is_started;
	session->result->unfinished = rc == FLMEM_EFAILED;
	if (rc == FLMEM_EFAILED)
		return flmem_error_prefix(err, rc, "a thread for the code");
	if (!rc)
		rc = run_code(session, functions, &thread, err);
	if (rc && thread.is_started && err)
		snprintf(session->unusable, sizeof(session->unusable), "%s", err->message);
	return rc;
}

/*
 * Accepts the main thread, stopped while it computes, only in the interpreter's own code: not in
 * the C library or the loader, whose locks and data pthread_create() uses, nor in what they call.
 */
static bool accepts_computing(void *context, const struct flmem_candidate *candidate,
			      uint64_t pointer, const char **ret_reason)
{
	const struct flmem_cpython_session *session = context;
	const struct flmem_module *interpreter = session->python.module;

	if (!flmem_arch_is_thread(pointer, session->state.main_pointer))
		*ret_reason = "is not Python's main thread";
	else if (candidate->at.pc < interpreter->start || candidate->at.pc >= interpreter->end)
		*ret_reason = "computes outside of the interpreter's code";
	else
		return accepts_new_thread(context, candidate, pointer, ret_reason);
	return false;
}

/* Returns false if the interpreter's file also contains the C library or an allocator. */
static bool has_own_file(const struct flmem_cpython_session *session)
{
	uint64_t unused;

	return session->view->modules->has_link_map &&
	       !flmem_module_symbol_any(session->python.module, "malloc", &unused) &&
	       !flmem_module_symbol_any(session->python.module, "pthread_create", &unused);
}

/* True if the main thread computes. False, with the earlier error unchanged, if it is blocked. */
static bool main_computes(const struct flmem_cpython_session *session,
			  const struct flmem_cpython_thread *thread)
{
	struct flmem_task_wait wait;

	return thread && thread->tid &&
	       flmem_task_read_wait(session->view->process, thread->tid, &wait) == 0;
}

int flmem_cpython_entry_computing(struct flmem_cpython_session *session, struct flmem_error *err)
{
	const struct flmem_cpython_thread *thread = flmem_cpython_state_main(&session->state);
	const struct flmem_candidate_filter filter = {.accepts = accepts_computing,
						      .context = session};
	struct flmem_borrow_options options = {
		.timeout_us = session->call->timeout_us,
		.single_pass = true,
		.guard = session->call->guard,
		.spared = &session->spared,
		.recheck = session->call->recheck,
		.rechecker = session->call->rechecker,
		.checked_us = session->call->checked_us,
		.filter = &filter,
		.syscalls = list_thread_syscalls(session),
		.assume_seccomp = session->call->assume_seccomp,
	};
	struct flmem_borrow_result dry_run;
	struct new_thread_functions functions = {0};
	int rc;

	if (!main_computes(session, thread))
		return FLMEM_EUNSAFE;
	if (!has_own_file(session))
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"'%s' contains the C library or an allocator, which may hold "
			"locks in thread %d of process %d",
			session->python.module->path, (int)thread->tid,
			(int)session->view->process->pid);
	rc = find_python_functions(session, &functions, err);
	if (rc)
		return rc;
	options.computing = thread->tid;
	session->result->entry = FLMEM_CPYTHON_ENTRY_NEW_THREAD;
	session->result->tid = thread->tid;
	session->result->waited_in = NULL;
	return session->call->dry_run ? flmem_borrow_dry_run(session->view, &options, &dry_run, err)
				      : run_in_new_thread(session, &functions, &options, err);
}

int flmem_cpython_entry_new_thread(struct flmem_cpython_session *session, struct flmem_error *err)
{
	const struct flmem_borrow_options options = {
		.timeout_us = session->call->timeout_us,
		.single_pass = true,
		.guard = session->call->guard,
		.spared = &session->spared,
		.recheck = session->call->recheck,
		.rechecker = session->call->rechecker,
		.checked_us = session->call->checked_us,
		.syscalls = list_thread_syscalls(session),
		.assume_seccomp = session->call->assume_seccomp,
	};
	struct flmem_borrow_result plan;
	struct new_thread_functions functions = {0};
	int rc = find_python_functions(session, &functions, err);

	if (rc)
		return rc;
	session->result->entry = FLMEM_CPYTHON_ENTRY_NEW_THREAD;
	if (!session->call->dry_run)
		return run_in_new_thread(session, &functions, &options, err);
	rc = flmem_borrow_dry_run(session->view, &options, &plan, err);
	session->result->tid = plan.tid;
	session->result->waited_in = plan.waited_in;
	session->result->late_us = plan.late_us;
	return rc;
}
