/* SPDX-License-Identifier: Apache-2.0 */
/* Tests breakpoints that a debugger has left in the code of a process. */
#include "borrowed.h"
#include "capabilities.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "allocators/allocator_registry.h"
#include "elf/libc.h"
#include "ops/target/changed_code.h"
#include "ops/target/target_hooks.h"
#include "remote/chain_code.h"

static pid_t child;
static struct target target;
static const struct flmem_module *library;
static struct flmem_error err;

static void be_idle(void)
{
	for (;;)
		pause();
}

static int start(void **state)
{
	bool is_glibc;

	(void)state;
	child = child_start(be_idle);
	target_open(child, &target);
	library = flmem_libc_module(&target.modules, &is_glibc);
	return library ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	target_close(&target);
	child_end(child);
	return 0;
}

/* What the kernel lists as its probes; NULL: only root may read it. */
static const char *probes;

int openat(int directory, const char *path, int flags, ...)
{
	int fd;

	if (!strstr(path, "/uprobe_events"))
		return (int)syscall(SYS_openat, directory, path, flags, 0);
	if (!probes) {
		errno = EACCES;
		return -1;
	}
	fd = memfd_create("probes", MFD_CLOEXEC);
	assert_int_equal(pwrite(fd, probes, strlen(probes), 0), strlen(probes));
	return fd;
}

static void put_code(uint64_t address, const void *code, size_t length)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)child);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, code, length, (off_t)address), length);
	close(fd);
}

/* Runs the check, and the one that a trim makes, while a breakpoint is set. */
static int check_with_breakpoint(const unsigned char *at)
{
	const unsigned char breakpoint = 0xcc, own = *at;
	int rc;

	assert_int_not_equal(own, breakpoint);
	err = (struct flmem_error){0};
	put_code((uintptr_t)at, &breakpoint, 1);
	rc = flmem_changed_code_check(&target.view, library, true, &err);
	put_code((uintptr_t)at, &own, 1);
	assert_int_equal(flmem_changed_code_check(&target.view, library, true, NULL), 0);
	return rc;
}

/*
 * The test and its child have the library at the same place. A sanitizer replaces some functions.
 */
static const unsigned char *function(const char *name)
{
	void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	const void *found = handle ? dlsym(handle, name) : NULL;

	assert_non_null(found);
	dlclose(handle);
	return found;
}

static void a_breakpoint_inside_of_what_a_trim_runs_is_refused(void **state)
{
	static const char *const names[] = {"malloc_trim", "madvise", "sbrk", "__sbrk", "brk"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		assert_int_equal(check_with_breakpoint(function(names[i]) + 20),
				 FLMEM_EUNSUPPORTED);
		assert_non_null(strstr(err.message, "breakpoint"));
		assert_non_null(strstr(err.message, names[i] + 2 * (names[i][0] == '_')));
	}
}

/* Tools measure in functions by probes of the kernel. */
static void one_in_another_function_is_accepted(void **state)
{
	(void)state;
	assert_int_equal(check_with_breakpoint(function("malloc")), 0);
	assert_int_equal(check_with_breakpoint(function("getaddrinfo") + 20), 0);
}

/* The refusal of one inside of malloc_trim(), if the kernel lists one that begins like this. */
static void expect_cause(const char *probe, uint64_t shift, const char *cause)
{
	const unsigned char *at = function("malloc_trim") + 20;
	const struct flmem_map *map = flmem_maps_find(&target.maps, (uintptr_t)at);
	const uint64_t offset = map->offset + ((uintptr_t)at - map->start) + shift;
	char text[512];

	snprintf(text, sizeof(text), "p:a/b /usr/bin/c:0x0000000000000010\n%s:0x%016lx x=%%ax\n",
		 probe, (unsigned long)offset);
	probes = text;
	assert_int_equal(check_with_breakpoint(at), FLMEM_EUNSUPPORTED);
	probes = NULL;
	assert_non_null(strstr(err.message, cause));
}

static void a_probe_of_the_kernel_is_named(void **state)
{
	static const char probe[] = "a kernel probe is set there", may_be[] = "or a kernel probe";

	(void)state;
	expect_cause("p:a/b /lib/libc.so.6", 0, probe);
	expect_cause("r:a/b libc.so.6", 0, probe);
	expect_cause("p:a/b /lib/libc.so.6", 1, may_be);
	expect_cause("p:a/b /lib/mylibc.so.6", 0, may_be);
	expect_cause("p:a/b /lib/libc.so.7", 0, may_be);
	expect_cause("p:a/b 6", 0, may_be);
	expect_cause("p:a/b", 0, may_be);
}

static void other_code_is_no_probe(void **state)
{
	const unsigned char *at = function("malloc_trim") + 20, other = *at == 0x90 ? 0x91 : 0x90;

	(void)state;
	put_code((uintptr_t)at, &other, 1);
	assert_int_equal(flmem_changed_code_check(&target.view, library, true, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "it was changed since it was loaded"));
	assert_null(strstr(err.message, "probe"));
}

/*
 * An allocator that is not a C library is checked as a whole, except for functions that programs
 * call.
 */
static void an_allocator_is_checked_as_a_whole(void **state)
{
	const unsigned char breakpoint = 0xcc;

	(void)state;
	put_code((uintptr_t)function("malloc"), &breakpoint, 1);
	assert_int_equal(flmem_changed_code_check(&target.view, library, false, &err), 0);
	put_code((uintptr_t)function("getaddrinfo") + 20, &breakpoint, 1);
	assert_int_equal(flmem_changed_code_check(&target.view, library, false, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "getaddrinfo"));
}

/*
 * Returns the target of the first call in malloc_trim() that leads to no exported function; NULL:
 * none.
 */
static const unsigned char *nameless_function(void)
{
#ifdef __x86_64__
	const unsigned char *code = function("malloc_trim");

	for (size_t i = 0; i < 600; i++) {
		const unsigned char *to;
		int32_t relative;
		Dl_info info;

		memcpy(&relative, code + i + 1, sizeof(relative));
		to = code + i + 5 + relative;
		if (code[i] == 0xe8 && (uintptr_t)to > library->map->start &&
		    (uintptr_t)to < library->map->end && dladdr(to, &info) && !info.dli_sname)
			return to;
	}
#endif
	return NULL;
}

static void one_in_a_function_without_a_name_is_refused(void **state)
{
	const unsigned char *nameless = nameless_function();

	(void)state;
	if (!nameless) {
		print_message("SKIP: malloc_trim() calls no function without a name here\n");
		skip();
	}
	assert_int_equal(check_with_breakpoint(nameless + 4), FLMEM_EUNSUPPORTED);
}

/* Nobody sets so many breakpoints. */
static void code_that_is_changed_all_over_is_refused(void **state)
{
	const unsigned char breakpoint = 0xcc;

	(void)state;
	for (size_t i = 0; i < 64; i++)
		put_code((uintptr_t)function("getaddrinfo") + 20 + 2 * i, &breakpoint, 1);
	assert_int_equal(flmem_changed_code_check(&target.view, library, true, &err), 0);
	put_code((uintptr_t)function("getaddrinfo") + 20 + 128, &breakpoint, 1);
	assert_int_equal(flmem_changed_code_check(&target.view, library, true, &err),
			 FLMEM_EUNSUPPORTED);
}

static void a_trim_asks_for_it(void **state)
{
	const unsigned char breakpoint = 0xcc;
	struct flmem_allocator_list list = {0};
	uint64_t stopped_us = 0;
	int rc = 0;

	(void)state;
	flmem_allocators_find(&target.view, &list);
	assert_true(list.count > 0);
	assert_int_equal(flmem_target_hooks_check(&target.view, &list, &list.rows[0], NULL,
						  &stopped_us, NULL),
			 0);
	/* The place is after the bytes that a jump to another function overwrites. */
	put_code((uintptr_t)function("sleep") + 40, &breakpoint, 1);
	assert_int_equal(flmem_target_hooks_check(&target.view, &list, &list.rows[0], NULL,
						  &stopped_us, NULL),
			 0);
	put_code((uintptr_t)function("__lll_lock_wake_private") + 8, &breakpoint, 1);
	rc = flmem_target_hooks_check(&target.view, &list, &list.rows[0], NULL, &stopped_us, &err);
	assert_int_equal(rc, FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "lll_lock_wake_private"));
}

/* This holds for any function that a chain calls. */
static void a_function_that_is_called_is_compared_with_its_file(void **state)
{
	const unsigned char breakpoint = 0xcc, *called = function("dlopen");
	struct flmem_chain chain = {0};

	(void)state;
	flmem_chain_add(&chain, "getpid", (uintptr_t)function("getpid"));
	flmem_chain_add(&chain, "dlopen", (uintptr_t)called);
	assert_int_equal(flmem_chain_code_check(&target.view, &chain, &err), 0);
	put_code((uintptr_t)called - 1, &breakpoint, 1);
	put_code((uintptr_t)called + 256, &breakpoint, 1);
	assert_int_equal(flmem_chain_code_check(&target.view, &chain, &err), 0);
	put_code((uintptr_t)called + 20, &breakpoint, 1);
	assert_int_equal(flmem_chain_code_check(&target.view, &chain, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "the code of dlopen()"));
}

#ifdef __x86_64__
/* A debugger that has set a hardware breakpoint in the child, and is killed. */
static void be_debugger(void)
{
	const uint64_t at = (uintptr_t)function("getppid");
	const size_t registers = offsetof(struct user, u_debugreg);
	int status;

	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) ||
	    ptrace(PTRACE_INTERRUPT, child, NULL, NULL) ||
	    waitpid(child, &status, __WALL) != child ||
	    ptrace(PTRACE_POKEUSER, child, registers, at) ||
	    ptrace(PTRACE_POKEUSER, child, registers + 7 * sizeof(long), 1L))
		_exit(1);
	raise(SIGKILL);
}
#endif

/* The kernel leaves such breakpoints to the thread, which ends the program there. */
static void a_breakpoint_of_the_processor_is_refused(void **state)
{
#ifdef __x86_64__
	const struct flmem_borrow_options options = {.timeout_us = 1000000, .single_pass = true};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	pid_t debugger = child_start(be_debugger);
	int status;

	(void)state;
	assert_int_equal(waitpid(debugger, &status, 0), debugger);
	if (WIFEXITED(status)) {
		print_message("SKIP: this machine has no breakpoints of the processor\n");
		skip();
	}
	await_true(is_blocked_in(child, SYS_pause));
	flmem_chain_add(&chain, "getppid", (uintptr_t)function("getppid"));
	assert_int_equal(flmem_borrow_run(&target.view, &chain, &options, &result, &err),
			 FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "has breakpoints or watchpoints of the processor"));
	assert_int_equal(waitpid(child, &status, WNOHANG), 0);
#else
	(void)state;
	print_message("SKIP: how debuggers set them is known for x86-64 only\n");
	skip();
#endif
}

static void a_borrowed_thread_runs_no_such_function(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = 1000000, .single_pass = true};
	const unsigned char breakpoint = 0xcc, *called = function("getppid");
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};

	(void)state;
	flmem_chain_add(&chain, "getppid", (uintptr_t)called);
	put_code((uintptr_t)called + 4, &breakpoint, 1);
	assert_int_equal(flmem_borrow_run(&target.view, &chain, &options, &result, &err),
			 FLMEM_EUNSUPPORTED);
	if (!strstr(err.message, "the code of getppid()"))
		expect_borrowed(FLMEM_EUNSUPPORTED, &err);
	assert_int_equal(result.tid, 0);
}

#define INTERPRETER "/usr/bin/python3"

static int ends[2];

static void be_python(void)
{
	dup2(ends[1], STDOUT_FILENO);
	execl(INTERPRETER, INTERPRETER, "-c", "import time\nprint(flush=True)\ntime.sleep(1000)\n",
	      (char *)NULL);
}

static int start_python(void **state)
{
	char byte;

	(void)state;
	if (access(INTERPRETER, X_OK))
		return start(state);
	if (pipe(ends))
		return -1;
	child = child_start(be_python);
	if (read(ends[0], &byte, 1) != 1)
		return -1;
	pipe_close(ends);
	target_open(child, &target);
	return 0;
}

/* Checks whether a thread may be started, before and after a breakpoint is set there. */
static void expect_no_start_with_breakpoint(const struct flmem_module *module, const char *name,
					    uint64_t inside)
{
	const struct flmem_cpython_call call = {.timeout_us = 1000000, .dry_run = true};
	const unsigned char breakpoint = 0xcc;
	struct flmem_allocator_list list = {0};
	uint64_t stopped_us = 0, address;

	assert_non_null(module);
	assert_true(flmem_module_symbol_any(module, name, &address));
	flmem_allocators_find(&target.view, &list);
	assert_int_equal(
		flmem_target_hooks_check_start(&target.view, &list, &call, &stopped_us, NULL), 0);
	put_code(address + inside, &breakpoint, 1);
	assert_int_equal(
		flmem_target_hooks_check_start(&target.view, &list, &call, &stopped_us, &err),
		FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "breakpoint"));
	assert_non_null(strstr(err.message, module->path));
}

static void require_python(struct flmem_cpython *ret_python)
{
	if (!flmem_cpython_find(&target.view, ret_python)) {
		print_message("SKIP: there is no " INTERPRETER "\n");
		skip();
	}
}

/* All of Python is checked: the program would not continue if it reached the breakpoint itself. */
static void python_with_a_breakpoint_starts_no_thread(void **state)
{
	struct flmem_cpython python;

	(void)state;
	require_python(&python);
	expect_no_start_with_breakpoint(python.module, "PyGC_Collect", 30);
}

/* Also in a function that a trim does not run: Python code opens and writes files, for example. */
static void a_breakpoint_in_the_c_library_starts_no_thread(void **state)
{
	struct flmem_cpython python;
	bool is_glibc;

	(void)state;
	require_python(&python);
	expect_no_start_with_breakpoint(flmem_libc_module(&target.modules, &is_glibc), "pwrite64",
					4);
}

/* Every gdb that has continued a program has set some there. */
static void a_breakpoint_in_the_dynamic_linker_starts_no_thread(void **state)
{
	struct flmem_cpython python;

	(void)state;
	require_python(&python);
	expect_no_start_with_breakpoint(flmem_modules_linker(&target.modules), "__tls_get_addr", 8);
}

#define COPY "build_of_test_changed_code.so"

/* Drops the capabilities with which the file itself can be read. */
static void drop_capabilities(void)
{
	assert_true(capability_drop(CAP_SYS_ADMIN) && capability_drop(CAP_CHECKPOINT_RESTORE));
}

static void *updated; /* address of the test's function, which its child has at the same place */

static const struct flmem_module *gone_module(void)
{
	for (size_t i = 0; i < target.modules.count; i++)
		if (strstr(target.modules.rows[i].path, COPY)) {
			assert_true(target.modules.rows[i].deleted);
			return &target.modules.rows[i];
		}
	return NULL;
}

/* An update replaces the libraries of a job that runs for days. */
static void code_of_a_file_that_is_gone_is_accepted(void **state)
{
	(void)state;
	drop_capabilities();
	assert_non_null(gone_module());
	assert_int_equal(flmem_changed_code_check(&target.view, gone_module(), false, &err), 0);
}

static void changed_code_of_such_a_file_is_refused(void **state)
{
	const unsigned char breakpoint = 0xcc;

	(void)state;
	drop_capabilities();
	assert_non_null(gone_module());
	put_code((uintptr_t)dlsym(updated, "deflate") + 8, &breakpoint, 1);
	assert_int_equal(flmem_changed_code_check(&target.view, gone_module(), false, &err),
			 FLMEM_EUNSUPPORTED);
}

static int start_updated(void **state)
{
	const struct link_map *known = dlopen("libz.so.1", RTLD_NOW);
	char command[PATH_MAX];

	if (!known)
		return -1;
	snprintf(command, sizeof(command), "cp -L '%s' " COPY, known->l_name);
	if (system(command))
		return -1;
	updated = dlopen("./" COPY, RTLD_NOW);
	if (unlink(COPY) || !updated)
		return -1;
	return start(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_breakpoint_inside_of_what_a_trim_runs_is_refused),
		TEST(one_in_another_function_is_accepted),
		TEST(a_probe_of_the_kernel_is_named),
		TEST(other_code_is_no_probe),
		TEST(an_allocator_is_checked_as_a_whole),
		TEST(one_in_a_function_without_a_name_is_refused),
		TEST(code_that_is_changed_all_over_is_refused),
		TEST(a_trim_asks_for_it),
		TEST(a_function_that_is_called_is_compared_with_its_file),
		TEST(a_borrowed_thread_runs_no_such_function),
		TEST(a_breakpoint_of_the_processor_is_refused),
		cmocka_unit_test_setup_teardown(python_with_a_breakpoint_starts_no_thread,
						start_python, end),
		cmocka_unit_test_setup_teardown(a_breakpoint_in_the_c_library_starts_no_thread,
						start_python, end),
		cmocka_unit_test_setup_teardown(a_breakpoint_in_the_dynamic_linker_starts_no_thread,
						start_python, end),
		cmocka_unit_test_setup_teardown(code_of_a_file_that_is_gone_is_accepted,
						start_updated, end),
		cmocka_unit_test_setup_teardown(changed_code_of_such_a_file_is_refused,
						start_updated, end),
	};

	return cmocka_run_group_tests_name("changed_code", tests, NULL, NULL);
}
