/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_refiltered HOW: a thread waits in read() on standard input, and the filter that it has by
 * now would not let it make that call again as before. HOW is `kill`, `error` or `trace` (another
 * thread has set a filter for all of them since), `gone` or `silent` (another process let the call
 * pass, and has ended since, or answers no more). The main thread waits for a lock.
 */
#include "safe_common.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static const char *how;
static int notifications;
static _Atomic pid_t waiting;

static int set_filter(uint32_t action, int number, unsigned flags)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(rows) / sizeof(*rows), rows};
	long made;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		victim_die("no_new_privs");
	made = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (made < 0)
		victim_die("seccomp");
	return (int)made;
}

static bool is_notified(void)
{
	return strcmp(how, "gone") == 0 || strcmp(how, "silent") == 0;
}

static void *wait_for_input(void *unused)
{
	char byte;

	(void)unused;
	if (is_notified())
		notifications = set_filter(SECCOMP_RET_USER_NOTIF, SYS_read,
					   SECCOMP_FILTER_FLAG_NEW_LISTENER);
	atomic_store(&waiting, (pid_t)syscall(SYS_gettid));
	thread_started();
	if (read(STDIN_FILENO, &byte, 1) != 1)
		victim_fail("the wait ended: %s", strerror(errno));
	victim_round();
	pause();
	return NULL;
}

static void pass_first_call(void)
{
	struct seccomp_notif call = {0};
	struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	if (ioctl(notifications, SECCOMP_IOCTL_NOTIF_RECV, &call))
		victim_die("no notification");
	answer.id = call.id;
	if (ioctl(notifications, SECCOMP_IOCTL_NOTIF_SEND, &answer))
		victim_die("no answer");
}

/* Reports whether that file of the thread begins with a text. */
static bool begins(const char *file, const char *text)
{
	char path[64], line[256] = "";
	FILE *opened;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)atomic_load(&waiting), file);
	opened = fopen(path, "r");
	if (!opened || !fgets(line, sizeof(line), opened))
		line[0] = '\0';
	if (opened)
		fclose(opened);
	return strncmp(line, text, strlen(text)) == 0;
}

/* Waits until the thread is in read() (0 on x86-64) on the standard input. */
static void await_call(void)
{
	const struct timespec moment = {.tv_nsec = 10000000};

	do
		nanosleep(&moment, NULL);
	while (!begins("syscall", "0 0x0 ") || begins("wchan", "seccomp"));
}

static void change_filter(void)
{
	set_filter(strcmp(how, "kill") == 0    ? SECCOMP_RET_KILL_PROCESS
		   : strcmp(how, "error") == 0 ? SECCOMP_RET_ERRNO | EPERM
					       : SECCOMP_RET_TRACE,
		   SYS_read, SECCOMP_FILTER_FLAG_TSYNC);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		victim_die("usage: safe_refiltered HOW");
	how = argv[1];
	victim_open();
	heap_spread();
	pthread_mutex_lock(&held);
	threads_start(1, wait_for_input, NULL);
	if (is_notified())
		pass_first_call();
	await_call();
	if (!is_notified())
		change_filter();
	if (strcmp(how, "gone") == 0)
		close(notifications);
	victim_ready();
	pthread_mutex_lock(&held);
	return 0;
}
