/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_supervisor COMMAND...: decides about the faccessat() of COMMAND (seccomp user notification),
 * as sandboxes do, and allows it each time. Its only thread waits for the next one in poll(). A
 * COMMAND that stops this thread and then makes the call waits for itself. Ends as COMMAND does;
 * status 77 where that is not possible.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIP	       77
#define SYS_FACCESSAT2 439 /* Linux 5.8; older C libraries do not define it */

static int supervise_calls(void)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_faccessat, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_FACCESSAT2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(rows) / sizeof(*rows), rows};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &program);
}

/* It shares the table of descriptors, so that its parent has the one for the notices. */
static void run(int reply, char **command)
{
	int notices;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	notices = supervise_calls();

	if (notices < 0)
		_exit(SKIP);
	(void)!write(reply, &notices, sizeof(notices));
	if (unshare(CLONE_FILES))
		_exit(1);
	close(notices);
	execv(command[0], command);
	_exit(127);
}

static void allow_next(int notices)
{
	struct seccomp_notif call = {0};
	struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	if (ioctl(notices, SECCOMP_IOCTL_NOTIF_RECV, &call))
		return;
	answer.id = call.id;
	(void)ioctl(notices, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

int main(int argc, char **argv)
{
	struct pollfd notices = {.events = POLLIN};
	int ends[2], status;
	pid_t child;

	if (argc < 2 || pipe2(ends, O_CLOEXEC))
		return 1;
	child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		run(ends[1], argv + 1);
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (notices.fd || poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, 10) < 1)
			;
		else if (read(ends[0], &notices.fd, sizeof(notices.fd)) != sizeof(notices.fd))
			return 1;
		if (notices.fd && poll(&notices, 1, -1) == 1 && notices.revents & POLLIN)
			allow_next(notices.fd);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
