/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches the sampler to a process and detaches it. A thread that is started as for a trim with
 * Python code loads the library; another one passes an order to the library, which does the rest.
 * No Python code is run, and the lock of the interpreter is not taken.
 */

#include <flmem/attach.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/module_search.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "elf/libc.h"
#include "ops/profile/attached.h"
#include "ops/profile/fork_gate.h"
#include "ops/profile/jemalloc_engine.h"
#include "ops/profile/prepare.h"
#include "ops/profile/socket_requests.h"
#include "ops/target/target_guard.h"
#include "ops/target/target_hooks.h"
#include "preload/profile_format.h"
#include "remote/checks/candidates.h"
#include "runtimes/cpython_call.h"
#include "runtimes/cpython_script.h"
#include "runtimes/cpython_state.h"
#include "settings/preload.h"

#define LIBRARY_MAX (4U << 20)

/*
 * All data of one attempt, which is abandoned if a read of the process is never answered
 * (base/attempt.h).
 */
struct attach_attempt {
	pid_t pid;
	bool detach;
	struct flmem_attach_options options;
	char output[FLMEM_ATTACH_PATH_MAX];
	struct flmem_attach_result result;
};

static void take_attach_call(const struct flmem_cpython_result *run, uint64_t hooks_us,
			     struct flmem_attach_result *result)
{
	result->entry = run->entry ? flmem_cpython_entry_name(run->entry) : NULL;
	result->thread = run->tid;
	snprintf(result->thread_state, sizeof(result->thread_state), "%s",
		 run->waited_in ? run->waited_in : "");
	flmem_attached_add_stop(result, hooks_us);
	flmem_attached_add_stop(result, run->stopped_us);
	if (run->complete)
		result->took_us = FLMEM_KNOWN(flmem_u64_or(result->took_us, 0) + run->took_us);
}

/*
 * Calls a function in a new thread of the process, without the lock of the interpreter: a thread
 * that waits for that lock may hold the lock of the dynamic linker.
 */
static int run_attach_call(struct attach_attempt *attempt, struct flmem_target_inspection *target,
			   const struct flmem_cpython_function *function, struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_RESULT struct flmem_cpython_result run = {0};
	FLMEM_AUTO_FREE struct flmem_guard *guard =
		flmem_target_guard_new(&target->view, &target->allocators);
	const struct flmem_attach_options *options = &attempt->options;
	struct flmem_target_start start = {&target->view, &target->allocators, guard};
	uint64_t checked_us = flmem_clock_us();
	const struct flmem_cpython_call call = {
		.recheck = flmem_target_hooks_recheck_start,
		.rechecker = &start,
		.checked_us = &checked_us,
		.function = *function,
		.syscalls = &flmem_attached_syscalls,
		.guard = guard,
		.timeout_us =
			options->timeout_us ? options->timeout_us : FLMEM_ATTACH_TIMEOUT_US_DEFAULT,
		.assume_seccomp = options->assume_seccomp,
		.dry_run = options->dry_run,
	};
	uint64_t hooks_us = 0;
	int rc;

	if (!guard)
		return flmem_error_nomem(err, "cannot attach to a process");
	rc = flmem_target_guard_check(&target->view, &target->allocators, true, err);
	if (!rc)
		rc = flmem_target_hooks_check_start(&target->view, &target->allocators, &call,
						    &hooks_us, err);
	if (!rc)
		rc = flmem_cpython_call(&target->view, &call, &run, err);
	take_attach_call(&run, hooks_us, &attempt->result);
	return rc;
}

/* Reads the current state of the sampler. */
static int renew_attached(struct flmem_target_inspection *target,
			  struct flmem_attached *ret_attached, struct flmem_error *err)
{
	int rc = flmem_target_inspection_renew(target, err);

	return rc ? rc : flmem_attached_read(target, ret_attached, err);
}

/* Evaluates the answer to an order. If it was late, the state shows what was done. */
static int take_attach_answer(const struct attach_attempt *attempt,
			      struct flmem_target_inspection *target, const char *order,
			      const char *answer, struct flmem_error *err)
{
	static const char refused[] = FLMEM_SAMPLER_REFUSED;
	struct flmem_attached now = {0};
	bool is_done = flmem_text_starts(answer, FLMEM_SAMPLER_DONE);

	if (flmem_text_starts(answer, refused))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0, "process %d: %s", (int)attempt->pid,
				       answer + sizeof(refused) - 1);
	if (!is_done && !renew_attached(target, &now, NULL))
		is_done = attempt->detach
				  ? now.state.phase == FLMEM_SAMPLER_IDLE
				  : now.state.phase == FLMEM_SAMPLER_SAMPLING &&
					    strcmp(now.state.path,
						   order + strlen(FLMEM_SAMPLER_ORDER_ATTACH)) == 0;
	if (is_done)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "it is unknown what the sampler of process %d did: its answer was "
			       "lost",
			       (int)attempt->pid);
}

static int send_order(struct attach_attempt *attempt, struct flmem_target_inspection *target,
		      const struct flmem_attached *attached, const char *order,
		      struct flmem_error *err)
{
	char answer[FLMEM_SAMPLER_ANSWER_MAX] = "", shown[FLMEM_SAMPLER_ANSWER_MAX];
	struct flmem_cpython_function function = {
		.name = FLMEM_SAMPLER_ORDER_SYMBOL,
		.text = order,
		.answer = answer,
		.answer_size = sizeof(answer),
	};
	int rc;

	if (!flmem_module_is_sampler(attached->module) ||
	    !flmem_module_symbol(attached->module, FLMEM_SAMPLER_ORDER_SYMBOL, &function.address))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d has loaded a sampler of another version of "
				       "flmem; use that version, or restart the process",
				       (int)attempt->pid);
	rc = flmem_attached_check_loaded(&target->process, attached, err);
	if (!rc)
		rc = run_attach_call(attempt, target, &function, err);
	if (rc == FLMEM_EFAILED && attempt->detach && !attempt->options.dry_run)
		return flmem_attached_explain_detach(rc, attempt->pid, err);
	if (rc || attempt->options.dry_run)
		return rc;
	answer[sizeof(answer) - 1] = '\0';
	flmem_text_escape(answer, shown, sizeof(shown));
	return take_attach_answer(attempt, target, order, shown, err);
}

static int read_own_library(struct flmem_buf *library, struct flmem_error *err)
{
	char path[FLMEM_PRELOAD_PATH_MAX];
	int rc = flmem_preload_find_own(FLMEM_SAMPLER_READY_LIBRARY, path, err);

	if (rc)
		return rc;
	rc = flmem_io_read_file_at(-1, path, LIBRARY_MAX, library);
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot read '%s'", path) : 0;
}

/*
 * Refuses to detach the sampler of `profile run`, which samples any program, from a process without
 * CPython.
 */
static int refuse_detach(const struct attach_attempt *attempt,
			 const struct flmem_target_inspection *target, struct flmem_error *err)
{
	if (flmem_cpython_find(&target->view, &(struct flmem_cpython){0}))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "process %d has no CPython, in which a thread could be started to "
			       "detach: it is sampled until it ends; its profile can be read and "
			       "copied meanwhile",
			       (int)attempt->pid);
}

/*
 * Checks that the process can be sampled. The sampler reads frames under the lock of the
 * interpreter, and a profile needs that lock to be known.
 */
static int check_attachable(const struct attach_attempt *attempt,
			    const struct flmem_target_inspection *target,
			    const struct flmem_attached *attached, struct flmem_error *err)
{
	struct flmem_cpython python;
	int rc;

	if (attached->state.phase != FLMEM_SAMPLER_IDLE)
		return flmem_attached_refuse_sampled(
			&target->process, attached,
			flmem_cpython_find(&target->view, &(struct flmem_cpython){0}), err);
	if (!flmem_cpython_find(&target->view, &python))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d has no CPython, through which the sampler is "
				       "loaded; start the program with flmem profile run",
				       (int)attempt->pid);
	if (!flmem_modules_lookup(&target->modules, "gnu_get_libc_version", NULL))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d is not linked with glibc, for which the sampler "
				       "is built",
				       (int)attempt->pid);
	if (flmem_cpython_is_free_threaded(&target->view, &python))
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"the Python of process %d is free-threaded, which the sampler "
			"does not support",
			(int)attempt->pid);
	rc = flmem_attached_threads_check(&target->process, err);
	return rc ? rc
		  : flmem_attached_room_check(&target->process,
					      attempt->options.profile.limit_bytes, err);
}

/* Finds a function of the C library itself, never that of a library which precedes it. */
static bool find_library_function(const struct flmem_modules *modules, const char *name,
				  uint64_t *ret_address)
{
	bool is_glibc;
	const struct flmem_module *library = flmem_libc_module(modules, &is_glibc);

	if (library && flmem_module_symbol_any(library, name, ret_address))
		return true;
	/* Before glibc 2.34, dlopen() is in a second library. */
	for (size_t i = 0; i < modules->rank_count; i++) {
		const struct flmem_module *module = modules->by_rank[i];

		if (flmem_text_starts(flmem_text_basename(module->path), "libdl") &&
		    flmem_module_symbol_any(module, name, ret_address))
			return true;
	}
	return false;
}

struct attach_caller {
	struct attach_attempt *attempt;
	struct flmem_target_inspection *target;
};

static int call_for_gate(void *context, const struct flmem_cpython_function *function,
			 struct flmem_error *err)
{
	const struct attach_caller *caller = context;

	return run_attach_call(caller->attempt, caller->target, function, err);
}

/*
 * Loads the sampler with RTLD_GLOBAL: libraries that are loaded later find a function of the
 * sampler, which they call when they begin.
 */
static int load_sampler(struct attach_attempt *attempt, struct flmem_target_inspection *target,
			const char *path, struct flmem_attached *attached, struct flmem_error *err)
{
	struct flmem_cpython_function function = {.name = "dlopen",
						  .text = path,
						  .number = RTLD_NOW | RTLD_GLOBAL,
						  .then_name = "unlink"};
	struct attach_caller caller = {attempt, target};
	struct flmem_fork_gate gate = {.target = target};
	int rc = 0;

	if (!attempt->options.dry_run) {
		rc = flmem_fork_gate_make(&gate, call_for_gate, &caller, err);
		if (!rc)
			rc = renew_attached(target, attached, err);
		function.begin = flmem_fork_gate_close;
		function.end = flmem_fork_gate_open;
		function.context = &gate;
	}
	if (rc || attached->module) /* another flmem may have loaded it meanwhile */
		return rc;
	if (!find_library_function(&target->modules, "dlopen", &function.address) ||
	    !find_library_function(&target->modules, "unlink", &function.then))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the C library of process %d exports no dlopen()",
				       (int)attempt->pid);
	rc = run_attach_call(attempt, target, &function, err);
	if (rc || attempt->options.dry_run)
		return rc;
	rc = renew_attached(target, attached, err);
	if (rc || attached->module)
		return rc;
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the dynamic linker of process %d did not load the sampler: a "
			       "policy forbids it, or memory, a free descriptor (ulimit -n) or "
			       "space for thread-local data is lacking",
			       (int)attempt->pid);
}

/*
 * Loads the sampler from a file in the file system of the process, which exists only for the load.
 */
static int load_new_sampler(struct attach_attempt *attempt, struct flmem_target_inspection *target,
			    struct flmem_attached *attached, struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_SCRIPT struct flmem_cpython_script file = FLMEM_CPYTHON_SCRIPT_INIT;
	FLMEM_AUTO_BUF struct flmem_buf library = FLMEM_BUF_INIT;
	unsigned char number[FLMEM_CPYTHON_COOKIE];
	uint64_t unique;
	char path[FLMEM_ATTACH_PATH_MAX];
	int rc = read_own_library(&library, err);

	if (!rc)
		rc = flmem_cpython_cookie_make(number, err);
	if (rc)
		return rc;
	memcpy(&unique, number, sizeof(unique));
	if (!attempt->options.dry_run) {
		rc = flmem_cpython_script_write_library(&target->process, unique, library.data,
							library.length, &file, err);
		if (rc)
			return rc;
	}
	snprintf(path, sizeof(path), "%s/%s", file.path ? file.path : "", file.name);
	return load_sampler(attempt, target, path, attached, err);
}

static int send_attach(struct attach_attempt *attempt, struct flmem_target_inspection *target,
		       const struct flmem_attached *there, const char *profile,
		       struct flmem_error *err)
{
	char order[FLMEM_SAMPLER_STATE_PATH + 16];
	struct flmem_attached attached = *there;
	int rc = attached.module ? 0 : load_new_sampler(attempt, target, &attached, err);

	snprintf(order, sizeof(order), FLMEM_SAMPLER_ORDER_ATTACH "%s", profile);
	/* A dry run loads nothing, so there is nothing more to check. */
	if (rc || !attached.module)
		return rc;
	return send_order(attempt, target, &attached, order, err);
}

/* Reads what the sampler did; a failure to read it does not change the result. */
static void read_attached_result(struct attach_attempt *attempt,
				 struct flmem_target_inspection *target)
{
	struct flmem_attached attached = {0};

	if (!flmem_target_inspection_renew(target, NULL) &&
	    !flmem_attached_read(target, &attached, NULL) && attached.module)
		flmem_attached_take(&attached, &attempt->result);
}

static int plan_attach(struct attach_attempt *attempt, struct flmem_target_inspection *target,
		       const struct flmem_attached *attached, struct flmem_error *err)
{
	const struct flmem_profile_request *profile = &attempt->options.profile;
	int rc = profile->output ? flmem_attached_file_check(&target->process, profile, err) : 0;

	return rc ? rc : send_attach(attempt, target, attached, "", err);
}

static int attach_inspected(struct attach_attempt *attempt, struct flmem_target_inspection *target,
			    const struct flmem_attached *attached, struct flmem_error *err)
{
	FLMEM_AUTO_ATTACHED_FILE struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	int rc = check_attachable(attempt, target, attached, err);

	attempt->result.loaded_by = flmem_attached_loaded_by(attached);
	if (!rc && attempt->options.dry_run)
		return plan_attach(attempt, target, attached, err);
	if (!rc)
		rc = flmem_attached_file_create(&target->process, &attempt->options.profile, true,
						&file, err);
	if (!rc)
		rc = send_attach(attempt, target, attached, file.seen_path, err);
	/*
	 * On failure the file is removed: without it the sampler refuses, even if its code runs
	 * late.
	 */
	if (rc)
		return rc;
	snprintf(attempt->result.profile, sizeof(attempt->result.profile), "%s", file.path);
	flmem_attached_file_keep(&file);
	read_attached_result(attempt, target);
	return 0;
}

static int detach_inspected(struct attach_attempt *attempt, struct flmem_target_inspection *target,
			    const struct flmem_attached *attached, struct flmem_error *err)
{
	const struct flmem_process *process = &target->process;
	FLMEM_AUTO_ATTACHED_PROFILE struct flmem_attached_profile profile = {
		.view = FLMEM_ATTACHED_VIEW_INIT};
	int rc;

	if (!attached->module || attached->state.phase == FLMEM_SAMPLER_IDLE)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "process %d is not sampled",
				       (int)attempt->pid);
	flmem_attached_profile_open(process, attached->state.path, &profile);
	flmem_attached_profile_name(process, &profile, attempt->result.profile,
				    sizeof(attempt->result.profile));
	attempt->result.deleted = flmem_attached_profile_is_elsewhere(process, &profile);
	flmem_attached_take(attached, &attempt->result);
	rc = refuse_detach(attempt, target, err);
	if (!rc)
		rc = send_order(attempt, target, attached, FLMEM_SAMPLER_ORDER_DETACH, err);
	if (!rc && !attempt->options.dry_run)
		attempt->result.deleted |= flmem_attached_profile_has_left(process, &profile);
	return rc;
}

static int run_attach_on(struct attach_attempt *attempt, struct flmem_target_inspection *target,
			 struct flmem_error *err)
{
	struct flmem_attached attached = {0};
	bool is_done = false;
	int rc = 0;

	if (attempt->options.engine == FLMEM_ATTACH_SAMPLER)
		rc = flmem_socket_requests_run(attempt->pid, &attempt->options, attempt->detach,
					       &attempt->result, &is_done, err);
	if (rc || is_done)
		return rc;
	attempt->result.way = FLMEM_ATTACH_BY_TRACING;
	rc = flmem_target_guard_open(target, attempt->pid, 0, err);
	if (rc == FLMEM_EPERM && attempt->result.no_socket[0])
		return flmem_error_prefix(err, rc,
					  "not through its socket (%s), and not by "
					  "tracing it",
					  attempt->result.no_socket);
	if (!rc && flmem_modules_are_loading(&target->modules))
		rc = flmem_error_set(err, FLMEM_EUNSAFE, 0,
				     "process %d is loading libraries; try again",
				     (int)attempt->pid);
	if (!rc && attempt->options.engine == FLMEM_ATTACH_JEMALLOC)
		return flmem_jemalloc_engine_run(target, &attempt->options, attempt->detach,
						 &attempt->result, err);
	if (!rc)
		rc = flmem_attached_read(target, &attached, err);
	if (rc)
		return rc;
	flmem_attached_explain_socket(target, &attached, &attempt->result);
	return attempt->detach ? detach_inspected(attempt, target, &attached, err)
			       : attach_inspected(attempt, target, &attached, err);
}

static int run_attach_attempt(void *context, struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *target =
		flmem_target_inspection_new(err);
	int rc;

	if (!target)
		return FLMEM_EFAILED;
	rc = run_attach_on(context, target, err);
	return flmem_process_failure(&target->process, rc, err);
}

#define WAY_ROW(name, text) [FLMEM_ATTACH_BY_##name] = (text),
static const char *const way_names[] = {FLMEM_ATTACH_WAYS(WAY_ROW)};
#undef WAY_ROW

const char *flmem_attach_way_name(enum flmem_attach_way way)
{
	return way_names[way];
}

#define NAME_ROW(name, text) [FLMEM_ATTACH_##name] = (text),
static const char *const engine_names[] = {FLMEM_ATTACH_ENGINES(NAME_ROW)};
#undef NAME_ROW

const char *flmem_attach_engine_name(enum flmem_attach_engine engine)
{
	return engine_names[engine];
}

static void init_attach_result(pid_t pid, enum flmem_attach_engine engine,
			       struct flmem_attach_result *result)
{
	static const char *const none = "nothing was called";

	*result = (struct flmem_attach_result){
		.pid = pid,
		.engine = engine,
		.stopped_us = FLMEM_UNKNOWN(none),
		.longest_stop_us = FLMEM_UNKNOWN(none),
		.took_us = FLMEM_UNKNOWN(none),
	};
}

static int attempt_attach(pid_t pid, const struct flmem_attach_options *options, bool detach,
			  struct flmem_attach_result *ret_result, struct flmem_error *err)
{
	const struct flmem_attempt how = {
		.run = run_attach_attempt, .release = free, .subject = pid};
	FLMEM_AUTO_FREE struct attach_attempt *attempt = calloc(1, sizeof(*attempt));
	bool lost = false;
	int rc;

	if (!attempt)
		return flmem_error_nomem(err, "cannot attach to a process");
	attempt->pid = pid;
	attempt->detach = detach;
	attempt->options = *options;
	init_attach_result(pid, options->engine, &attempt->result);
	if (options->profile.output) {
		if (strlen(options->profile.output) >= sizeof(attempt->output))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "the path of the profile is too long");
		memcpy(attempt->output, options->profile.output,
		       strlen(options->profile.output) + 1);
		attempt->options.profile.output = attempt->output;
	}
	rc = flmem_attempt_run(&how, attempt, &lost, err);
	if (lost) {
		(void)FLMEM_TAKE(attempt);
		return detach ? flmem_attached_explain_detach(rc, pid, err)
			      : flmem_error_prefix(err, rc, "process %d is not touched", (int)pid);
	}
	*ret_result = attempt->result;
	return rc;
}

static int finish_attach(int rc, struct flmem_attach_result *result, const struct flmem_error *err)
{
	result->code = rc;
	if (rc)
		snprintf(result->reason, sizeof(result->reason), "%s", err->message);
	return rc;
}

int flmem_profile_attach(pid_t pid, const struct flmem_attach_options *options,
			 struct flmem_attach_result *ret_result, struct flmem_error *err)
{
	struct flmem_error local = {0};
	int rc;

	if (!err)
		err = &local;
	init_attach_result(pid, options->engine, ret_result);
	rc = options->engine == FLMEM_ATTACH_JEMALLOC
		     ? flmem_jemalloc_engine_check(&options->profile, err)
		     : flmem_profile_sizes_check(&options->profile, err);
	if (!rc && options->engine == FLMEM_ATTACH_SAMPLER && !options->profile.output &&
	    !options->dry_run)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "name the profile to write with --output FILE");
	if (!rc)
		rc = attempt_attach(pid, options, false, ret_result, err);
	return finish_attach(rc, ret_result, err);
}

int flmem_profile_detach(pid_t pid, const struct flmem_attach_options *options,
			 struct flmem_attach_result *ret_result, struct flmem_error *err)
{
	struct flmem_error local = {0};
	int rc;

	if (!err)
		err = &local;
	init_attach_result(pid, options->engine, ret_result);
	if (options->engine == FLMEM_ATTACH_SAMPLER && options->profile.output)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "--output of detach is the dump of --engine jemalloc; the "
				     "profile of the sampler was named when it was attached");
	else
		rc = attempt_attach(pid, options, true, ret_result, err);
	return finish_attach(rc, ret_result, err);
}
