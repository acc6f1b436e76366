/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a thread that differs from the first one of its process in a property that a new thread
 * would inherit.
 */
#include "borrowed.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/text/buf.h"
#include "proc/process.h"
#include "proc/task_context.h"

#define NOBODY	    65534
#define GROUP	    65533
#define FIRST_GROUP 65532

/* The page that the child shares. */
struct page {
	_Atomic pid_t thread;
	_Atomic int error;
};

struct row {
	const char *name;
	int (*change)(void); /* changes the calling thread alone; -1 with errno on failure */
	const char *differs; /* the difference that is found; NULL: a new thread may inherit it */
};

static struct page *page;
static const struct row *current;

/* Identities that the kernel seems to show of the first thread, and of another; NULL: its own. */
static const char *identity, *other_identity;
#define UNREADABLE ""

int __real_flmem_process_read(const struct flmem_process *process, const char *name,
			      struct flmem_buf *buf);
int __wrap_flmem_process_read(const struct flmem_process *process, const char *name,
			      struct flmem_buf *buf);
int __wrap_flmem_process_read(const struct flmem_process *process, const char *name,
			      struct flmem_buf *buf)
{
	const char *text = strncmp(name, "task/", 5) == 0 ? other_identity : identity;

	if (!text)
		return __real_flmem_process_read(process, name, buf);
	flmem_buf_puts(buf, text);
	return *text ? 0 : -EACCES;
}

/* There seem to be more processors than a set holds. */
static bool has_many_processors;

int __real_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set)
{
	if (!has_many_processors)
		return __real_sched_getaffinity(tid, size, set);
	errno = EINVAL;
	return -1;
}

static int change_nothing(void)
{
	return 0;
}

static int change_descriptors(void)
{
	return unshare(CLONE_FILES);
}

static int change_folder(void)
{
	return unshare(CLONE_FS);
}

/* These are the system calls themselves: the C library's functions are for all threads. */
static int change_user(void)
{
	return (int)syscall(SYS_setresuid, -1L, (long)NOBODY, -1L);
}

static int change_fs_user(void)
{
	syscall(SYS_setfsuid, (long)NOBODY);
	return 0;
}

static int change_group(void)
{
	return (int)syscall(SYS_setresgid, -1L, (long)GROUP, -1L);
}

static int change_groups(void)
{
	const gid_t group = GROUP;

	return (int)syscall(SYS_setgroups, 1L, &group);
}

/* Adds a group after those of the thread, with which its line in /proc begins. */
static int change_last_group(void)
{
	gid_t groups[64] = {0};
	const long count = syscall(SYS_getgroups, 63L, groups);

	if (count < 0)
		return -1;
	groups[count] = GROUP;
	return (int)syscall(SYS_setgroups, count + 1, groups);
}

static int change_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data))
		return -1;
	data[0].effective &= ~(1U << CAP_KILL);
	return (int)syscall(SYS_capset, &head, data);
}

static int change_bounds(void)
{
	return prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0);
}

static int change_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int change_network(void)
{
	return unshare(CLONE_NEWNET);
}

static int change_host_name(void)
{
	return unshare(CLONE_NEWUTS);
}

static int change_ipc(void)
{
	return unshare(CLONE_NEWIPC);
}

static int change_view_of_groups(void)
{
	return unshare(0x02000000 /* CLONE_NEWCGROUP */);
}

static int change_mounts(void)
{
	return unshare(CLONE_NEWNS);
}

static int change_namespace_of_children(void)
{
	return unshare(CLONE_NEWPID);
}

static int change_clocks_of_children(void)
{
	return unshare(0x80 /* CLONE_NEWTIME */);
}

static int change_class(void)
{
	const struct sched_param none = {0};

	return sched_setscheduler(0, SCHED_BATCH, &none);
}

static int change_priority(void)
{
	return setpriority(PRIO_PROCESS, 0, 5);
}

static int change_disk_priority(void)
{
	return (int)syscall(SYS_ioprio_set, 1L, 0L, 3L << 13 /* only if the disk is idle */);
}

/* As older kernels show a thread that has not used a disk yet. */
static int name_usual_disk_priority(void)
{
	return (int)syscall(SYS_ioprio_set, 1L, 0L, (2L << 13) + 4);
}

static int change_processors(void)
{
	cpu_set_t set, one;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -1;
	if (CPU_COUNT(&set) < 2) {
		errno = ENOSYS;
		return -1;
	}
	CPU_ZERO(&one);
	for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &set))
			CPU_SET(i, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

#define FILES	   "has a separate descriptor table or working directory"
#define IDENTITY   "has a different identity (ids, capabilities, umask or no_new_privs)"
#define NAMESPACES "has different namespaces"
#define SCHEDULING "has a different scheduling policy, priority or affinity"

static const struct row rows[] = {
	{"nothing", change_nothing, NULL},
	{"descriptors", change_descriptors, FILES},
	{"folder and umask", change_folder, FILES},
	{"user", change_user, IDENTITY},
	{"user for files", change_fs_user, IDENTITY},
	{"group", change_group, IDENTITY},
	{"groups", change_groups, IDENTITY},
	{"one more group", change_last_group, IDENTITY},
	{"capabilities", change_capabilities, IDENTITY},
	{"capability bounds", change_bounds, IDENTITY},
	{"no_new_privs", change_privileges, IDENTITY},
	{"network", change_network, NAMESPACES},
	{"host name", change_host_name, NAMESPACES},
	{"System V IPC", change_ipc, NAMESPACES},
	{"control groups", change_view_of_groups, NAMESPACES},
	{"mounts, which takes the folder along", change_mounts, FILES},
	{"PIDs of children", change_namespace_of_children, NAMESPACES},
	{"clocks of children", change_clocks_of_children, NAMESPACES},
	{"scheduling class", change_class, SCHEDULING},
	{"priority", change_priority, SCHEDULING},
	{"priority for disks", change_disk_priority, SCHEDULING},
	{"usual priority for disks", name_usual_disk_priority, NULL},
	{"processors", change_processors, SCHEDULING},
};

static void *be_thread(void *unused)
{
	if (current->change() < 0)
		atomic_store(&page->error, errno);
	atomic_store(&page->thread, gettid());
	for (;;)
		pause();
	return unused;
}

static void be_child(void)
{
	const gid_t group = FIRST_GROUP;
	pthread_t thread;

	(void)syscall(SYS_setgroups, 1L, &group); /* where the thread may set its groups */
	if (pthread_create(&thread, NULL, be_thread, NULL))
		_exit(1);
	for (;;)
		pause();
}

/*
 * Reports whether the difference is found. The caller skips the test if only privileges were
 * missing.
 */
static bool is_found(const struct row *row)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const char *differs = "";
	pid_t child;

	current = row;
	*page = (struct page){0};
	child = child_start(be_child);
	assert_true(child > 0);
	await_true(page->thread);
	if (page->error) {
		print_message("SKIP: '%s' cannot be changed here: %s\n", row->name,
			      strerror(page->error));
		child_end(child);
		return false;
	}
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_null(flmem_task_context_differs(&process, child));
	differs = flmem_task_context_differs(&process, page->thread);
	child_end(child);
	if (!differs != !row->differs || (differs && strcmp(differs, row->differs) != 0))
		fail_msg("%s: %s", row->name, differs ? differs : "no difference");
	return true;
}

static void every_difference_is_found(void **state)
{
	size_t skipped = 0;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		skipped += !is_found(&rows[i]);
	if (skipped)
		skip();
}

/* A thread that has ended shows nothing, but this does not make it suitable. */
static void an_unknown_thread_differs(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	pid_t child;

	(void)state;
	current = &rows[0];
	*page = (struct page){0};
	child = child_start(be_child);
	assert_true(child > 0);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_non_null(flmem_task_context_differs(&process, INT32_MAX));
	child_end(child);
}

/* Compares the second thread of a child that changes nothing. */
static const char *compare_unchanged(void)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const char *differs;
	pid_t child;

	current = &rows[0];
	*page = (struct page){0};
	child = child_start(be_child);
	assert_true(child > 0);
	await_true(page->thread);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	differs = flmem_task_context_differs(&process, page->thread);
	child_end(child);
	return differs;
}

static void lines_that_a_kernel_lacks_are_equal(void **state)
{
	static const struct {
		const char *one, *other, *differs;
	} texts[] = {
		{"x\nUid:\t0\n", "x\nUid:\t0\n", NULL},
		{"x\nUid:\t0\n", "x\nUid:\t0\nUmask:\t0\n", IDENTITY},
		{"x\nUid:\t0\nUmask:\t0\n", "x\nUid:\t0\n", IDENTITY},
		/* The second thread may do more than the first. */
		{"x\nNoNewPrivs:\t1\n", "x\nNoNewPrivs:\t0\n", NULL},
		{"x\nNoNewPrivs:\t1\n", "x\nNoNewPrivs:\t1\n", NULL},
		{"x\nNoNewPrivs:\t0\n", "x\nNoNewPrivs:\t1\n", IDENTITY},
		{UNREADABLE, "x\n", IDENTITY},
		{"x\n", UNREADABLE, IDENTITY},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++) {
		const char *differs;

		identity = texts[i].one;
		other_identity = texts[i].other;
		differs = compare_unchanged();
		identity = other_identity = NULL;
		if (!differs != !texts[i].differs)
			fail_msg("row %zu: %s", i, differs ? differs : "no difference");
	}
}

static void processors_that_cannot_be_read_are_equal(void **state)
{
	(void)state;
	has_many_processors = true;
	assert_null(compare_unchanged());
	has_many_processors = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_difference_is_found),
		cmocka_unit_test(an_unknown_thread_differs),
		cmocka_unit_test(lines_that_a_kernel_lacks_are_equal),
		cmocka_unit_test(processors_that_cannot_be_read_are_equal),
	};

	page = child_share(sizeof(*page));
	if (!page)
		return 1;
	return cmocka_run_group_tests_name("task_context", tests, NULL, NULL);
}
