/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which threads may be stopped on aarch64, with a simulated process. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/io.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/checks/quiet_stop.h"

#include "checked.h"

#define TID	 7
#define SYSCALL	 0x2000U
#define WRITABLE 0x10000U
#define CONSTANT 0x20000U
#define UNMAPPED 0x30000U
#define LOOKS	 8
#define PARK_US	 1000U
#define LONG_US	 10000000U

/* The thread's status and wait at each check. */
struct look {
	uint64_t sleeps, losses;
	int rc;
	struct flmem_task_wait at;
};

const struct flmem_arch_code flmem_arch_syscall = {(const unsigned char *)"12345678", 8};

char flmem_buf_empty[1];

static struct look looks[LOOKS];
static size_t status_looks, wait_looks;
static const char *link_target, *personality_text;
static struct flmem_process process = {.pid = TID};

/* The clock of the noted threads, which only the test advances; 0: the real clock. */
static uint64_t clock_us;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!clock_us)
		return (int)syscall(SYS_clock_gettime, clock, time);
	time->tv_sec = (time_t)(clock_us / 1000000);
	time->tv_nsec = (long)(clock_us % 1000000) * 1000;
	return 0;
}

int flmem_process_readlink(const struct flmem_process *of, const char *name, char *ret_target,
			   size_t size)
{
	(void)of;
	(void)name;
	if (!link_target)
		return -1;
	snprintf(ret_target, size, "%s", link_target);
	return 0;
}

const struct flmem_map *flmem_maps_find(const struct flmem_maps *maps, uint64_t address)
{
	static const struct flmem_map writable = {.flags = FLMEM_MAP_READ | FLMEM_MAP_WRITE},
				      constant = {.flags = FLMEM_MAP_READ};

	(void)maps;
	if (address >= UNMAPPED)
		return NULL;
	return address < CONSTANT ? &writable : &constant;
}

int flmem_io_read_file_at(int directory, const char *path, size_t max, struct flmem_buf *text)
{
	(void)directory, (void)max;
	if (strcmp(path, "task/7/personality") != 0 || !personality_text)
		return -1;
	text->data = strdup(personality_text);
	text->length = strlen(personality_text);
	return 0;
}

void flmem_buf_clear(struct flmem_buf *text)
{
	if (text->data != flmem_buf_empty)
		free(text->data);
	*text = (struct flmem_buf){0};
}

#define STATUS_FD 100
#define WAIT_FD	  101

int flmem_status_read_open(int fd, struct flmem_status *ret_status)
{
	const struct look *look = &looks[status_looks++ % LOOKS];

	if (fd != STATUS_FD)
		return -1;
	*ret_status = (struct flmem_status){.voluntary_switches.value = look->sleeps,
					    .involuntary_switches.value = look->losses};
	return 0;
}

int flmem_status_read_thread(const struct flmem_process *of, pid_t tid,
			     struct flmem_status *ret_status)
{
	(void)of, (void)tid;
	return flmem_status_read_open(STATUS_FD, ret_status);
}

int flmem_task_open_wait(const struct flmem_process *of, pid_t tid)
{
	(void)of;
	return tid == TID ? WAIT_FD : -1;
}

int flmem_task_read_open_wait(int fd, struct flmem_task_wait *ret_wait)
{
	const struct look *look = &looks[wait_looks++ % LOOKS];

	if (fd != WAIT_FD)
		return -1;
	*ret_wait = look->at;
	return look->rc;
}

int flmem_task_read_wait(const struct flmem_process *of, pid_t tid,
			 struct flmem_task_wait *ret_wait)
{
	return flmem_task_read_open_wait(flmem_task_open_wait(of, tid), ret_wait);
}

static const char *why(long number, uint64_t descriptor, int argument, uint64_t timeout)
{
	static const struct flmem_maps maps;
	struct flmem_task_wait at = {.number = number};

	at.args[0] = descriptor;
	if (argument)
		at.args[argument] = timeout;
	/* The descriptors are those of this program; all other facts are made up. */
	return flmem_quiet_stop_refuses(
		&process, &maps, number == SYS_read || number == SYS_readv ? getpid() : TID, &at);
}

static void calls_that_the_kernel_makes_again_may_be_stopped(void)
{
	CHECK(!why(SYS_futex, 0, 3, CONSTANT) && !why(SYS_wait4, 0, 0, 0));
	CHECK(!why(SYS_waitid, 0, 0, 0) && !why(SYS_msgrcv, 0, 0, 0));
	CHECK(!why(SYS_rt_sigsuspend, 0, 0, 0) && !why(SYS_nanosleep, CONSTANT, 0, 0));
	CHECK(!why(SYS_clock_nanosleep, 0, 2, CONSTANT));
}

static void calls_that_end_with_eintr_may_not(void)
{
	static const long numbers[] = {
		SYS_epoll_pwait, SYS_epoll_pwait2, SYS_rt_sigtimedwait, SYS_semtimedop,
		SYS_recvfrom,	 SYS_recvmsg,	   SYS_accept,		SYS_accept4,
		SYS_semop,	 SYS_io_getevents, SYS_connect,		SYS_restart_syscall,
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		CHECK(why(numbers[i], 0, 0, 0));
}

static void a_timeout_must_be_writable(void)
{
	struct flmem_task_wait at = {.number = SYS_ppoll};

	personality_text = "00000000\n";
	CHECK(!why(SYS_ppoll, 0, 0, 0) && !why(SYS_pselect6, 0, 0, 0));
	CHECK(!why(SYS_ppoll, 0, 2, WRITABLE) && !why(SYS_pselect6, 0, 4, WRITABLE));
	CHECK(why(SYS_ppoll, 0, 2, CONSTANT) && why(SYS_pselect6, 0, 4, CONSTANT));
	CHECK(why(SYS_ppoll, 0, 2, CONSTANT - 8)); /* half of the value */
	CHECK(why(SYS_ppoll, 0, 2, UNMAPPED));
	CHECK(!flmem_quiet_stop_refuses(&process, NULL, TID, &at));
	at.args[2] = WRITABLE;
	CHECK(flmem_quiet_stop_refuses(&process, NULL, TID, &at));
	personality_text = "04000000\n"; /* STICKY_TIMEOUTS */
	CHECK(why(SYS_ppoll, 0, 2, WRITABLE));
	personality_text = NULL;
	CHECK(why(SYS_ppoll, 0, 2, WRITABLE));
}

static void only_files_that_restart_are_read(void)
{
	int ends[2], pair[2], terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	int file = open("/dev/null", O_RDONLY);

	if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || file < 0)
		abort();
	CHECK(!why(SYS_read, (uint64_t)ends[0], 0, 0) && !why(SYS_readv, (uint64_t)ends[0], 0, 0));
	CHECK(why(SYS_read, (uint64_t)pair[0], 0, 0) && why(SYS_readv, (uint64_t)pair[0], 0, 0));
	CHECK(why(SYS_read, (uint64_t)file, 0, 0)); /* a device of an unknown driver */
	if (terminal >= 0)
		CHECK(!why(SYS_read, (uint64_t)terminal, 0, 0));
	CHECK(why(SYS_read, 999, 0, 0));
	link_target = "anon_inode:[eventfd]";
	CHECK(!why(SYS_read, (uint64_t)file, 0, 0));
	link_target = "anon_inode:inotify";
	CHECK(!why(SYS_read, (uint64_t)file, 0, 0));
	link_target = "anon_inode:[something]";
	CHECK(why(SYS_read, (uint64_t)file, 0, 0));
	link_target = NULL;
}

/* Returns a thread that sleeps in one wait at every check. */
static struct flmem_candidate sleeper(void)
{
	const struct flmem_candidate candidate = {
		.tid = TID,
		.sleeps = 5,
		.losses = 2,
		.at = {.number = SYS_nanosleep, .args = {1, 2, 3, 4, 5, 6}, .sp = 64, .pc = 0x1000},
	};

	for (size_t i = 0; i < LOOKS; i++)
		looks[i] = (struct look){5, 2, 1, candidate.at};
	status_looks = wait_looks = 0;
	return candidate;
}

/* Notes one thread, as a pass finds it. */
static void note(struct flmem_quiet_sleepers *sleepers, struct flmem_candidate candidate)
{
	const struct flmem_candidates found = {.rows = &candidate, .count = 1};

	flmem_quiet_stop_note(sleepers, &found);
}

static void a_thread_must_sleep_for_a_while(void)
{
	struct flmem_candidate candidate = sleeper();
	struct flmem_quiet_sleepers sleepers = {0};

	clock_us = 1000000;
	CHECK(flmem_quiet_stop_is_new(&sleepers, TID) && !flmem_quiet_stop_due_us(&sleepers));
	note(&sleepers, candidate);
	CHECK(flmem_quiet_stop_is_new(&sleepers, TID));
	CHECK(flmem_quiet_stop_due_us(&sleepers) == 10000);
	clock_us += 9999;
	note(&sleepers, candidate);
	CHECK(flmem_quiet_stop_is_new(&sleepers, TID) && flmem_quiet_stop_due_us(&sleepers) == 1);
	clock_us++;
	CHECK(!flmem_quiet_stop_is_new(&sleepers, TID) && !flmem_quiet_stop_due_us(&sleepers));
	note(&sleepers, candidate);
	CHECK(!flmem_quiet_stop_is_new(&sleepers, TID));
	CHECK(flmem_quiet_stop_is_new(&sleepers, TID + 1)); /* a pass did not find it */
	clock_us = 0;
}

static void a_thread_that_moved_begins_anew(void)
{
	struct flmem_candidate candidate = sleeper(), slept = candidate, lost = candidate,
			       other = candidate;
	struct flmem_quiet_sleepers sleepers = {0};

	clock_us = 1000000;
	slept.sleeps++;
	lost.losses++;
	other.tid++;
	for (const struct flmem_candidate *now[] = {&slept, &lost, &other, NULL}, **p = now; *p;
	     p++) {
		note(&sleepers, candidate);
		clock_us += 20000;
		CHECK(!flmem_quiet_stop_is_new(&sleepers, TID));
		note(&sleepers, **p);
		CHECK(flmem_quiet_stop_is_new(&sleepers, TID));
	}
	clock_us = 0;
}

static void all_threads_are_noted(void)
{
	struct flmem_candidate rows[FLMEM_CANDIDATES_MAX + 1];
	const struct flmem_candidates found = {.rows = rows, .count = FLMEM_CANDIDATES_MAX + 1};
	struct flmem_quiet_sleepers sleepers = {0};

	clock_us = 1000000;
	for (size_t i = 0; i < found.count; i++) {
		rows[i] = sleeper();
		rows[i].tid += (pid_t)i;
	}
	flmem_quiet_stop_note(&sleepers, &found);
	CHECK(sleepers.count == FLMEM_CANDIDATES_MAX);
	for (size_t i = 0; i < sleepers.count; i++)
		sleepers.rows[i].since_us -= 2000 * i;
	CHECK(flmem_quiet_stop_due_us(&sleepers) == 2000); /* the time of the fifth */
	flmem_quiet_stop_note(&sleepers, &found);
	CHECK(flmem_quiet_stop_is_new(&sleepers, TID + 4));
	CHECK(!flmem_quiet_stop_is_new(&sleepers, TID + 5));
	CHECK(flmem_quiet_stop_is_new(&sleepers, TID + FLMEM_CANDIDATES_MAX));
	clock_us = 0;
}

static void the_last_look_shows_the_same_sleep(void)
{
	const struct flmem_candidate candidate = sleeper();

	CHECK(flmem_quiet_stop_open(&process, TID) == WAIT_FD);
	CHECK(flmem_quiet_stop_sleeps_on(&candidate, STATUS_FD, WAIT_FD));
	CHECK(status_looks == 1 && wait_looks == 1);
	CHECK(!flmem_quiet_stop_sleeps_on(&candidate, -1, WAIT_FD));
	CHECK(!flmem_quiet_stop_sleeps_on(&candidate, STATUS_FD, -1));
}

static bool sleeps_on_after(const struct flmem_candidate *candidate)
{
	status_looks = wait_looks = 0;
	return flmem_quiet_stop_sleeps_on(candidate, STATUS_FD, WAIT_FD);
}

static void a_thread_that_was_awake_is_not_stopped(void)
{
	struct flmem_candidate candidate = sleeper();

	looks[0].sleeps = 6;
	CHECK(!sleeps_on_after(&candidate));
	candidate = sleeper();
	looks[0].losses = 3;
	CHECK(!sleeps_on_after(&candidate));
	candidate = sleeper();
	looks[0].rc = 0; /* the thread runs */
	CHECK(!sleeps_on_after(&candidate));
	candidate = sleeper();
	looks[0].at.args[0] = 9; /* another call with the same number of sleeps */
	CHECK(!sleeps_on_after(&candidate));
	candidate = sleeper();
	looks[0].at.sp = 32;
	CHECK(!sleeps_on_after(&candidate));
	candidate = sleeper();
	looks[0].at.pc = 0x1004;
	CHECK(!sleeps_on_after(&candidate));
	candidate = sleeper();
	looks[0].at.number = SYS_read;
	CHECK(!sleeps_on_after(&candidate));
}

static void a_thread_that_is_no_candidate_is_watched(void)
{
	const struct flmem_candidate candidate = sleeper();
	const uint64_t start = flmem_clock_us();
	struct flmem_candidate watched;

	CHECK(flmem_quiet_stop_watch(&process, TID, &watched));
	CHECK(flmem_clock_us() - start >= 10000);
	CHECK(watched.tid == TID && watched.at.args[0] == 1 && watched.sleeps == 5);
	CHECK(sleeps_on_after(&watched));
	(void)sleeper();
	looks[0].at.number = SYS_epoll_pwait;
	CHECK(!flmem_quiet_stop_watch(&process, TID, &watched));
	(void)sleeper();
	looks[0].rc = 0;
	CHECK(!flmem_quiet_stop_watch(&process, TID, &watched));
	(void)candidate;
}

static void the_kernel_must_show_interrupted_calls(void)
{
	CHECK(flmem_quiet_stop_fits_kernel("5.3.0-1-arm64"));
	CHECK(flmem_quiet_stop_fits_kernel("6.12.118+deb13-arm64"));
	CHECK(!flmem_quiet_stop_fits_kernel("5.2.21"));
	CHECK(!flmem_quiet_stop_fits_kernel("4.18.0-553.el8.aarch64"));
	CHECK(!flmem_quiet_stop_fits_kernel("unknown"));
}

static void a_chain_ends_in_its_park(void)
{
	const struct flmem_gadgets gadgets = {.syscall = SYSCALL};
	const struct flmem_candidate candidate = sleeper();

	CHECK(!flmem_quiet_stop_await_park(&process, TID, &gadgets,
					   PARK_US)); /* it still has its own sleep */
	(void)sleeper();
	looks[0].rc = 0;
	looks[1].at.number = -1; /* it is in a page fault */
	looks[2].at.pc = SYSCALL + 4;
	CHECK(flmem_quiet_stop_await_park(&process, TID, &gadgets, LONG_US) && wait_looks == 3);
	(void)sleeper();
	for (size_t i = 0; i < LOOKS; i++)
		looks[i].rc = 0;
	CHECK(!flmem_quiet_stop_await_park(&process, TID, &gadgets, PARK_US));
	looks[0].rc = -3;
	wait_looks = 0;
	CHECK(flmem_quiet_stop_await_park(&process, TID, &gadgets,
					  PARK_US)); /* a later check sees its end */
	(void)candidate;
}

int main(void)
{
	process.dirfd = open("/proc/self", O_RDONLY | O_DIRECTORY);
	calls_that_the_kernel_makes_again_may_be_stopped();
	calls_that_end_with_eintr_may_not();
	a_timeout_must_be_writable();
	only_files_that_restart_are_read();
	a_thread_must_sleep_for_a_while();
	a_thread_that_moved_begins_anew();
	all_threads_are_noted();
	the_last_look_shows_the_same_sleep();
	a_thread_that_was_awake_is_not_stopped();
	a_thread_that_is_no_candidate_is_watched();
	the_kernel_must_show_interrupted_calls();
	a_chain_ends_in_its_park();
	if (!failures)
		printf("aarch64: what may be stopped is as it should be\n");
	return failures != 0;
}
