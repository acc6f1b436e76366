/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/new_thread.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "elf/libc.h"
#include "elf/modules.h"
#include "proc/limits/headroom.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "proc/task_context.h"
#include "remote/checks/fork_checks.h"
#include "remote/checks/handlers.h"
#include "remote/gadgets.h"

/* sizeof(pthread_attr_t) is 56 in glibc and musl on 64-bit machines. */
#define ATTRIBUTES_SIZE 128
#define MUSL_SYNCCALL	34 /* SIGSYNCCALL */
#define DETACHED	1  /* PTHREAD_CREATE_DETACHED, in glibc and musl */
/* The usual stack limit of first threads (ulimit -s). */
#define USUAL_STACK (UINT64_C(8) << 20)

/* Distance above its stack pointer in which the variables of a thread are searched for. */
#define OWN_STACK_BYTES 65536U

/* Time limit until the new thread sleeps, and the pause between two checks. */
#define ASLEEP_US 200000U
#define LOOK_US	  100U
#define ENDING_US 200000U

/* Time limit for reading the other threads while one is stopped. */
#define HANDLERS_US 20000U

/* Number of tries: the first thread may have moved on before it is stopped. */
#define TRIES 3

static const struct flmem_module *find_in_program(const struct flmem_modules *modules,
						  bool *ret_glibc)
{
	const struct flmem_module *program = flmem_modules_main(modules);
	struct flmem_image *image = program ? flmem_module_image(program, NULL) : NULL;
	char version[FLMEM_LIBC_VERSION_MAX];

	*ret_glibc = image && flmem_libc_glibc_version(image, version);
	return program;
}

/* Before 2.34, glibc has its threads in a second library (nptl/version.c has its banner). */
const struct flmem_module *flmem_thread_library(const struct flmem_modules *modules,
						const struct flmem_module *library)
{
	static const char banner[] = "Native POSIX Threads Library";
	uint64_t unused;

	if (flmem_module_symbol(library, "pthread_create", &unused))
		return library;

	for (size_t i = 0; i < modules->rank_count; i++) {
		const struct flmem_module *module = modules->by_rank[i];
		struct flmem_image *image = flmem_module_image(module, NULL);
		struct flmem_symbol symbol;

		if (image && flmem_image_find_dynamic(image, "pthread_create", &symbol) &&
		    flmem_image_find_bytes(image, banner, strlen(banner), 0) >= 0)
			return module;
	}
	return NULL;
}

static bool find_thread_functions(const struct flmem_module *library,
				  const struct flmem_module *threads,
				  struct flmem_thread_functions *functions)
{
	return flmem_module_symbol_any(library, "pthread_attr_init", &functions->init) &&
	       flmem_module_symbol_any(library, "pthread_attr_setdetachstate",
				       &functions->detach) &&
	       flmem_module_symbol_any(library, "sleep", &functions->sleep) &&
	       flmem_module_symbol_any(threads, "pthread_create", &functions->create) &&
	       flmem_module_symbol_any(threads, "pthread_attr_setstacksize", &functions->set_stack);
}

/* pthread_mutex_lock() of musl compares single bits of the word. */
static void find_stop_functions(const struct flmem_module *library,
				const struct flmem_module *threads,
				struct flmem_thread_functions *functions)
{
	const char *lock = functions->is_glibc ? "pthread_mutex_lock" : "pthread_rwlock_wrlock";

	if (!flmem_module_symbol_any(library, "memccpy", &functions->copy) ||
	    !flmem_module_symbol_any(threads, lock, &functions->lock))
		functions->copy = functions->lock = 0;
}

int flmem_thread_functions_find(const struct flmem_view *view,
				struct flmem_thread_functions *ret_functions,
				struct flmem_error *err)
{
	const struct flmem_modules *modules = view->modules;
	struct flmem_thread_functions functions = {0};
	const struct flmem_module *library = flmem_libc_module(modules, &functions.is_glibc);
	const struct flmem_module *threads = library;

	/*
	 * The interceptors of ThreadSanitizer fail in a thread that its pthread_create() has not
	 * registered.
	 */
	if (flmem_modules_lookup(modules, "__tsan_init", NULL))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d runs under ThreadSanitizer, which does not "
				       "support threads started from outside",
				       (int)view->process->pid);
	if (!modules->has_link_map) /* a static process: the functions are in the program itself */
		library = threads = find_in_program(modules, &functions.is_glibc);
	else if (library)
		threads = flmem_thread_library(modules, library);
	if (!library || !threads || !find_thread_functions(library, threads, &functions))
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"the C library of process %d exports no functions to start a thread",
			(int)view->process->pid);
	find_stop_functions(library, threads, &functions);
	*ret_functions = functions;
	return 0;
}

/*
 * Chooses the size of the new stack: as large as the first thread's may become, because finalisers,
 * which the program would run there, may use all of it. The default would be the limit at program
 * start (glibc; 2 MiB without a limit), what pthread_setattr_default_np() has set, or 128 KiB
 * (musl).
 */
static uint64_t choose_stack(const struct flmem_process *process)
{
	uint64_t limit;

	if (flmem_process_stack_limit(process, &limit) || limit < USUAL_STACK ||
	    limit == UINT64_MAX)
		return USUAL_STACK;
	return limit;
}

/*
 * Plans the start of the thread. Returns the offset in the chain's data at which the ID of the
 * thread is stored.
 */
static uint64_t plan_start(const struct flmem_thread_functions *functions, uint64_t stack,
			   struct flmem_chain *chain)
{
	uint64_t attributes = flmem_chain_put(chain, NULL, ATTRIBUTES_SIZE);
	uint64_t id = flmem_chain_put(chain, NULL, sizeof(id));
	struct flmem_call *call;

	chain->timed_as_one = true;
	/*
	 * musl's setuid() waits for every thread with this signal (src/internal/pthread_impl.h).
	 * Its caller may hold a lock that the calls of the new thread need.
	 */
	if (!functions->is_glibc)
		chain->unblocked = UINT64_C(1) << (MUSL_SYNCCALL - 1);
	call = flmem_chain_add(chain, "pthread_attr_init", functions->init);
	call->args[0] = attributes;
	call->data_args = 1U;
	call = flmem_chain_add(chain, "pthread_attr_setdetachstate", functions->detach);
	call->args[0] = attributes;
	call->args[1] = DETACHED;
	call->data_args = 1U;
	call = flmem_chain_add(chain, "pthread_attr_setstacksize", functions->set_stack);
	call->args[0] = attributes;
	call->args[1] = stack;
	call->data_args = 1U;
	call = flmem_chain_add(chain, "pthread_create", functions->create);
	call->args[0] = id;
	call->args[1] = attributes;
	call->args[2] = functions->sleep;
	call->args[3] = FLMEM_NEW_THREAD_SECONDS;
	call->data_args = 3U;
	return id;
}

static bool is_task_listed(const struct flmem_tasks *tasks, pid_t tid)
{
	for (size_t i = 0; i < tasks->count; i++)
		if (tasks->ids[i] == tid)
			return true;
	return false;
}

static bool is_asleep(const struct flmem_process *process, pid_t tid)
{
	struct flmem_task_wait wait;

	return flmem_task_read_wait(process, tid, &wait) == 1 &&
	       (wait.number == SYS_nanosleep || wait.number == SYS_clock_nanosleep);
}

/* Finds the thread by its control block, in which glibc stores the kernel's ID. */
static pid_t find_by_block(const struct flmem_process *process, const struct flmem_tasks *before,
			   uint64_t pointer)
{
	FLMEM_AUTO_TASK_IDS struct flmem_task_ids now = {0};
	int32_t inner;
	pid_t tid;

	if (flmem_process_read_memory(process, pointer + FLMEM_LIBC_GLIBC_TID, &inner,
				      sizeof(inner)) ||
	    flmem_task_ids_read(process, &now))
		return 0;
	tid = flmem_task_ids_outer(&now, inner);
	return tid && !is_task_listed(before, tid) && is_asleep(process, tid) ? tid : 0;
}

/* Finds the only sleeping thread among the new ones. */
static pid_t find_by_list(const struct flmem_process *process, const struct flmem_tasks *before)
{
	FLMEM_AUTO_TASKS struct flmem_tasks now = {0};
	pid_t found = 0;

	if (flmem_tasks_read(process, &now))
		return 0;
	for (size_t i = 0; i < now.count; i++) {
		if (is_task_listed(before, now.ids[i]) || !is_asleep(process, now.ids[i]))
			continue;
		if (found)
			return 0;
		found = now.ids[i];
	}
	return found;
}

static int refuse_not_started(const struct flmem_process *process, struct flmem_error *err)
{
	const uint64_t stack = choose_stack(process);

	/* Whether pthread_create() failed is unknown: glibc stores the id before it fails. */
	if (stack > USUAL_STACK)
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"process %d could not start a thread for the code with a stack of %" PRIu64
			" MiB, which its first one may have (ulimit -s), or the thread did not run "
			"within %u ms: its memory or its thread limits (ulimit -u, pids.max) do "
			"not allow that, or the machine is busy; try again",
			(int)process->pid, stack >> 20, ASLEEP_US / 1000);
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d could not start a thread for the code, or the thread "
			       "did not run within %u ms: its thread limits (ulimit -u, pids.max) "
			       "or its memory do not allow another one, or the machine is busy; "
			       "try again",
			       (int)process->pid, ASLEEP_US / 1000);
}

static int find_started(const struct flmem_view *view, bool is_glibc,
			const struct flmem_tasks *before, struct flmem_new_thread *thread,
			struct flmem_error *err)
{
	uint64_t start = flmem_clock_us();

	while (thread->pointer) {
		thread->tid = is_glibc ? find_by_block(view->process, before, thread->pointer)
				       : find_by_list(view->process, before);
		if (thread->tid || flmem_clock_us() - start > ASLEEP_US)
			break;
		flmem_clock_sleep_us(LOOK_US);
	}
	return thread->tid ? 0 : refuse_not_started(view->process, err);
}

/*
 * Reads the signal mask for the new thread: a thread or process that the calls start inherits it.
 * The masks of a library's own threads block what the program handles, so the first thread's is
 * used. In sigsuspend() or ppoll() /proc shows another one, except if that thread was borrowed. A
 * mask of a chain is that of another flmem.
 */
static int read_signal_mask(const struct flmem_process *process,
			    const struct flmem_borrow_result *run, uint64_t *ret_mask,
			    struct flmem_error *err)
{
	struct flmem_status status;

	if (run->tid == process->pid) {
		*ret_mask = run->signal_mask;
		return 0;
	}
	if (flmem_status_read_thread(process, process->pid, &status) ||
	    status.sig_blocked.unknown || flmem_arch_is_chain_mask(status.sig_blocked.value))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the signal mask of the main thread of process %d cannot be "
				       "read now; try again",
				       (int)process->pid);
	*ret_mask = status.sig_blocked.value;
	return 0;
}

static void take_borrowed_tid(const struct flmem_borrow_result *run,
			      struct flmem_new_thread *thread)
{
	thread->borrowed_tid = run->tid;
	thread->waited_in = run->waited_in;
	thread->late_us = run->late_us;
	thread->stopped_ns = run->complete ? run->stopped_ns : 0;
}

/*
 * True if the thread waits for a counter on its own stack, as setuid() and similar functions of
 * glibc do for every thread while they hold the lock of the thread stacks, which pthread_create()
 * takes (nptl/nptl_setxid.c).
 */
static bool waits_for_own_stack(const struct flmem_task_wait *at)
{
	return at->number == SYS_futex && at->args[0] >= at->sp &&
	       at->args[0] - at->sp < OWN_STACK_BYTES;
}

/* Context of the check of the thread that starts the new one; includes the caller's filter. */
struct borrowed_thread_check {
	const struct flmem_view *view;
	const struct flmem_gadgets *gadgets;
	const struct flmem_candidate_filter *filter;
	/* Number of threads without those of the kernel, which do not use the C library. */
	size_t threads;
	struct flmem_range fork;
	bool knows_fork;
};

/*
 * True if a computing thread may have stopped others by a signal, inside the allocator, until it
 * resumes them. Blocked threads are checked when they are found; this one is stopped while the
 * others are read, so that it cannot send a signal afterwards.
 */
static bool may_hold_others(const struct borrowed_thread_check *check,
			    const struct flmem_candidate *candidate)
{
	return candidate->computes && check->threads > 1 &&
	       flmem_handlers_find(check->view, check->gadgets, candidate->tid,
				   flmem_clock_us() + HANDLERS_US);
}

/*
 * True if the thread may be inside a fork() that takes no heap locks: that of glibc in a program
 * without threads takes none, even if a thread is started while its handlers run. In the child,
 * locks that the new thread held would stay locked.
 */
static bool forks_without_locks(const struct borrowed_thread_check *check,
				const struct flmem_candidate *candidate)
{
	return check->threads == 1 &&
	       (!check->knows_fork ||
		flmem_forks_is_inside(check->view->process, check->fork, candidate->at.sp));
}

/*
 * True if the thread may start another one. All threads of the process must share the attributes
 * that the new thread inherits: its code may close a descriptor or remove a file by a relative
 * name.
 */
static bool may_start_thread(void *context, const struct flmem_candidate *candidate,
			     uint64_t pointer, const char **ret_reason)
{
	const struct borrowed_thread_check *check = context;
	const struct flmem_candidate_filter *filter = check->filter;

	if (!candidate->computes && waits_for_own_stack(&candidate->at))
		*ret_reason =
			"waits for a word on its own stack, as setuid() does with a lock held";
	else if (forks_without_locks(check, candidate))
		*ret_reason =
			"is inside fork(), or an earlier one has left its address on the stack, "
			"or fork() is not found";
	else if (may_hold_others(check, candidate))
		*ret_reason = "may wait for a thread that is inside a signal handler, or stopped";
	else
		*ret_reason = flmem_task_context_differs(check->view->process, candidate->tid);
	return !*ret_reason &&
	       (!filter || filter->accepts(filter->context, candidate, pointer, ret_reason));
}

int flmem_new_thread_start(const struct flmem_view *view,
			   const struct flmem_thread_functions *functions,
			   const struct flmem_borrow_options *options,
			   struct flmem_new_thread *ret_thread, struct flmem_error *err)
{
	FLMEM_AUTO_TASKS struct flmem_tasks before = {0};
	struct flmem_gadgets gadgets = {0};
	struct borrowed_thread_check check = {
		.view = view, .gadgets = &gadgets, .filter = options->filter};
	const struct flmem_candidate_filter filter = {.accepts = may_start_thread,
						      .context = &check};
	struct flmem_borrow_options own = *options;
	struct flmem_borrow_result run;
	struct flmem_chain chain = {0};
	uint64_t id = plan_start(functions, choose_stack(view->process), &chain);
	int rc = flmem_tasks_read(view->process, &before);

	*ret_thread = (struct flmem_new_thread){.unblocked = chain.unblocked};
	if (rc)
		return flmem_process_error(view->process, rc, "threads", err);
	if (before.count >= FLMEM_TASKS_MAX)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "process %d has %u threads or more: a new thread could not "
				       "be identified among them",
				       (int)view->process->pid, FLMEM_TASKS_MAX);
	rc = flmem_headroom_check_tasks(view->process, err);
	if (!rc)
		rc = flmem_gadgets_find(view, &gadgets, err);
	if (rc)
		return rc;
	check.threads = flmem_tasks_count_own(view->process, &before, 2);
	check.knows_fork = flmem_forks_function(view, &check.fork);
	own.filter = &filter;
	rc = flmem_borrow_run(view, &chain, &own, &run, err);
	take_borrowed_tid(&run, ret_thread);
	/* The started thread only sleeps and then exits, so another one may be started. */
	ret_thread->is_started = run.self_restored;
	if (rc == FLMEM_EFAILED && run.self_restored)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "a thread was started in process %d, but flmem got no CPU "
				       "time to read its id",
				       (int)view->process->pid);
	if (rc)
		return rc;
	memcpy(&ret_thread->pointer, run.data + id, sizeof(ret_thread->pointer));
	rc = find_started(view, functions->is_glibc, &before, ret_thread, err);
	ret_thread->is_started = !rc;
	return rc ? rc : read_signal_mask(view->process, &run, &ret_thread->signal_mask, err);
}

/* The caller's filter, called after the identity check below. */
struct caller_filter {
	uint64_t pointer;
	const struct flmem_candidate_filter *filter;
};

/*
 * True for the started thread: what pthread_create() has returned leads to its thread pointer. No
 * other thread has it, even if the thread ID was reused.
 */
static bool is_started_thread(void *context, const struct flmem_candidate *candidate,
			      uint64_t pointer, const char **ret_reason)
{
	const struct caller_filter *check = context;
	const struct flmem_candidate_filter *filter = check->filter;

	if (pointer && !flmem_arch_is_thread(pointer, check->pointer)) {
		*ret_reason = "is not the thread that was started";
		return false;
	}
	return !filter || filter->accepts(filter->context, candidate, pointer, ret_reason);
}

/*
 * Explains that the thread has exited, and perhaps the process too: the results are lost with the
 * stack. When a signal ends a process, its threads exit before it does, at the latest when its core
 * is written.
 */
static int explain_thread_end(const struct flmem_view *view, struct flmem_borrow_result *result,
			      struct flmem_error *err)
{
	uint64_t start = flmem_clock_us();

	do {
		if (!flmem_process_alive(view->process))
			return FLMEM_ENOPROC;
		flmem_clock_sleep_us(LOOK_US);
	} while (flmem_clock_us() - start < ENDING_US);
	result->self_restored = true;
	return flmem_error_set(
		err, FLMEM_EFAILED, 0,
		"the thread for the calls in process %d ended before flmem read their results, so "
		"it is unknown whether all were made; try again when this machine is less busy",
		(int)view->process->pid);
}

int flmem_new_thread_run(const struct flmem_view *view, const struct flmem_new_thread *thread,
			 const struct flmem_chain *chain,
			 const struct flmem_borrow_options *options,
			 struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	struct caller_filter check = {thread->pointer, options->filter};
	const struct flmem_candidate_filter filter = {.accepts = is_started_thread,
						      .context = &check};
	const struct flmem_view now = {view->process, &maps, view->modules};
	struct flmem_borrow_options own = *options;
	struct flmem_chain calls = *chain;
	int rc = flmem_maps_read(view->process, &maps, err);

	*ret_result = (struct flmem_borrow_result){0};
	calls.unblocked |= thread->unblocked;
	own.only = thread->tid;
	own.finish = true;
	own.single_pass = true;
	own.filter = &filter;
	if (rc)
		return rc;
	for (int i = 0; i < TRIES; i++) {
		rc = flmem_borrow_run(&now, &calls, &own, ret_result, err);
		if (rc != FLMEM_EUNSAFE)
			break;
		flmem_clock_sleep_us(LOOK_US);
	}
	return rc == FLMEM_ENOPROC ? explain_thread_end(view, ret_result, err) : rc;
}

bool flmem_new_thread_await_end(const struct flmem_view *view,
				const struct flmem_new_thread *thread, uint64_t timeout_us)
{
	uint64_t start = flmem_clock_us();
	struct stat unused;
	char name[32];

	snprintf(name, sizeof(name), "task/%d", (int)thread->tid);
	while (fstatat(view->process->dirfd, name, &unused, 0) == 0) {
		if (flmem_clock_us() - start > timeout_us)
			return false;
		flmem_clock_sleep_us(LOOK_US);
	}
	return true;
}
