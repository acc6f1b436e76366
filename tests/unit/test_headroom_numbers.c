/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests limits, and the numbers that count for them, as the kernel could show them: the last number
 * that suffices.
 */
#include "borrowed.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/limits/cgroup.h"
#include "proc/limits/headroom.h"

#define BYTES	    (UINT64_C(16) << 20)
#define TASKS_SPARE 16U
#define UNREADABLE  ""

/* Files of the process and of the host; a row of a test replaces one of them. */
struct shown {
	const char *name, *text;
};

#define NAME   "Name:\tx\nState:\tS (sleeping)\n"
#define AS     "Max address space         unlimited            unlimited            bytes\n"
#define DATA   "Max data size             unlimited            unlimited            bytes\n"
#define STACK  "Max stack size            8388608              unlimited            bytes\n"
#define LOCKED "Max locked memory         unlimited            unlimited            bytes\n"
#define TASKS  "Max processes             unlimited            unlimited            processes\n"

static const struct shown usual[] = {
	{"limits", AS DATA STACK LOCKED TASKS},
	{"status", NAME "VmSize:\t1 kB\nVmData:\t1 kB\nVmLck:\t0 kB\nCapEff:\t0000000000000000\n"},
	{"maps", "one\n"},
	{"/proc/sys/vm/max_map_count", "65530\n"},
	{"/proc/sys/vm/overcommit_memory", "0\n"},
	{"/proc/meminfo", "MemTotal: 1 kB\n"},
	{"/proc/loadavg", "0.10 0.20 0.30 1/4000000 123\n"},
};

static struct flmem_process process = FLMEM_PROCESS_INIT;
static struct shown own[2];
static uint64_t group_places = UINT64_MAX;
static bool is_status_shown; /* show the real file */

static const char *find_text(const struct shown *rows, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].name && strcmp(rows[i].name, name) == 0)
			return rows[i].text;
	return NULL;
}

int __real_flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf);
int __wrap_flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf);
int __wrap_flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf)
{
	const char *text = find_text(own, FLMEM_ARRAY_SIZE(own), path);

	if (!text)
		text = find_text(usual, FLMEM_ARRAY_SIZE(usual), path);
	if (is_status_shown && strcmp(path, "status") == 0)
		text = NULL;
	if (!text || (dirfd != AT_FDCWD && dirfd != process.dirfd))
		return __real_flmem_io_read_file_at(dirfd, path, limit, buf);
	flmem_buf_puts(buf, text);
	return *text ? 0 : -EACCES;
}

uint64_t __wrap_flmem_cgroups_tasks_left(int rootfd, const struct flmem_process *of);
uint64_t __wrap_flmem_cgroups_tasks_left(int rootfd, const struct flmem_process *of)
{
	(void)rootfd;
	(void)of;
	return group_places;
}

struct row {
	struct shown own[2];
	const char *refused; /* part of the reason; NULL: there is enough */
};

#define SPACE "address space"
#define HOST  "vm.overcommit_memory is 2"
#define MAPS  "as many mappings"
#define LOCKS "locked memory"
#define MANY  "10000000000000000000000000000"

static const struct row memory_rows[] = {
	{{{NULL, NULL}}, NULL},
	{{{"limits", UNREADABLE}}, SPACE},
	{{{"limits", DATA STACK LOCKED}}, SPACE},
	{{{"limits", "Max address space " MANY MANY "\n" DATA STACK LOCKED}}, SPACE},
	{{{"limits", "Max address space 00000000000000009000000000000000\n" DATA STACK LOCKED}},
	 SPACE}, /* one digit more than is read */
	{{{"limits", "Max address space 9000000000000000\n" DATA STACK LOCKED}}, NULL},
	/* 1 KiB is used, and 16 MiB are needed. */
	{{{"limits", AS "Max data size 16778240\n" STACK LOCKED}}, NULL},
	{{{"limits", AS "Max data size 16778239\n" STACK LOCKED}}, "its data"},
	{{{"limits", AS "Max data size 1024\n" STACK LOCKED}}, "its data"},
	{{{"limits", AS "Max data size 1023\n" STACK LOCKED}}, "its data"},
	{{{"limits", AS "Max data size 9000000000\n" STACK LOCKED}, {"status", NAME}}, "its data"},
	/* A stack without limit counts with the usual size. */
	{{{"limits", AS DATA "Max stack size unlimited\n" LOCKED}}, NULL},
	{{{"limits", AS DATA LOCKED}}, NULL},
	{{{"limits", AS "Max data size 16778240\nMax stack size 8388609\n" LOCKED}}, "its data"},
	{{{"limits", AS "Max data size 16778241\nMax stack size 8388609\n" LOCKED}}, NULL},
	{{{"limits", AS "Max data size 16778240\nMax stack size 8388608\n" LOCKED}}, NULL},
	{{{"limits", AS "Max data size 16778240\nMax stack size 65536\n" LOCKED}}, NULL},
	{{{"limits", AS "Max data size 16778240\nMax stack size unlimited\n" LOCKED}}, NULL},
	{{{"limits", AS DATA "Max stack size unlimited\n" LOCKED},
	  {"status", NAME "VmSize:\t1 kB\nVmData:\t1 kB\nVmLck:\t64 kB\n"}},
	 NULL},
	/* CAP_IPC_LOCK alone lifts the limit on locked memory. */
	{{{"limits", AS DATA STACK "Max locked memory 65536\n"},
	  {"status", NAME "VmLck:\t64 kB\nCapEff:\t0000000000000000\n"}},
	 LOCKS},
	{{{"limits", AS DATA STACK "Max locked memory 65536\n"},
	  {"status", NAME "VmLck:\t64 kB\nCapEff:\t0000000000004000\n"}},
	 NULL},
	{{{"limits", AS DATA STACK "Max locked memory 65536\n"},
	  {"status", NAME "VmLck:\t64 kB\nCapEff:\tffffffffffffbfff\n"}},
	 LOCKS},
	{{{"limits", AS DATA STACK "Max locked memory 65536\n"},
	  {"status", NAME "VmLck:\t64 kB\n"}},
	 LOCKS},
	{{{"limits", AS DATA STACK "Max locked memory 65536\n"}, {"status", UNREADABLE}}, LOCKS},
	{{{"limits", AS DATA STACK "Max locked memory 65536\n"}}, NULL},
	/* 64 mappings more than there are. */
	{{{"/proc/sys/vm/max_map_count", "66\n"}, {"maps", "a\nb\n"}}, NULL},
	{{{"/proc/sys/vm/max_map_count", "66\n"}, {"maps", "a\nb\nc\n"}}, MAPS},
	{{{"/proc/sys/vm/max_map_count", UNREADABLE}}, MAPS},
	{{{"/proc/sys/vm/max_map_count", "many\n"}}, MAPS},
	{{{"maps", UNREADABLE}}, MAPS},
	/* Rows about the host; 16 MiB are needed. */
	{{{"/proc/sys/vm/overcommit_memory", UNREADABLE}}, HOST},
	{{{"/proc/sys/vm/overcommit_memory", "1\n"}}, NULL},
	{{{"/proc/sys/vm/overcommit_memory", "2\n"}}, HOST},
	{{{"/proc/sys/vm/overcommit_memory", "2\n"}, {"/proc/meminfo", UNREADABLE}}, HOST},
	{{{"/proc/sys/vm/overcommit_memory", "2\n"},
	  {"/proc/meminfo", "x\nCommitLimit: 16385 kB\nCommitted_AS: 1 kB\n"}},
	 NULL},
	{{{"/proc/sys/vm/overcommit_memory", "2\n"},
	  {"/proc/meminfo", "x\nCommitLimit: 16384 kB\nCommitted_AS: 1 kB\n"}},
	 HOST},
};

static void the_last_bytes_that_are_enough_are_accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(memory_rows); i++) {
		const struct row *row = &memory_rows[i];
		struct flmem_error err = {0};
		int rc;

		memcpy(own, row->own, sizeof(own));
		rc = flmem_headroom_check_thread(&process, BYTES, &err);
		memset(own, 0, sizeof(own));
		if (rc != (row->refused ? FLMEM_EUNSAFE : 0) ||
		    (rc && !strstr(err.message, row->refused)))
			fail_msg("row %zu: %s", i, rc ? err.message : "accepted");
	}
}

/* Checks that the smaller one of the group's and the user's numbers counts. */
static int check_places(const char *limits, const char *status, struct flmem_error *err)
{
	int rc;

	*err = (struct flmem_error){0};
	own[0] = (struct shown){"limits", limits};
	own[1] = (struct shown){"status", status};
	rc = flmem_headroom_check_tasks(&process, err);
	memset(own, 0, sizeof(own));
	return rc;
}

#define PLACES(number) "Max processes " #number " unlimited processes\n"
#define NOBODY	       NAME "Uid:\t4000000\t4000000\t4000000\t4000000\n"

static void the_places_of_a_group_are_counted(void **state)
{
	struct flmem_error err;

	(void)state;
	group_places = TASKS_SPARE;
	assert_int_equal(check_places(TASKS, NOBODY, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "may start 16 more threads (pids.max)"));
	group_places = TASKS_SPARE + 1;
	assert_int_equal(check_places(TASKS, NOBODY, &err), 0);
	group_places = UINT64_MAX;
}

/* No process belongs to this user. */
static void the_places_of_a_user_are_counted(void **state)
{
	struct flmem_error err;

	(void)state;
	assert_int_equal(check_places(UNREADABLE, NOBODY, &err), FLMEM_EUNSAFE);
	assert_int_equal(check_places(TASKS, UNREADABLE, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "may start 0 more threads (ulimit -u)"));
	assert_int_equal(check_places(PLACES(16), NOBODY, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "user 4000000 of process"));
	assert_int_equal(check_places(PLACES(17), NOBODY, &err), 0);
}

/* In the first user namespace, CAP_SYS_RESOURCE or CAP_SYS_ADMIN is enough. */
static void who_may_start_any_number_is_known(void **state)
{
	static const struct {
		const char *capabilities;
		bool any;
	} rows[] = {
		{NOBODY "CapEff:\t0000000001000000\n", true},
		{NOBODY "CapEff:\t0000000000200000\n", true},
		{NOBODY "CapEff:\tfffffffffedfffff\n", false},
		{NOBODY, false},
	};
	struct stat namespace;

	(void)state;
	assert_int_equal(stat("/proc/self/ns/user", &namespace), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		const bool any = rows[i].any && namespace.st_ino == 0xEFFFFFFDU;
		struct flmem_error err;

		if (check_places(PLACES(1), rows[i].capabilities, &err) !=
		    (any ? 0 : FLMEM_EUNSAFE))
			fail_msg("row %zu: %s", i, err.message);
	}
}

static struct {
	_Atomic int ready;
} * page;

static void *be_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Runs seven threads of a user with no other processes. */
static void be_of_user(void)
{
	const unsigned user = 300000U + (unsigned)getpid();
	pthread_t thread;
	int rc = setgid(user) || setuid(user);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 6 && !rc; i++)
		rc = pthread_create(&thread, NULL, be_thread, NULL);
	atomic_store(&page->ready, rc ? -1 : 1);
	for (;;)
		pause();
}

/* On a host with few threads no user has more; the kernel counts threads. */
static void a_host_with_few_threads_needs_no_count(void **state)
{
	struct flmem_error err = {0};
	bool started;
	pid_t child;

	(void)state;
	page = child_share(sizeof(*page));
	assert_non_null(page);
	child = child_start(be_of_user);
	assert_true(child > 0);
	await_true(atomic_load(&page->ready));
	started = atomic_load(&page->ready) > 0;
	if (started) {
		flmem_process_close(&process);
		assert_int_equal(flmem_process_open(child, &process, NULL), 0);
		is_status_shown = true;
		own[0] = (struct shown){"limits", PLACES(23)};
		own[1] = (struct shown){"/proc/loadavg", "0.1 0.2 0.3 1/7 99\n"};
		assert_int_equal(flmem_headroom_check_tasks(&process, &err), FLMEM_EUNSAFE);
		assert_non_null(strstr(err.message, "may start 16 more threads (ulimit -u)"));
		own[1].text = "0.1 0.2 0.3 1/6 99\n";
		assert_int_equal(flmem_headroom_check_tasks(&process, &err), 0);
		own[1].text = UNREADABLE;
		assert_int_equal(flmem_headroom_check_tasks(&process, &err), FLMEM_EUNSAFE);
		own[1].text = "0.1 0.2 0.3 1/30 99\n";
		assert_int_equal(flmem_headroom_check_tasks(&process, &err), FLMEM_EUNSAFE);
		/* Without a limit no count is needed. */
		own[0].text = TASKS;
		assert_int_equal(flmem_headroom_check_tasks(&process, &err), 0);
	}
	child_end(child);
	if (!started) {
		print_message("SKIP: needs root\n");
		skip();
	}
}

static int open_own_process(void **state)
{
	(void)state;
	return flmem_process_open(getpid(), &process, NULL);
}

static int close_own_process(void **state)
{
	(void)state;
	flmem_process_close(&process);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_bytes_that_are_enough_are_accepted),
		cmocka_unit_test(the_places_of_a_group_are_counted),
		cmocka_unit_test(the_places_of_a_user_are_counted),
		cmocka_unit_test(who_may_start_any_number_is_known),
		cmocka_unit_test(a_host_with_few_threads_needs_no_count),
	};

	return cmocka_run_group_tests_name("headroom_numbers", tests, open_own_process,
					   close_own_process);
}
