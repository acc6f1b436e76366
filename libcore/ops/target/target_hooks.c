/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/target_hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/module_search.h"
#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/libc.h"
#include "elf/modules.h"
#include "ops/target/changed_code.h"
#include "ops/target/target_guard.h"
#include "proc/maps.h"
#include "remote/code_change.h"
#include "remote/new_thread.h"

#define RUNS_MAX 600U /* most chains of calls: 4096 arenas, 15 at once, then 13 at once */

/*
 * Bytes to compare at the start of a function: a tool that redirects it by a jump overwrites its
 * first instructions.
 */
#define CODE_BYTES 16U
#define CODE_MAX   8192U

/*
 * Sets *ret_at to the first address that differs, or to the start of the function if it cannot be
 * read.
 */
static bool is_code_replaced(const struct flmem_view *view, const struct flmem_module *library,
			     const char *name, uint64_t *ret_at)
{
	struct flmem_image *image = flmem_module_image(library, NULL);
	unsigned char built[CODE_MAX], now[CODE_MAX];
	struct flmem_symbol symbol;
	size_t length;

	if (!image || !flmem_image_find_dynamic(image, name, &symbol))
		return false;
	/*
	 * Compare the whole function: a killed debugger may leave its breakpoints anywhere in it.
	 */
	length = symbol.size < sizeof(built) ? (size_t)symbol.size : sizeof(built);
	length = length > CODE_BYTES ? length : CODE_BYTES;
	if (!flmem_image_read_address(image, symbol.value, built, length) ||
	    !flmem_module_address(library, symbol.value, ret_at))
		return false;
	if (flmem_process_read_memory(view->process, *ret_at, now, length))
		return true;
	return flmem_code_differs(built, now, length, ret_at);
}

/*
 * Functions that return memory to the kernel. Libraries for fast networks keep memory registered
 * with a device, and replace the code of these functions of the C library by a jump to their own,
 * which take locks. Allocators call these functions, too: malloc_trim(), for example, calls
 * madvise().
 */
static const char *const release_functions[] = {
	"madvise", "munmap", "mmap", "mprotect", "brk", "sbrk", "malloc_trim", NULL,
};

/* Functions that start a thread; tools that follow the threads of a program replace them. */
static const char *const start_functions[] = {
	"pthread_create",
	"pthread_attr_init",
	"pthread_attr_setdetachstate",
	"pthread_attr_setstacksize",
	"sleep",
	NULL,
};

static int check_replaced_code(const struct flmem_view *view, const struct flmem_module *library,
			       const char *const *names, struct flmem_error *err)
{
	uint64_t at;

	for (size_t i = 0; library && names[i]; i++)
		if (is_code_replaced(view, library, names[i], &at))
			return flmem_error_set(
				err, FLMEM_EUNSUPPORTED, 0,
				"the code of %s() in the C library of process %d is not that of "
				"its file, and a borrowed thread must not run it: %s",
				names[i], (int)view->process->pid,
				flmem_code_change_cause(view, at));
	return 0;
}

/* Before glibc 2.34 some of the functions are in a second library. */
static int check_replaced_start(const struct flmem_view *view, struct flmem_error *err)
{
	bool is_glibc;
	const struct flmem_module *library = flmem_libc_module(view->modules, &is_glibc);
	const struct flmem_module *threads =
		library ? flmem_thread_library(view->modules, library) : NULL;
	int rc = check_replaced_code(view, library, start_functions, err);

	if (!rc && threads != library)
		rc = check_replaced_code(view, threads, start_functions, err);
	return rc;
}

/* Returns the module whose function of this name an allocator calls; NULL if it calls none. */
static const struct flmem_module *
find_called(const struct flmem_view *view, const struct flmem_module *allocator, const char *name)
{
	const struct flmem_module *bound = flmem_module_got_target(allocator, name);
	struct flmem_image *image = flmem_module_image(allocator, NULL);
	struct flmem_symbol symbol;

	if (bound || !image || !flmem_image_find_import(image, name, &symbol))
		return bound;
	return flmem_modules_lookup(view->modules, name, NULL);
}

/*
 * Checks the functions that an allocator other than the C library's calls by name: a preloaded
 * library may have its own, which take locks. munmap() and mmap() of flmem's sampler take no lock
 * of the program.
 */
static int check_preloaded(const struct flmem_view *view, const struct flmem_allocator *found,
			   const struct flmem_module *library, struct flmem_error *err)
{
	static const char *const names[] = {"madvise", "mprotect"};

	if (!found->module || found->module == library)
		return 0;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		const struct flmem_module *called = find_called(view, found->module, names[i]);

		if (called && called != library && called != found->module)
			return flmem_error_set(
				err, FLMEM_EUNSUPPORTED, 0,
				"the %s of process %d calls %s() of '%s', which a borrowed "
				"thread must not run",
				flmem_allocator_name(found->ops->kind), (int)view->process->pid,
				names[i], called->path);
	}
	return 0;
}

static int query_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
		       const struct flmem_borrow_options *options, uint64_t *stopped_us,
		       struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_borrow_result *run = calloc(1, sizeof(*run));
	uint64_t next = 0;

	if (!run)
		return flmem_error_nomem(err, "cannot read the hooks of the allocator");
	for (unsigned i = 0; i < RUNS_MAX; i++) {
		struct flmem_chain chain = {.timed_as_one = true};
		uint64_t at = found->ops->plan_hooks(found, next, &chain);
		int rc;

		if (!chain.count)
			return 0;
		rc = flmem_borrow_run(view, &chain, options, run, err);
		*stopped_us += run->stopped_ns / 1000U;
		if (!rc)
			rc = found->ops->take_hooks(view, found, run->data + at, &next, err);
		if (rc || !next)
			return rc;
	}
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the hooks of the %s of process %d could not be read to the end",
			       flmem_allocator_name(found->ops->kind), (int)view->process->pid);
}

static int refuse_malloc(const struct flmem_view *view, const struct flmem_module *module,
			 const char *what, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "%s process %d calls malloc() of '%s', which flmem does not know: "
			       "it could wait for a lock that the borrowed thread holds, or know "
			       "no other thread",
			       what, (int)view->process->pid, module->path);
}

/*
 * Checks malloc() for calls that allocate: an allocator of the program, or a library around one,
 * would run on the borrowed thread, and a program without threads may have one without locks.
 */
static int check_known_malloc(const struct flmem_view *view,
			      const struct flmem_allocator_list *list, const char *what,
			      struct flmem_error *err)
{
	/* The dynamic linker calls this malloc() for a new thread. */
	const struct flmem_module *linkers = flmem_modules_find_malloc(view->modules);
	int rc = 0;

	for (size_t i = 0; i < list->count && !rc; i++) {
		const struct flmem_allocator *found = &list->rows[i];

		if (linkers && found->module == linkers)
			linkers = NULL;
		if (found->serves_malloc && found->ops->kind == FLMEM_ALLOCATOR_UNKNOWN)
			return refuse_malloc(view, found->module, what, err);
		if (found->ops->check_malloc_hooks)
			rc = found->ops->check_malloc_hooks(view, found, err);
	}
	return rc || !linkers ? rc : refuse_malloc(view, linkers, what, err);
}

/*
 * Checks an allocator other than that of malloc(): at its first call in a thread it may set up data
 * of the thread, for which the C library allocates (pthread_setspecific(), __tls_get_addr()).
 */
static int check_own_data(const struct flmem_view *view, const struct flmem_allocator_list *list,
			  const struct flmem_allocator *found, struct flmem_error *err)
{
	char what[64];

	if (found->serves_malloc || found->ops->kind == FLMEM_ALLOCATOR_GLIBC)
		return 0;
	snprintf(what, sizeof(what), "calling the %s of", flmem_allocator_name(found->ops->kind));
	return check_known_malloc(view, list, what, err);
}

static int check_release_code(const struct flmem_view *view, const struct flmem_allocator *found,
			      const struct flmem_module *library, struct flmem_error *err)
{
	int rc = check_replaced_code(view, library, release_functions, err);

	if (!rc && library)
		rc = flmem_changed_code_check(view, library, true, err);
	if (!rc && found->module && found->module != library)
		rc = flmem_changed_code_check(view, found->module, false, err);
	return rc;
}

int flmem_target_hooks_check(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     const struct flmem_allocator *found,
			     const struct flmem_borrow_options *options, uint64_t *stopped_us,
			     struct flmem_error *err)
{
	bool is_glibc;
	const struct flmem_module *library = flmem_libc_module(view->modules, &is_glibc);
	int rc = check_release_code(view, found, library, err);

	if (library && !rc)
		rc = check_preloaded(view, found, library, err);
	if (!rc)
		rc = check_own_data(view, list, found, err);
	if (!rc && found->ops->check_hooks)
		rc = found->ops->check_hooks(view, found, err);
	if (rc || !options || !found->ops->plan_hooks)
		return rc;
	return query_hooks(view, found, options, stopped_us, err);
}

int flmem_target_hooks_check_all(const struct flmem_view *view,
				 const struct flmem_allocator_list *list,
				 const struct flmem_borrow_options *options, uint64_t *stopped_us,
				 struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < list->count && !rc; i++)
		if (flmem_target_guard_trims(view, &list->rows[i]))
			rc = flmem_target_hooks_check(view, list, &list->rows[i], options,
						      stopped_us, err);
	return rc;
}

static int check_start_functions(const struct flmem_view *view,
				 const struct flmem_allocator_list *list, struct flmem_error *err)
{
	const struct flmem_module *linker = flmem_modules_linker(view->modules), *library;
	struct flmem_cpython python;
	bool is_glibc;
	int rc = check_known_malloc(view, list, "starting a thread in", err);

	if (!rc && flmem_cpython_find(view, &python))
		rc = flmem_changed_code_check(view, python.module, false, err);
	/*
	 * Debuggers set a breakpoint in the dynamic linker to detect libraries, whatever their user
	 * requests.
	 */
	if (!rc && linker)
		rc = flmem_changed_code_check(view, linker, false, err);
	if (!rc)
		rc = check_replaced_start(view, err);
	/* Python code reaches any function of it; a release of memory does not. */
	library = flmem_libc_module(view->modules, &is_glibc);
	if (!rc && library && library != linker)
		rc = flmem_changed_code_check(view, library, false, err);
	return rc;
}

static int recheck_hooks(const struct flmem_view *view, const struct flmem_allocator_list *list,
			 struct flmem_guard *guard, bool starts_thread, struct flmem_error *err)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	const struct flmem_view now = {view->process, &maps, view->modules};
	uint64_t unused;
	int rc = flmem_maps_read(now.process, &maps, err);

	if (!rc)
		rc = flmem_target_guard_renew(&now, list, guard, err);
	if (!rc)
		rc = flmem_target_guard_check(&now, list, !guard->is_for_report, err);
	if (!rc && starts_thread)
		rc = check_start_functions(&now, list, err);
	return rc ? rc : flmem_target_hooks_check_all(&now, list, NULL, &unused, err);
}

int flmem_target_hooks_recheck(const struct flmem_view *view,
			       const struct flmem_allocator_list *list, struct flmem_guard *guard,
			       struct flmem_error *err)
{
	return recheck_hooks(view, list, guard, false, err);
}

int flmem_target_hooks_recheck_start(void *context, struct flmem_error *err)
{
	const struct flmem_target_start *start = context;

	return recheck_hooks(start->view, start->list, start->guard, true, err);
}

struct hooks_start {
	struct flmem_borrow_options borrow;
	struct flmem_syscall_list syscalls;
};

int flmem_target_hooks_check_start(const struct flmem_view *view,
				   const struct flmem_allocator_list *list,
				   const struct flmem_cpython_call *call, uint64_t *stopped_us,
				   struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct hooks_start *start = calloc(1, sizeof(*start));
	int rc = check_start_functions(view, list, err);

	if (rc)
		return rc;
	if (!start)
		return flmem_error_nomem(err, "cannot read the hooks of the allocators");
	start->borrow = (struct flmem_borrow_options){
		.timeout_us = call->timeout_us,
		.single_pass = true,
		.repeatable = true,
		.guard = call->guard,
		.syscalls = &start->syscalls,
		.assume_seccomp = call->assume_seccomp,
	};
	flmem_target_guard_syscalls(view, list, &start->syscalls);
	rc = flmem_target_hooks_check_all(view, list, call->dry_run ? NULL : &start->borrow,
					  stopped_us, err);
	if (rc != FLMEM_EUNSAFE)
		return rc;
	flmem_error_clear(err);
	return 0;
}
