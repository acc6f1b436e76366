/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests system calls in which a thread was stopped and released: they continue as if undisturbed.
 */
#include "borrowed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "../victims/safe_common.h"
#include "base/attempt.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/task.h"
#include "remote/checks/waits.h"
#include "remote/tracee.h"

#define TIMES	  200
#define CASES	  64
#define STOP_US	  20000000U
#define VICTIM	  VICTIMS "/safe_blocked"
#define NAME_SIZE 40

#if defined(__x86_64__) || defined(__aarch64__)
/*
 * Calls for which every kernel returns plain EINTR, and those for which only some do (tmpfs before
 * 6.18).
 */
static const char *const give_eintr[] = {
	"epoll_wait",
	"epoll_wait-limited",
	"epoll_pwait",
	"epoll_pwait-limited",
	"epoll_pwait2-limited",
	"rt_sigtimedwait",
	"rt_sigtimedwait-limited",
	"semtimedop",
	"semtimedop-limited",
	"semop",
	"recv-limited",
	"read-patient",
	"readv-patient",
	"recv-patient",
	"recvmsg-patient",
	"recvmmsg-patient",
	"accept-patient",
	"write-patient",
	"writev-patient",
	"sendto-patient",
	"sendmsg-patient",
	"sendmmsg-patient",
	"sendfile-patient",
	"splice-patient",
	"connect-patient",
	"connect-tcp-patient",
	"io_getevents",
	"io_uring_enter",
	"ppoll-constant",
	"pselect-constant",
};

static const char may_give_eintr[] = "fallocate";

static const char *only; /* the one call that is stopped; NULL: all */

struct victim {
	pid_t pid;
	int output;
	char path[64];
	struct victim_status *status;
	struct flmem_process process;
};

static void be_victim(const struct victim *victim, const char *name, int output)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("VICTIM_STATUS", victim->path, 1);
	setenv("VICTIM_BLOCKS", "64", 1);
	dup2(output, STDOUT_FILENO);
	execl(VICTIM, VICTIM, name, (char *)NULL);
	_exit(127);
}

/* Starts a victim. False when it cannot be set up here, as io_uring under a container's filter. */
static bool victim_start(struct victim *victim, const char *name)
{
	char line[64];
	int fds[2], file;

	*victim =
		(struct victim){.path = "/tmp/flmem-status-XXXXXX", .process = FLMEM_PROCESS_INIT};
	file = mkstemp(victim->path);
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, 4096), 0);
	victim->status = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_true(victim->status != MAP_FAILED);
	close(file);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	victim->pid = fork();
	assert_true(victim->pid >= 0);
	if (victim->pid == 0)
		be_victim(victim, name, fds[1]);
	close(fds[1]);
	victim->output = fds[0];
	if (read(victim->output, line, sizeof(line)) <= 0)
		return false;
	assert_int_equal(flmem_process_open(victim->pid, &victim->process, NULL), 0);
	return true;
}

static void victim_end(struct victim *victim)
{
	flmem_process_close(&victim->process);
	child_end(victim->pid);
	close(victim->output);
	unlink(victim->path);
	munmap(victim->status, 4096);
}

/* Waits until the victim is blocked. One that computes is stopped as well, after a moment. */
static void await_blocked(const struct victim *victim)
{
	struct flmem_task_wait at;

	for (int i = 0; i < 50; i++) {
		if (flmem_task_read_wait(&victim->process, victim->pid, &at) == 1)
			return;
		flmem_clock_sleep_us(100);
	}
}

struct stop {
	const struct victim *victim;
	int rc;
	enum flmem_tracee_event event;
	bool ended; /* the kernel gave EINTR, which the victim must not see */
};

/*
 * Stops and releases on a thread that ends: on some processors only the end releases a thread whose
 * call is repeated.
 */
static void stop_and_release(void *context)
{
	FLMEM_AUTO_FREE struct flmem_thread_state *state = aligned_alloc(64, sizeof(*state));
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	struct stop *stop = context;
	struct flmem_task_wait at;

	stop->rc =
		state ? flmem_tracee_seize(&tracee, stop->victim->pid, stop->victim->pid) : -ENOMEM;
	if (stop->rc)
		return;
	tracee.undisturbed =
		flmem_task_read_wait(&stop->victim->process, stop->victim->pid, &at) == 1;
	/*
	 * flmem does not stop the thread where the kernel forgets the call that a stop has ended.
	 */
	tracee.runs_on = flmem_arch_forgets_wait && !tracee.undisturbed;
	if (tracee.runs_on)
		return;
	stop->event = flmem_tracee_stop(&tracee, STOP_US);
	if (stop->event == FLMEM_TRACEE_STOPPED)
		stop->rc = flmem_arch_read_registers(tracee.tid, state);
	stop->ended = tracee.undisturbed && flmem_arch_gave_eintr(state);
}

static bool stop_once(const struct victim *victim)
{
	struct stop stop = {.victim = victim, .rc = -EPERM, .event = FLMEM_TRACEE_STOPPED};

	await_blocked(victim);
	/* The previous thread may still be about to end. */
	for (int i = 0; i < TIMES && stop.rc == -EPERM; i++) {
		assert_int_equal(flmem_attempt_run_on_thread(stop_and_release, &stop), 0);
		flmem_clock_sleep_us(stop.rc ? 1000 : 0);
	}
	if (stop.rc == -EPERM) {
		print_message("SKIP: ptrace is not permitted\n");
		skip();
	}
	assert_int_equal(stop.rc, 0);
	assert_int_equal(stop.event, FLMEM_TRACEE_STOPPED);
	return stop.ended;
}

static bool is_listed(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(give_eintr); i++)
		if (strcmp(give_eintr[i], name) == 0)
			return true;
	return false;
}

static bool is_unharmed(const struct victim *victim, const char *name, int ended)
{
	const struct victim_status *status = victim->status;
	bool may = strcmp(name, may_give_eintr) == 0;

	if (status->failures || status->interruptions)
		print_error("%s: EINTR %llu times, %s\n", name,
			    (unsigned long long)status->interruptions, status->first_failure);
	if (is_listed(name) && !ended)
		print_error("%s: the kernel never gave EINTR\n", name);
	if (!may && !is_listed(name) && ended)
		print_error("%s: the kernel gave EINTR, which is not known of it\n", name);
	return !status->failures && !status->interruptions &&
	       (may || is_listed(name) == (ended > 0));
}

static bool stop_often(const char *name)
{
	struct victim victim;
	bool unharmed = true;
	uint64_t rounds;
	int ended = 0;

	if (victim_start(&victim, name)) {
		for (int i = 0; i < TIMES; i++)
			ended += stop_once(&victim);
		rounds = victim.status->rounds;
		await_true(victim.status->rounds >= rounds + 2);
		unharmed = is_unharmed(&victim, name, ended);
	} else {
		print_message("SKIP: %s cannot be set up here\n", name);
	}
	victim_end(&victim);
	return unharmed;
}

static size_t list_cases(const char *kind, char (*names)[NAME_SIZE])
{
	char command[PATH_MAX];
	size_t count = 0;
	FILE *list;

	snprintf(command, sizeof(command), VICTIM " list %s", kind);
	list = popen(command, "r");
	assert_non_null(list);
	while (count < CASES && fgets(names[count], NAME_SIZE, list)) {
		names[count][strcspn(names[count], "\n")] = '\0';
		count++;
	}
	assert_int_equal(pclose(list), 0);
	assert_in_range(count, 1, CASES - 1);
	return count;
}

static void stop_all(const char *kind)
{
	char names[CASES][NAME_SIZE];
	size_t count = list_cases(kind, names), harmed = 0;

	for (size_t i = 0; i < count; i++)
		if (!only || strcmp(only, names[i]) == 0)
			harmed += !stop_often(names[i]);
	assert_int_equal(harmed, 0);
}

static void waits_that_are_borrowed_go_on(void **state)
{
	(void)state;
	stop_all("borrowed");
}

static void waits_with_a_hidden_timeout_go_on(void **state)
{
	(void)state;
	stop_all("timed");
}

static void calls_that_a_thread_moved_on_to_go_on(void **state)
{
	(void)state;
	stop_all("left");
}

static void a_connection_that_is_being_made_goes_on(void **state)
{
	(void)state;
	stop_all("connect");
}

static bool is_repeatable(long number, uint64_t second, uint64_t third, uint64_t fourth)
{
	const struct flmem_task_wait at = {.number = number, .args = {0, second, third, fourth}};

	return flmem_wait_is_repeatable(&at);
}

/* After these calls EINTR may mean that something was done, or not: the program must see it. */
static void other_calls_keep_their_result(void **state)
{
	static const long numbers[] = {SYS_close, SYS_ioctl,	SYS_openat,  SYS_dup3,
				       SYS_fsync, SYS_unlinkat, SYS_mkdirat, SYS_fcntl};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(numbers); i++)
		assert_false(is_repeatable(numbers[i], 0, 0, 0));
	assert_false(is_repeatable(-1, 0, 0, 0));
	assert_true(is_repeatable(SYS_io_uring_enter, 0, 1, 0));
	assert_false(is_repeatable(SYS_io_uring_enter, 1, 1, 0));
	assert_true(is_repeatable(SYS_sendto, 0, 0, MSG_NOSIGNAL));
	assert_false(is_repeatable(SYS_sendto, 0, 0, MSG_FASTOPEN));
	assert_true(is_repeatable(SYS_sendmsg, 0, MSG_NOSIGNAL, 0));
	assert_false(is_repeatable(SYS_sendmsg, 0, MSG_FASTOPEN, 0));
	assert_true(is_repeatable(SYS_sendmmsg, 0, 1, 0));
	assert_false(is_repeatable(SYS_sendmmsg, 0, 1, MSG_FASTOPEN));
	assert_true(is_repeatable(SYS_fallocate, 0, 0, 1));
	assert_true(is_repeatable(SYS_fallocate, FALLOC_FL_PUNCH_HOLE, 0, 1));
	assert_false(is_repeatable(SYS_fallocate, FALLOC_FL_COLLAPSE_RANGE, 0, 1));
	assert_false(is_repeatable(SYS_fallocate, FALLOC_FL_INSERT_RANGE, 0, 1));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_calls_keep_their_result),
		cmocka_unit_test(waits_that_are_borrowed_go_on),
		cmocka_unit_test(waits_with_a_hidden_timeout_go_on),
		cmocka_unit_test(calls_that_a_thread_moved_on_to_go_on),
		cmocka_unit_test(a_connection_that_is_being_made_goes_on),
	};

	only = argc > 1 ? argv[1] : NULL;

	return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
