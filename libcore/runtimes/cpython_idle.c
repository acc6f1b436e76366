/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_doors.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "remote/borrow.h"
#include "runtimes/cpython_syscalls.h"

/* Compiling, collecting and the finalisers of the program's objects run on the borrowed stack. */
#define STACK_BYTES (256U << 10)

/* How many of the calls have returned when ... */
#define CALLS_LOCKED 1U

/* PyGILState_UNLOCKED, what PyGILState_Ensure() gives to a thread that does not hold the lock. */
#define STATE_UNLOCKED 1

struct functions {
	uint64_t ensure, run, release;
};

static int find_functions(const struct flmem_cpython_visit *visit, struct functions *ret_functions,
			  struct flmem_error *err)
{
	const struct flmem_module *module = visit->python.module;
	struct functions found;

	if (!flmem_module_symbol_any(module, "PyGILState_Ensure", &found.ensure) ||
	    !flmem_module_symbol_any(module, "PyRun_SimpleString", &found.run) ||
	    !flmem_module_symbol_any(module, "PyGILState_Release", &found.release))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "'%s' does not export the functions to enter it by",
				       module->path);
	*ret_functions = found;
	return 0;
}

/* By its own thread pointer, which no two living threads share. */
static const char *check_stopped(const struct flmem_cpython_state *state,
				 const struct flmem_task_wait *at, uint64_t pointer)
{
	bool found = false;

	if (state->finalizing)
		return "belongs to an interpreter that is ending";
	for (size_t i = 0; i < state->thread_count; i++) {
		const struct flmem_cpython_thread *thread = &state->threads[i];

		if (thread->pointer != pointer)
			continue;
		if (!thread->main_interpreter)
			return "belongs to a sub-interpreter";
		if (state->gil.locked && state->gil.holder == thread->state)
			return "holds the interpreter's lock";
		if (thread->raising)
			return "is raising an exception";
		found = true;
	}
	if (!found)
		return "is not one of Python's";
	return flmem_cpython_gil_is_waited_for(&state->gil, at) ? "waits for the interpreter's lock"
								: NULL;
}

/* Before it is stopped: leaves out what is certainly not one, without a look at it. */
static const char *check_running(const struct flmem_cpython_state *state,
				 const struct flmem_candidate *candidate)
{
	bool all_told = true;

	if (flmem_cpython_gil_is_waited_for(&state->gil, &candidate->at))
		return "waits for the interpreter's lock";
	for (size_t i = 0; i < state->thread_count; i++) {
		if (state->threads[i].tid == candidate->tid)
			return NULL;
		all_told = all_told && state->threads[i].tid;
	}
	return all_told ? "is not one of Python's" : NULL;
}

static bool accepts(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
		    const char **ret_reason)
{
	const struct flmem_cpython_visit *visit = context;
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};

	/* It has come and gone since: what was read when the door was chosen is too old. */
	if (flmem_cpython_state_read(visit->view, &visit->place, &state, NULL))
		*ret_reason = "belongs to a Python whose state cannot be read";
	else if (!pointer)
		*ret_reason = check_running(&state, candidate);
	else
		*ret_reason = check_stopped(&state, &candidate->at, pointer);
	return !*ret_reason;
}

static void plan_calls(const struct functions *functions, struct flmem_chain *chain)
{
	struct flmem_call *run;

	flmem_chain_add(chain, "PyGILState_Ensure", functions->ensure);
	run = flmem_chain_add(chain, "PyRun_SimpleString", functions->run);
	run->args[0] = FLMEM_CPYTHON_ANSWER_MAX;
	run->area_args = 1U;
	flmem_chain_add(chain, "PyGILState_Release", functions->release)->args[0] = STATE_UNLOCKED;
}

/* The answer's place, then the source. */
static int fill_area(const struct flmem_cpython_visit *visit, const unsigned char *cookie,
		     struct flmem_buf *area, struct flmem_chain *chain, struct flmem_error *err)
{
	static const unsigned char zeros[FLMEM_CPYTHON_ANSWER_MAX];

	flmem_buf_append(area, zeros, sizeof(zeros));
	flmem_cpython_source_wrap(&visit->call->code, cookie, FLMEM_CPYTHON_OUTPUT_MAX, area,
				  &chain->area.address_at);
	if (area->failed)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory");
	chain->area.bytes = (unsigned char *)area->data;
	chain->area.length = area->length;
	chain->area.tells_address = true;
	return 0;
}

static void take_result(const struct flmem_borrow_result *run, struct flmem_cpython_result *result)
{
	result->tid = run->tid;
	result->waited_in = run->waited_in;
	result->late_us = run->late_us;
	if (!run->complete)
		return;
	result->complete = true;
	result->waited_us = run->call_ns[0] / 1000U;
	result->took_us = run->call_ns[1] / 1000U;
	result->stopped_us = run->stopped_ns / 1000U;
}

/* What became of code that was handed over and is not done. */
static int explain_late(const struct flmem_cpython_visit *visit,
			const struct flmem_borrow_result *run, struct flmem_error *err)
{
	struct flmem_cpython_gil gil = {0};
	const struct flmem_cpython_thread *holder = NULL;

	if (run->self_restored)
		return flmem_error_prefix(err, "the code has run");
	if (run->returned >= CALLS_LOCKED)
		return flmem_error_set(
			err, FLMEM_EFAILED, 0,
			"the code has not come to its end within %llu ms; it goes on "
			"in thread %d of process %d and does no harm",
			(unsigned long long)(visit->call->timeout_us / 1000U), (int)run->tid,
			(int)visit->view->process->pid);
	if (flmem_cpython_gil_read(visit->view, &visit->place, visit->state.main_interpreter, &gil,
				   NULL) == 0)
		holder = flmem_cpython_state_find(&visit->state, gil.holder);
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the interpreter's lock was not given up within %llu ms (thread %d "
			       "of process %d has it); the code runs as soon as it is, and does no "
			       "harm",
			       (unsigned long long)(visit->call->timeout_us / 1000U),
			       holder ? (int)holder->tid : 0, (int)visit->view->process->pid);
}

static int run_code(struct flmem_cpython_visit *visit, const struct functions *functions,
		    const struct flmem_borrow_options *options, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf area = FLMEM_BUF_INIT;
	unsigned char cookie[FLMEM_CPYTHON_COOKIE];
	struct flmem_cpython_result *result = visit->result;
	struct flmem_borrow_result run;
	struct flmem_chain chain = {0};
	int rc;

	plan_calls(functions, &chain);
	rc = flmem_cpython_cookie_make(cookie, err);
	if (!rc)
		rc = fill_area(visit, cookie, &area, &chain, err);
	if (rc)
		return rc;
	rc = flmem_borrow_run(visit->view, &chain, options, &run, err);
	take_result(&run, result);
	if (rc == FLMEM_EFAILED && run.started)
		return explain_late(visit, &run, err);
	if (!rc && !flmem_cpython_answer_parse((unsigned char *)area.data, FLMEM_CPYTHON_ANSWER_MAX,
					       cookie, &result->answer))
		result->no_answer = "the process cannot write to its own /proc/self/mem";
	return rc;
}

int flmem_cpython_door_idle_thread(struct flmem_cpython_visit *visit, struct flmem_error *err)
{
	const struct flmem_candidate_filter filter = {.accepts = accepts, .context = visit};
	struct flmem_borrow_options options = {
		.timeout_us = visit->call->timeout_us,
		.look_once = true,
		.guard = *visit->call->guard,
		.filter = &filter,
		.stack_bytes = STACK_BYTES,
		.syscalls = &flmem_cpython_syscalls_idle,
		.assume_seccomp = visit->call->assume_seccomp,
	};
	struct flmem_borrow_result plan;
	struct functions functions = {0};
	int rc = find_functions(visit, &functions, err);

	if (rc)
		return rc;
	visit->result->door = FLMEM_CPYTHON_DOOR_IDLE_THREAD;
	if (!visit->call->dry_run)
		return run_code(visit, &functions, &options, err);
	rc = flmem_borrow_plan(visit->view, &options, &plan, err);
	take_result(&plan, visit->result);
	return rc;
}
