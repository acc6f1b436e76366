/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_refiltered HOW: a thread waits in read() on standard input, and the filter that it has by
 * now would not let it make that call again as before. HOW is `kill`, `error` or `trace` (another
 * thread has set a filter for all of them since), `gone` or `silent` (another process let the call
 * pass, and has ended since, or answers no more), or `sleep` (the thread sleeps, and a filter that
 * was set since kills for restart_syscall). The main thread waits for a lock.
 */
#include "safe_common.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static const char *how;
static int notifications;

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
	struct timespec time = {.tv_sec = 2};
	char byte;

	(void)unused;
	if (is_notified())
		notifications = set_filter(SECCOMP_RET_USER_NOTIF, SYS_read,
					   SECCOMP_FILTER_FLAG_NEW_LISTENER);
	thread_started();
	if (strcmp(how, "sleep") == 0 ? syscall(SYS_nanosleep, &time, NULL) != 0
				      : read(STDIN_FILENO, &byte, 1) != 1)
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

static void change_filter(void)
{
	const bool kills = strcmp(how, "kill") == 0 || strcmp(how, "sleep") == 0;

	set_filter(kills		       ? SECCOMP_RET_KILL_PROCESS
		   : strcmp(how, "error") == 0 ? SECCOMP_RET_ERRNO | EPERM
					       : SECCOMP_RET_TRACE,
		   strcmp(how, "sleep") == 0 ? SYS_restart_syscall : SYS_read,
		   SECCOMP_FILTER_FLAG_TSYNC);
}

int main(int argc, char **argv)
{
	const struct timespec moment = {.tv_nsec = 50000000};

	if (argc != 2)
		victim_die("usage: safe_refiltered HOW");
	how = argv[1];
	victim_open();
	heap_spread();
	pthread_mutex_lock(&held);
	threads_start(1, wait_for_input, NULL);
	if (is_notified())
		pass_first_call();
	nanosleep(&moment, NULL); /* it is in its call by now */
	if (!is_notified())
		change_filter();
	if (strcmp(how, "gone") == 0)
		close(notifications);
	victim_ready();
	pthread_mutex_lock(&held);
	return 0;
}
