/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the functions for the calling process in processes with other allocators. Each test starts
 * one of tests/victims/self, which links a libflmem without sanitizers, and reads its output.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <flmem/error.h>
#include <flmem/own_process.h>

#include "allocators/installed.h"
#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"

#define NOT_HERE  77
#define LIBRARIES "/usr/lib/" FLMEM_MULTIARCH "/"

struct answer {
	char allocator[32];
	int result;
	long before, after;
};

/* Settings with which allocators give no memory back by themselves during a measurement. */
static char *const fixed_environment[] = {
	"MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1",
	"MALLOC_TRIM_THRESHOLD_=1099511627776",
	"MALLOC_MMAP_THRESHOLD_=33554432",
	"MIMALLOC_PAGE_RESET=0",
};

static pid_t start(const char *program, const char *what, const char *preload, int *ret_fd)
{
	char path[512], variable[512];
	char *argv[] = {path, (char *)(uintptr_t)what, NULL};
	char *environment[FLMEM_ARRAY_SIZE(fixed_environment) + 2] = {0};
	posix_spawn_file_actions_t actions;
	int pipes[2];
	pid_t child;

	snprintf(path, sizeof(path), VICTIMS "/self_%s", program);
	snprintf(variable, sizeof(variable), "LD_PRELOAD=%s", preload ? preload : "");
	memcpy(environment, fixed_environment, sizeof(fixed_environment));
	environment[FLMEM_ARRAY_SIZE(fixed_environment)] = variable;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
	assert_int_equal(posix_spawn(&child, path, &actions, NULL, argv, environment), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	*ret_fd = pipes[0];
	return child;
}

static struct answer ask(const char *program, const char *what, const char *preload)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int fd = -1;
	struct answer answer = {0};
	pid_t child = start(program, what, preload, &fd);
	int status;

	flmem_io_read_all(fd, 4096, &buf);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE) {
		print_message("SKIP: io_uring is not permitted here\n");
		skip();
	}
	if (status || sscanf(buf.data, "%31s %d %ld %ld", answer.allocator, &answer.result,
			     &answer.before, &answer.after) != 4)
		fail_msg("self_%s %s with %s: status %d, printed '%s'", program, what,
			 preload ? preload : "nothing", status, buf.data);
	return answer;
}

static const struct {
	const char *allocator, *path;
} preloads[] = {
	{"jemalloc", LIBRARIES "libjemalloc.so.2"},
	{"tcmalloc", LIBRARIES "libtcmalloc_minimal.so.4"},
	{"tcmalloc", LIBRARIES "libtcmalloc.so.4"},
	{"mimalloc", LIBRARIES "libmimalloc.so.2"},
};

static bool is_there(const char *path)
{
	if (access(path, R_OK) == 0)
		return true;
	print_message("SKIP: %s is not here\n", path);
	return false;
}

/* Most of about 200 MB that were freed went back. */
static void check_released(const struct answer *answer)
{
	assert_true(answer->before > 150 << 20);
	assert_true(answer->after < answer->before - (100 << 20));
}

static void glibc_is_trimmed(void **state)
{
	struct answer answer = ask("plain", "cleanup", NULL);

	(void)state;
	assert_string_equal(answer.allocator, "glibc");
	assert_int_equal(answer.result, 0);
	check_released(&answer);
	answer = ask("plain", "trim", NULL);
	assert_int_equal(answer.result, 1);
	check_released(&answer);
}

/* The environment above lets glibc keep freed memory. */
static void what_a_device_may_use_stays(void **state)
{
	struct answer answer = ask("plain", "registered", NULL);

	(void)state;
	assert_int_equal(answer.result, FLMEM_EUNSUPPORTED);
	assert_int_equal(answer.before, 1);
	assert_int_equal(answer.after, 1);
	answer = ask("plain", "registered-trim", NULL);
	assert_int_equal(answer.result, -1);
	assert_int_equal(answer.after, 1);
}

static void preloaded_allocators_give_memory_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(preloads); i++) {
		struct answer answer;

		if (!is_there(preloads[i].path))
			continue;
		answer = ask("plain", "cleanup", preloads[i].path);
		assert_string_equal(answer.allocator, preloads[i].allocator);
		assert_int_equal(answer.result, 0);
		check_released(&answer);
	}
}

static void malloc_trim_is_refused_for_the_others(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(preloads); i++) {
		struct answer answer;

		if (!is_there(preloads[i].path))
			continue;
		answer = ask("plain", "trim", preloads[i].path);
		assert_int_equal(answer.result, -1);
	}
}

/*
 * The program's entry for malloc is malloc's address, also where it has an allocator for its own
 * use.
 */
static void a_program_at_a_fixed_address(void **state)
{
	const char *program = *state;
	struct answer answer = ask(program, "cleanup", NULL);

	assert_string_equal(answer.allocator, "glibc");
	check_released(&answer);
	if (!is_there(preloads[0].path))
		return;
	answer = ask(program, "cleanup", preloads[0].path);
	assert_string_equal(answer.allocator, "jemalloc");
	check_released(&answer);
}

static void jemalloc_inside_the_program(void **state)
{
	struct answer answer;

	(void)state;
	if (!is_there(VICTIMS "/self_jemalloc"))
		skip();
	answer = ask("jemalloc", "cleanup", NULL);
	assert_string_equal(answer.allocator, "jemalloc");
	assert_int_equal(answer.result, 0);
	check_released(&answer);
	answer = ask("jemalloc_stripped", "cleanup", NULL);
	assert_string_equal(answer.allocator, "jemalloc");
	assert_int_equal(answer.result, FLMEM_EUNSUPPORTED);
}

static void a_wrapper_around_malloc_is_not_taken_for_glibc(void **state)
{
	struct answer answer = ask("wrapped", "cleanup", NULL);

	(void)state;
	assert_string_equal(answer.allocator, "unknown");
	assert_int_equal(answer.result, FLMEM_EUNSUPPORTED);
	answer = ask("wrapped", "trim", NULL);
	assert_int_equal(answer.result, -1);
}

static void many_threads_are_told_the_same(void **state)
{
	(void)state;
	assert_int_equal(ask("plain", "threads", NULL).result, 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(preloads); i++)
		if (is_there(preloads[i].path))
			assert_int_equal(ask("plain", "threads", preloads[i].path).result, 0);
}

static void this_program_itself(void **state)
{
	struct flmem_error err = {0};
	enum flmem_allocator_kind kind = flmem_get_allocator_type();

	(void)state;
	/* Under AddressSanitizer malloc is the sanitizer's, which no allocator's name fits. */
	if (kind == FLMEM_ALLOCATOR_GLIBC) {
		assert_true(flmem_try_malloc_trim() >= 0);
		assert_int_equal(flmem_cleanup_memory(&err), 0);
	} else {
		assert_int_equal(kind, FLMEM_ALLOCATOR_UNKNOWN);
		assert_int_equal(flmem_try_malloc_trim(), -1);
		assert_int_equal(flmem_cleanup_memory(&err), FLMEM_EUNSUPPORTED);
		assert_int_equal(flmem_cleanup_memory(NULL), FLMEM_EUNSUPPORTED);
		assert_true(err.message[0] != '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(this_program_itself),
		cmocka_unit_test(glibc_is_trimmed),
		cmocka_unit_test(what_a_device_may_use_stays),
		cmocka_unit_test(preloaded_allocators_give_memory_back),
		cmocka_unit_test(malloc_trim_is_refused_for_the_others),
		cmocka_unit_test_prestate(a_program_at_a_fixed_address,
					  (void *)(uintptr_t) "fixed"),
		cmocka_unit_test_prestate(a_program_at_a_fixed_address,
					  (void *)(uintptr_t) "inside"),
		cmocka_unit_test(jemalloc_inside_the_program),
		cmocka_unit_test(a_wrapper_around_malloc_is_not_taken_for_glibc),
		cmocka_unit_test(many_threads_are_told_the_same),
	};

	return cmocka_run_group_tests_name("own_process", tests, NULL, NULL);
}
