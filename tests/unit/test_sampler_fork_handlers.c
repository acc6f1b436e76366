/* SPDX-License-Identifier: Apache-2.0 */
/* Tests forks and walks over the linker's list: a fork that began before its handlers were set. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "flags.h"
#include "preload/sampler/got.h"
#include "preload/sampler/sampler.h"

__thread struct sampler_thread sampler_thread __attribute__((tls_model("initial-exec")));
uint32_t sampler_quiet;
static bool is_preparing, is_released, has_forked;

/* While this call waits, the handler returns and the fork ends. */
long sampler_kernel_enter(long number, ...)
{
	assert_int_equal(number, SYS_nanosleep);
	set_flag(&is_released);
	await_flag(&has_forked);
	return 0;
}

long sampler_kernel_deny(void)
{
	return -1;
}

void sampler_child_settle(void)
{
}

static void prepare_slowly(void)
{
	set_flag(&is_preparing);
	await_flag(&is_released);
}

static void *fork_once(void *unused)
{
	pid_t child = fork();

	(void)unused;
	if (child == 0)
		_exit(0);
	set_flag(&has_forked);
	waitpid(child, NULL, 0);
	return NULL;
}

static void test_waits_for_a_fork_whose_handlers_were_running(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_atfork(prepare_slowly, NULL, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, fork_once, NULL), 0);
	await_flag(&is_preparing);
	sampler_walk_prepare_late();
	assert_true(read_flag(&has_forked));
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static int count_objects(struct dl_phdr_info *info, size_t size, void *context)
{
	unsigned *count = context;

	(void)info;
	(void)size;
	++*count;
	return 0;
}

static void test_walks_and_counts_forks(void **state)
{
	unsigned count = 0;
	pid_t child;
	int status;

	(void)state;
	sampler_walk(count_objects, &count);
	assert_true(count > 0);
	child = fork();
	if (child == 0)
		_exit(sampler_walk_try() ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(sampler_walk_try());
	sampler_walk_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_for_a_fork_whose_handlers_were_running),
		cmocka_unit_test(test_walks_and_counts_forks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
