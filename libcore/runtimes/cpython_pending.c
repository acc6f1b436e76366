/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_entry_points.h"

#include <string.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "remote/borrow.h"
#include "runtimes/cpython_injected_script.h"
#include "runtimes/cpython_syscalls.h"

#define RUNTIME_PART 16384U /* of _PyRuntime; the list is within the first 3 KB */
#define PLACE_312    2016U
#define AROUND	     256U
#define QUEUE_LENGTH 32 /* NPENDINGCALLS, MAXPENDINGCALLS_MAIN */

/* Address and kind of the lock of the list of pending calls. */
struct list_lock {
	uint64_t address;
	bool is_byte; /* PyMutex, since 3.13; else the semaphore of a PyThread_type_lock */
};

/* struct _pending_calls of 3.12, from `busy` on: a lock, and the indexes of a ring of 32. */
struct list_312 {
	int32_t busy, padding;
	uint64_t lock;
	int32_t to_do, async_exception;
	uint64_t calls[QUEUE_LENGTH][2];
	int32_t first, last;
};

/* The same of 3.13 and 3.14, up to the calls. */
struct list_313 {
	uint64_t handling_thread;
	uint8_t mutex, padding[3];
	int32_t count, max, max_loop;
};

static bool read_semaphore(const struct flmem_view *view, uint64_t address, uint32_t *ret_value)
{
	return address % 8 == 0 && address >= 4096 &&
	       flmem_process_read_memory(view->process, address, ret_value, sizeof(*ret_value)) ==
		       0;
}

/*
 * Found by its content, which must match exactly once: its offset differs between builds. In 3.12.1
 * it is 2016; similar locks of the runtime are farther away.
 */
static bool find_312(const struct flmem_view *view, const unsigned char *bytes,
		     struct list_lock *ret_lock)
{
	size_t found = 0;

	for (size_t at = PLACE_312 - AROUND; at <= PLACE_312 + AROUND; at += 8) {
		struct list_312 list;
		uint32_t value;

		memcpy(&list, bytes + at, sizeof(list));
		if ((uint32_t)list.busy > 1 || (uint32_t)list.to_do > 1 ||
		    (uint32_t)list.async_exception > 1 || (uint32_t)list.first >= QUEUE_LENGTH ||
		    (uint32_t)list.last >= QUEUE_LENGTH ||
		    !read_semaphore(view, list.lock, &value) || value > 1)
			continue;
		*ret_lock = (struct list_lock){.address = list.lock};
		found++;
	}
	return found == 1;
}

/* The main thread's list is the only one with 32 entries and without a limit per turn. */
static bool find_313(uint64_t runtime, const unsigned char *bytes, struct list_lock *ret_lock)
{
	size_t found = 0;

	for (size_t at = 0; at + sizeof(struct list_313) <= RUNTIME_PART; at += 8) {
		struct list_313 list;

		memcpy(&list, bytes + at, sizeof(list));
		if (list.max != QUEUE_LENGTH || list.max_loop || list.mutex > 3 ||
		    list.padding[0] || list.padding[1] || list.padding[2] ||
		    (uint32_t)list.count > QUEUE_LENGTH)
			continue;
		*ret_lock = (struct list_lock){
			.address = runtime + at + offsetof(struct list_313, mutex),
			.is_byte = true,
		};
		found++;
	}
	return found == 1;
}

/* 3.8 to 3.11: offsetof() in the headers that cpython_layout.c names. */
static bool find_before_312(const struct flmem_cpython_session *session, struct list_lock *ret_lock)
{
	static const struct {
		int minor;
		bool in_runtime;
		uint32_t offset;
	} rows[] = {{8, true, 608}, {9, false, 80}, {10, false, 80}, {11, false, 112}};
	struct list_lock lock = {0};
	uint32_t value;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		uint64_t base = rows[i].in_runtime ? session->place.runtime
						   : session->state.main_interpreter;

		if (rows[i].minor != session->python.minor)
			continue;
		if (flmem_process_read_memory(session->view->process, base + rows[i].offset,
					      &lock.address, sizeof(lock.address)) ||
		    !read_semaphore(session->view, lock.address, &value) || value > 1)
			return false;
		*ret_lock = lock;
		return true;
	}
	return false;
}

static bool find_lock(const struct flmem_cpython_session *session, struct list_lock *ret_lock)
{
	FLMEM_AUTO_FREE unsigned char *bytes = NULL;

	if (session->python.minor < 12)
		return find_before_312(session, ret_lock);
	bytes = malloc(RUNTIME_PART);
	if (!bytes || flmem_process_read_memory(session->view->process, session->place.runtime,
						bytes, RUNTIME_PART))
		return false;
	return session->python.minor == 12 ? find_312(session->view, bytes, ret_lock)
					   : find_313(session->place.runtime, bytes, ret_lock);
}

/* A pending call that the main thread adds. */
struct announcement {
	const struct flmem_cpython_session *session;
	struct list_lock lock;
};

static bool is_list_unlocked(const struct announcement *in)
{
	const struct flmem_process *process = in->session->view->process;
	uint32_t value;
	uint8_t byte;

	if (in->lock.is_byte)
		return flmem_process_read_memory(process, in->lock.address, &byte, 1) == 0 && !byte;
	return read_semaphore(in->session->view, in->lock.address, &value) && value == 1;
}

/* A thread that was stopped while it holds the list's lock would deadlock. */
static bool accepts_main_thread(void *context, const struct flmem_candidate *candidate,
				uint64_t pointer, const char **ret_reason)
{
	const struct announcement *in = context;
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	const char *reason = NULL;

	(void)candidate;
	if (flmem_cpython_state_read(in->session->view, &in->session->place, &state, NULL))
		reason = "belongs to a Python whose state cannot be read";
	else if (state.finalizing)
		reason = "belongs to an interpreter that is finalising";
	else if (state.interpreters != 1)
		reason = "may belong to a sub-interpreter";
	else if (pointer != state.main_pointer)
		reason = "is not Python's main thread";
	else if (!is_list_unlocked(in))
		reason = "is adding a pending call itself";
	*ret_reason = reason;
	return !reason;
}

static int explain_late_call(const struct flmem_cpython_session *session, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the code has not finished within %llu ms: the main thread %d of "
			       "process %d has not reached its next Python instruction, or the "
			       "code still runs; it continues in a separate thread",
			       (unsigned long long)(session->call->timeout_us / 1000U),
			       (int)session->result->tid, (int)session->view->process->pid);
}

static int add_pending_call(struct flmem_cpython_session *session, struct announcement *in,
			    uint64_t add, uint64_t function, struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_INJECTED struct flmem_cpython_injected injected = {
		.text = FLMEM_BUF_INIT};
	const struct flmem_candidate_filter filter = {.accepts = accepts_main_thread,
						      .context = in};
	const struct flmem_borrow_options options = {
		.timeout_us = session->call->timeout_us,
		.look_once = true, /* an idle thread needs another entry point */
		.guard = *session->call->guard,
		.filter = &filter,
		.computing = session->result->tid,
		.syscalls = &flmem_cpython_syscalls_pending,
		.assume_seccomp = session->call->assume_seccomp,
	};
	struct flmem_borrow_result run;
	struct flmem_chain chain = {0};
	struct flmem_call *call = flmem_chain_add(&chain, "Py_AddPendingCall", add);
	int rc = flmem_cpython_injected_write(session, true, &injected, err);

	if (rc)
		return rc;
	call->args[0] = function;
	call->args[1] = injected.source;
	rc = flmem_borrow_run(session->view, &chain, &options, &run, err);
	session->result->stopped_us = run.complete ? run.stopped_ns / 1000U : 0;
	if (!run.started) {
		flmem_cpython_injected_erase(session, &injected);
		return rc;
	}
	/* The result of the code is not read from the thread's stack. */
	if (!rc || run.self_restored)
		rc = flmem_cpython_injected_await(session, &injected, err);
	if (!rc)
		flmem_cpython_injected_erase(session, &injected);
	return rc == FLMEM_EFAILED ? explain_late_call(session, err) : rc;
}

int flmem_cpython_entry_pending_call(struct flmem_cpython_session *session, struct flmem_error *err)
{
	const struct flmem_module *module = session->python.module;
	const struct flmem_cpython_thread *thread = flmem_cpython_state_main(&session->state);
	struct announcement in = {.session = session};
	uint64_t add, function;

	if (!flmem_module_symbol_any(module, "Py_AddPendingCall", &add) ||
	    !flmem_module_symbol_any(module, "PyRun_SimpleString", &function))
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"'%s' does not export the functions that flmem needs to run Python code",
			module->path);
	if (!thread || !thread->tid || !thread->main_interpreter ||
	    session->state.interpreters != 1)
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"the main thread of the Python in process %d cannot be identified reliably",
			(int)session->view->process->pid);
	if (!find_lock(session, &in.lock))
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"the list of pending calls of the Python in process %d was not found",
			(int)session->view->process->pid);
	session->result->entry = FLMEM_CPYTHON_ENTRY_PENDING_CALL;
	session->result->tid = thread->tid;
	session->result->waited_in = NULL;
	return session->call->dry_run ? 0 : add_pending_call(session, &in, add, function, err);
}
