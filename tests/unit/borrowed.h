/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_BORROWED_H
#define FLMEM_TESTS_BORROWED_H

/* Shared by tests that open a child of the test as a target whose threads can be borrowed. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/modules.h"
#include "remote/arch.h"
#include "remote/borrow.h"
#include "remote/tracee.h"

struct target {
	struct flmem_process process;
	struct flmem_image_cache *cache;
	struct flmem_maps maps;
	struct flmem_modules modules;
	struct flmem_view view;
};

static inline void target_open(pid_t child, struct target *target)
{
	*target = (struct target){.process = FLMEM_PROCESS_INIT, .cache = flmem_image_cache_new()};
	assert_int_equal(flmem_process_open(child, &target->process, NULL), 0);
	assert_int_equal(flmem_process_pin_memory(&target->process, NULL), 0);
	assert_int_equal(flmem_maps_read(&target->process, &target->maps, NULL), 0);
	assert_int_equal(flmem_modules_load(&target->process, &target->maps, target->cache,
					    &target->modules, NULL),
			 0);
	target->view = (struct flmem_view){&target->process, &target->maps, &target->modules};
}

static inline uint64_t target_function(const struct target *target, const char *name)
{
	uint64_t function = 0;

	assert_non_null(flmem_modules_lookup(&target->modules, name, &function));
	return function;
}

static inline void target_close(struct target *target)
{
	flmem_modules_clear(&target->modules);
	flmem_maps_clear(&target->maps);
	flmem_image_cache_free(target->cache);
	flmem_process_close(&target->process);
}

/* Runs `be_child` in a child that ends with the test; 0 on failure. */
static inline pid_t child_start(void (*be_child)(void))
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_child();
		_exit(1);
	}
	return child < 0 ? 0 : child;
}

/* Returns memory that a child started afterwards shares with the test; NULL on failure. */
static inline void *child_share(size_t size)
{
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

static inline void child_end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/*
 * Sets up a test: a page of memory, put into the pointer at `ret_page` before the child is started,
 * which shares it. Returns 0, or 1 on failure.
 */
static inline int child_open(void (*be_child)(void), size_t size, void *ret_page, pid_t *ret_child)
{
	void *page = child_share(size);

	memcpy(ret_page, &page, sizeof(page));
	*ret_child = page ? child_start(be_child) : 0;
	return !*ret_child;
}

/* Tears down what child_open() has set up. */
static inline int child_close(pid_t child, void *page, size_t size)
{
	child_end(child);
	return munmap(page, size);
}

static inline void pipe_close(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

/*
 * Makes the system call behind ptrace(), for tests that replace the function: the C library returns
 * the word that the kernel stores.
 */
static inline long ptrace_in_kernel(enum __ptrace_request request, long tid, long address,
				    long data)
{
	bool peeks = request == PTRACE_PEEKDATA || request == PTRACE_PEEKTEXT ||
		     request == PTRACE_PEEKUSER;
	long word = 0, rc;

	if (peeks)
		data = (long)(uintptr_t)&word;
	rc = syscall(SYS_ptrace, (long)request, tid, address, data);
	return rc == 0 && peeks ? word : rc;
}

/*
 * Replaces ptrace() by a function of the test with fixed arguments; the C library's has variable
 * ones.
 */
#define REPLACE_PTRACE(function)                                \
	long ptrace(enum __ptrace_request request, ...)         \
	{                                                       \
		va_list args;                                   \
		long tid, address, data;                        \
                                                                \
		va_start(args, request);                        \
		tid = va_arg(args, long);                       \
		address = va_arg(args, long);                   \
		data = va_arg(args, long);                      \
		va_end(args);                                   \
		return (function)(request, tid, address, data); \
	}

/* Ends the test as skipped where nothing may be borrowed, as failed for any other reason. */
static inline void expect_borrowed(int rc, const struct flmem_error *err)
{
	if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED) {
		print_message("SKIP: %s\n", err->message);
		skip();
	}
	if (rc)
		fail_msg("%s", err->message);
}

static inline void require_met(bool met, const char *condition)
{
	if (!met)
		fail_msg("never true: %s", condition);
}

/* Waits until the condition is met once; it may hold for a moment only. */
#define await_true(condition)                                 \
	do {                                                  \
		bool met_ = (condition);                      \
                                                              \
		for (int i_ = 0; i_ < 20000 && !met_; i_++) { \
			usleep(1000);                         \
			met_ = (condition);                   \
		}                                             \
		require_met(met_, #condition);                \
	} while (0)

/*
 * True if a thread runs or is about to: a thread that was just woken, by its release for example,
 * still shows the wait that has ended until it gets a processor.
 */
static inline bool is_runnable(pid_t tid)
{
	char path[40], text[512], *state;
	bool known;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	file = fopen(path, "re");
	known = file && fgets(text, sizeof(text), file);
	if (file)
		fclose(file);
	state = known ? strrchr(text, ')') : NULL;
	return state && state[1] == ' ' && state[2] == 'R';
}

/*
 * Reports whether a thread is blocked in that call, or may not be read. False for a thread that
 * does not exist.
 */
static inline bool is_blocked_in(pid_t tid, long number)
{
	char path[40], text[24];
	bool known;
	FILE *file;

	if (is_runnable(tid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	file = fopen(path, "re");
	if (!file && errno == ENOENT)
		return false;
	known = file && fgets(text, sizeof(text), file);
	if (file)
		fclose(file);
	return !known || (text[0] != 'r' && strtol(text, NULL, 10) == number);
}

/* Reads the state of a thread, as flmem keeps it for a thread that it borrows. */
static inline bool thread_read_state(pid_t leader, pid_t tid, struct flmem_thread_state *ret_state)
{
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};

	if (flmem_tracee_seize(&tracee, tid, leader) ||
	    flmem_tracee_stop(&tracee, 20000000U) != FLMEM_TRACEE_STOPPED ||
	    flmem_arch_read_registers(tid, ret_state) || flmem_arch_make_resumable(tid, ret_state))
		return false;
	tracee.resumable = true;
	return flmem_arch_read_rest(tid, ret_state) == 0;
}

#endif
