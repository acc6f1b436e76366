/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile/jemalloc_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/jemalloc/jemalloc_profiling.h"
#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "ops/profile/attached.h"
#include "ops/target/target_guard.h"
#include "ops/target/target_hooks.h"
#include "proc/limits/headroom.h"
#include "profiler/jemalloc_dump.h"
#include "remote/borrow.h"
#include "remote/new_thread.h"
#include "runtimes/cpython_syscalls.h"

#define DUMP_STACK_BYTES (256U << 10)
#define DUMP_END_US	 1000000U /* time limit for the end of a thread that has made its call */

static const char dump_end[] = "\n" FLMEM_JEMALLOC_DUMP_MAPS "\n";

/* Data of one order; too large for the stack. */
struct jemalloc_engine {
	struct flmem_target_inspection *target;
	const struct flmem_attach_options *options;
	const struct flmem_allocator *found;
	struct flmem_attach_result *result;
	struct flmem_borrow_options borrow;
	struct flmem_guard guard;
	struct flmem_syscall_list syscalls;
	struct flmem_borrow_result run;
	struct flmem_jemalloc_profiling state;
	bool writes_on; /* the thread of the dump may not have ended */
	unsigned char area[FLMEM_ATTACH_PATH_MAX + 16];
};

int flmem_jemalloc_engine_check(const struct flmem_profile_request *request,
				struct flmem_error *err)
{
	if (request->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "with --engine jemalloc, detach writes the dump: give "
				       "--output to it");
	if (request->interval_bytes || request->limit_bytes || request->native)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "with --engine jemalloc, MALLOC_CONF of the process decides "
				       "(lg_prof_sample); leave out --interval, --limit, --native");
	return 0;
}

static int find_serving_jemalloc(struct jemalloc_engine *e, struct flmem_error *err)
{
	e->found = flmem_allocators_serving(&e->target->allocators);
	if (e->found && e->found->ops->kind == FLMEM_ALLOCATOR_JEMALLOC)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "malloc of process %d is served by %s, not by jemalloc",
			       (int)e->target->process.pid,
			       e->found ? flmem_allocator_name(e->found->ops->kind)
					: "an allocator that flmem does not know");
}

static void take_engine_run(struct jemalloc_engine *e)
{
	struct flmem_attach_result *result = e->result;

	result->thread = e->run.tid;
	snprintf(result->thread_state, sizeof(result->thread_state), "%s",
		 e->run.waited_in ? e->run.waited_in : "");
	if (e->run.complete)
		flmem_attached_add_stop(result, e->run.stopped_ns / 1000U);
}

static int run_engine_chain(struct jemalloc_engine *e, const struct flmem_chain *chain,
			    struct flmem_error *err)
{
	int rc = flmem_borrow_run(&e->target->view, chain, &e->borrow, &e->run, err);

	take_engine_run(e);
	return rc;
}

/* Checks what a trim of this allocator checks before: damage, runtimes, hooks of the program. */
static int check_engine_target(struct jemalloc_engine *e, struct flmem_error *err)
{
	const struct flmem_view *view = &e->target->view;
	const struct flmem_allocator_list *list = &e->target->allocators;
	uint64_t hooks_us = 0;
	int rc;

	flmem_target_guard_fill(view, list, &e->guard);
	flmem_target_guard_syscalls(view, list, &e->syscalls);
	rc = flmem_target_guard_refuse_runtimes(view, list, err);
	if (!rc)
		rc = flmem_target_guard_check(view, list, true, err);
	if (!rc)
		rc = flmem_target_hooks_check_all(
			view, list, e->options->dry_run ? NULL : &e->borrow, &hooks_us, err);
	flmem_attached_add_stop(e->result, hooks_us);
	return rc;
}

static int read_engine_state(struct jemalloc_engine *e, struct flmem_error *err)
{
	struct flmem_chain chain = {.timed_as_one = true};
	uint64_t answers;
	int rc = flmem_jemalloc_plan_profiling(e->found, &chain, &answers, err);

	if (!rc)
		rc = run_engine_chain(e, &chain, err);
	return rc ? rc
		  : flmem_jemalloc_take_profiling(&e->target->view, e->run.data + answers,
						  &e->state, err);
}

/* Switches prof.active and reads it back: the return value of the call is unknown. */
static int switch_sampling(struct jemalloc_engine *e, bool active, struct flmem_error *err)
{
	struct flmem_chain chain = {0};
	int rc = flmem_jemalloc_plan_active(e->found, active, &chain, err);

	if (!rc)
		rc = run_engine_chain(e, &chain, err);
	if (!rc)
		rc = read_engine_state(e, err);
	if (rc || e->state.active == active)
		return rc;
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the jemalloc of process %d has not switched prof.active %s",
			       (int)e->target->process.pid, active ? "on" : "off");
}

/*
 * Returns true if the dump is complete: it ends with the last mapping of the process, which does
 * not change.
 */
static bool is_whole_dump(const struct jemalloc_engine *e, const struct flmem_buf *text)
{
	const struct flmem_maps *maps = &e->target->maps;
	const char *rest = strstr(text->data, dump_end);
	char last[32];

	if (!rest || !maps->count || text->data[text->length - 1] != '\n')
		return false;
	snprintf(last, sizeof(last), "-%llx ", (unsigned long long)maps->rows[maps->count - 1].end);
	return strstr(rest, last) != NULL;
}

/* Returns the problem of a dump; NULL: it is complete. */
static const char *problem_of_dump(const struct jemalloc_engine *e, const struct flmem_buf *text)
{
	if (!flmem_text_starts(text->data, FLMEM_JEMALLOC_DUMP_MAGIC))
		return "was not written";
	return is_whole_dump(e, text) ? NULL : "is truncated, as on a full disk";
}

/* Checks the written dump: jemalloc reports errors of the file as a return value, which is lost. */
static int check_written_dump(const struct jemalloc_engine *e,
			      const struct flmem_attached_file *file, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int fd = openat(file->directory, strrchr(file->path, '/') + 1,
					 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc = fd < 0 ? -EBADF : flmem_io_read_all(fd, FLMEM_JEMALLOC_DUMP_MAX, &text);
	const char *why = rc || !text.length ? "cannot be read" : problem_of_dump(e, &text);

	if (rc == -EFBIG)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the dump of the jemalloc of process %d is larger than the "
				       "%zu MiB that flmem reads, and was removed; it continues "
				       "sampling: detach without --output, and start the process "
				       "with a larger lg_prof_sample",
				       (int)e->target->process.pid, FLMEM_JEMALLOC_DUMP_MAX >> 20);
	if (!why)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the dump of the jemalloc of process %d %s; it continues sampling",
			       (int)e->target->process.pid, why);
}

static int make_dump_call(struct jemalloc_engine *e, const struct flmem_new_thread *thread,
			  const char *seen_path, struct flmem_error *err)
{
	const struct flmem_borrow_options options = {
		.timeout_us = e->borrow.timeout_us,
		.stack_bytes = DUMP_STACK_BYTES,
		.syscalls = &flmem_cpython_syscalls_new_thread,
		.assume_seccomp = e->options->assume_seccomp,
	};
	const int pid = (int)e->target->process.pid;
	struct flmem_chain chain = {0};
	int rc = flmem_jemalloc_plan_dump(e->found, seen_path, e->area, sizeof(e->area), &chain,
					  err);

	if (!rc)
		rc = flmem_new_thread_run(&e->target->view, thread, &chain, &options, &e->run, err);
	e->writes_on = rc == FLMEM_EFAILED && e->run.started && !e->run.self_restored;
	if (e->writes_on)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the dump has not ended in time; thread %d of process %d "
				       "continues to write it",
				       (int)thread->tid, pid);
	/* If the results were late, the file shows the outcome. */
	if (rc && !(rc == FLMEM_EFAILED && e->run.self_restored))
		return rc;
	if (e->run.complete)
		e->result->took_us = FLMEM_KNOWN(e->run.call_ns[0] / 1000U);
	if (flmem_new_thread_await_end(&e->target->view, thread, DUMP_END_US))
		return 0;
	e->writes_on = true;
	return flmem_error_set(err, FLMEM_EFAILED, 0, "thread %d of process %d has not ended yet",
			       (int)thread->tid, pid);
}

static int write_dump_to(struct jemalloc_engine *e, const struct flmem_attached_file *file,
			 struct flmem_error *err)
{
	const struct flmem_view *view = &e->target->view;
	struct flmem_thread_functions functions;
	struct flmem_new_thread thread;
	struct flmem_borrow_options options = e->borrow;
	int rc = flmem_headroom_check_thread(view->process, DUMP_STACK_BYTES, err);

	options.syscalls = &flmem_cpython_syscalls_new_thread;
	options.repeatable = false; /* one thread makes the call once */
	if (!rc)
		rc = flmem_thread_functions_find(view, &functions, err);
	if (!rc)
		rc = flmem_new_thread_start(view, &functions, &options, &thread, err);
	if (rc)
		return rc;
	e->result->entry = "new thread";
	flmem_attached_add_stop(e->result, thread.stopped_ns / 1000U);
	rc = make_dump_call(e, &thread, file->seen_path, err);
	return rc ? rc : check_written_dump(e, file, err);
}

static int dump_samples(struct jemalloc_engine *e, struct flmem_error *err)
{
	FLMEM_AUTO_ATTACHED_FILE struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	struct flmem_profile_request request = {.output = e->options->profile.output,
						.force = e->options->profile.force,
						.limit_bytes = 1U << 20};
	int rc;

	if (e->state.has_dump_hook)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d has set experimental.hooks.prof_dump of "
				       "jemalloc: a dump would run that function of the program",
				       (int)e->target->process.pid);
	rc = flmem_attached_file_create(&e->target->process, &request, false, &file, err);
	if (!rc)
		rc = write_dump_to(e, &file, err);
	/* The name stays taken as long as the thread may open the file. */
	if (e->writes_on)
		flmem_attached_file_keep(&file);
	if (rc)
		return rc;
	snprintf(e->result->profile, sizeof(e->result->profile), "%s", file.path);
	flmem_attached_file_keep(&file);
	return 0;
}

static int attach_jemalloc(struct jemalloc_engine *e, struct flmem_error *err)
{
	if (e->state.active)
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"process %d is already sampled by its jemalloc (prof.active); "
			"end that with: flmem profile detach --engine jemalloc "
			"--pid %d",
			(int)e->target->process.pid, (int)e->target->process.pid);
	return switch_sampling(e, true, err);
}

static int detach_jemalloc(struct jemalloc_engine *e, struct flmem_error *err)
{
	int rc = 0;

	if (!e->state.active)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d is not sampled by its jemalloc (prof.active is "
				       "false)",
				       (int)e->target->process.pid);
	if (e->options->profile.output)
		rc = dump_samples(e, err);
	return rc ? rc : switch_sampling(e, false, err);
}

static int dry_run_engine(struct jemalloc_engine *e, struct flmem_error *err)
{
	int rc = flmem_borrow_dry_run(&e->target->view, &e->borrow, &e->run, err);

	take_engine_run(e);
	return rc;
}

int flmem_jemalloc_engine_run(struct flmem_target_inspection *target,
			      const struct flmem_attach_options *options, bool detach,
			      struct flmem_attach_result *result, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct jemalloc_engine *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return flmem_error_nomem(err, "cannot call the jemalloc of a process");
	e->target = target;
	e->options = options;
	e->result = result;
	e->borrow.timeout_us =
		options->timeout_us ? options->timeout_us : FLMEM_ATTACH_TIMEOUT_US_DEFAULT;
	e->borrow.repeatable = true;
	e->borrow.guard = &e->guard;
	e->borrow.syscalls = &e->syscalls;
	e->borrow.assume_seccomp = options->assume_seccomp;
	rc = find_serving_jemalloc(e, err);
	if (!rc)
		rc = check_engine_target(e, err);
	if (rc)
		return rc;
	if (options->dry_run)
		return dry_run_engine(e, err);
	rc = read_engine_state(e, err);
	if (rc)
		return rc;
	return detach ? detach_jemalloc(e, err) : attach_jemalloc(e, err);
}
