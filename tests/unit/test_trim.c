/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <flmem/trim.h>

#include "proc/maps.h"

static pid_t child;
static bool ends_next;

int __real_flmem_maps_read(const struct flmem_process *process, struct flmem_maps *ret_maps,
			   struct flmem_error *err);
int __wrap_flmem_maps_read(const struct flmem_process *process, struct flmem_maps *ret_maps,
			   struct flmem_error *err);

/* Replaces the reading of mappings: the child ends after the checks of a target and before it. */
int __wrap_flmem_maps_read(const struct flmem_process *process, struct flmem_maps *ret_maps,
			   struct flmem_error *err)
{
	siginfo_t info;

	if (ends_next) {
		kill(child, SIGKILL);
		waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	}
	return __real_flmem_maps_read(process, ret_maps, err);
}

/* Waits until the process is in the system call with this number. */
static void await_call(pid_t pid, long number)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	for (int i = 0; i < 20000; i++) {
		char text[16] = "";
		FILE *file = fopen(path, "re");

		if (file && !fgets(text, sizeof(text), file))
			text[0] = '\0';
		if (file)
			fclose(file);
		/* The file cannot be read where the process may not be traced either. */
		if (!file || (text[0] != 'r' && strtol(text, NULL, 10) == number))
			return;
		usleep(1000);
	}
}

static int start_child(void **state)
{
	(void)state;
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	if (child > 0)
		await_call(child, SYS_pause);
	return child < 0;
}

static int end_child(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	return waitpid(child, NULL, 0) != child;
}

static void another_process_of_the_same_number_is_refused(void **state)
{
	const struct flmem_trim_options options = {.start_time = 1};
	struct flmem_trim_result result;
	struct flmem_error err;

	(void)state;
	assert_int_equal(flmem_trim_process(child, &options, &result, &err), FLMEM_ENOPROC);
	assert_non_null(strstr(err.message, "its PID was reused"));
	assert_int_equal(result.code, FLMEM_ENOPROC);
	assert_int_equal(result.outcome, FLMEM_TRIM_REFUSED);
	assert_string_equal(result.reason, err.message);
	assert_int_equal(result.thread, 0);
	assert_non_null(result.released_bytes.unknown);
}

static void a_process_that_ends_meanwhile_has_not_lost_its_allocator(void **state)
{
	const struct flmem_trim_options options = {0};
	struct flmem_trim_result result;
	struct flmem_error err;
	int rc;

	(void)state;
	ends_next = true;
	rc = flmem_trim_process(child, &options, &result, &err);
	ends_next = false;
	assert_int_equal(rc, FLMEM_ENOPROC);
	assert_non_null(strstr(err.message, "ended before it was trimmed"));
}

static void the_caller_itself_is_refused(void **state)
{
	const struct flmem_trim_options options = {0};
	struct flmem_trim_result result;

	(void)state;
	assert_int_equal(flmem_trim_process(getpid(), &options, &result, NULL), FLMEM_EUSAGE);
	assert_non_null(strstr(result.reason, "is flmem itself"));
}

static void a_dry_run_names_the_thread(void **state)
{
	const struct flmem_trim_options options = {.dry_run = true};
	struct flmem_trim_result result;
	struct flmem_error err;
	int rc = flmem_trim_process(child, &options, &result, &err);

	(void)state;
	/* The sanitizers replace malloc. */
	if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED) {
		print_message("SKIP: %s\n", err.message);
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(result.outcome, FLMEM_TRIM_PLANNED);
	assert_int_equal(result.thread, child);
	assert_string_equal(result.thread_state, "pause");
	assert_non_null(result.stopped_us.unknown); /* no call was made */
}

#ifdef __x86_64__
/*
 * Waits in data of the C library, where the allocator's locks are, on a word that nobody changes.
 */
static void wait_in_the_library(void)
{
	const uint32_t *word = (const uint32_t *)(const void *)stdin;

	for (;;)
		syscall(SYS_futex, word, FUTEX_WAIT, *word, NULL, NULL, 0);
}

static void a_thread_that_waits_inside_the_allocator_is_refused(void **state)
{
	const struct flmem_trim_options options = {.timeout_us = 100000};
	struct flmem_trim_result result;
	struct flmem_error err;
	pid_t waiting = fork();
	int rc;

	(void)state;
	if (waiting == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		wait_in_the_library();
	}
	await_call(waiting, SYS_futex);
	rc = flmem_trim_process(waiting, &options, &result, &err);
	kill(waiting, SIGKILL);
	waitpid(waiting, NULL, 0);
	if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED) {
		print_message("SKIP: %s\n", err.message);
		skip();
	}
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "is inside the allocator"));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_process_of_the_same_number_is_refused),
		cmocka_unit_test(the_caller_itself_is_refused),
		cmocka_unit_test(a_dry_run_names_the_thread),
#ifdef __x86_64__
		cmocka_unit_test(a_thread_that_waits_inside_the_allocator_is_refused),
#endif
		/* This test is the last one: it ends the child. */
		cmocka_unit_test(a_process_that_ends_meanwhile_has_not_lost_its_allocator),
	};

	return cmocka_run_group_tests_name("trim", tests, start_child, end_child);
}
