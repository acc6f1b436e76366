/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process makes a system call for this one (seccomp user notification): it takes each call
 * of ppoll(), waits for a byte of input, and returns how many it has taken. This process prints
 * that number. A call that is interrupted meanwhile is taken once more, and what was done for it is
 * lost.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define BLOCKS	   4000
#define BLOCK_SIZE 8000
#define SKIP	   77

struct passed {
	struct msghdr message;
	struct iovec text;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char byte;
};

static void prepare(struct passed *passed)
{
	*passed = (struct passed){.byte = 'x'};
	passed->text = (struct iovec){&passed->byte, 1};
	passed->message = (struct msghdr){.msg_iov = &passed->text,
					  .msg_iovlen = 1,
					  .msg_control = passed->control,
					  .msg_controllen = sizeof(passed->control)};
}

static int give(int socket, int fd)
{
	struct passed passed;
	struct cmsghdr *head;

	prepare(&passed);
	head = CMSG_FIRSTHDR(&passed.message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	return sendmsg(socket, &passed.message, 0) == 1 ? 0 : -1;
}

static int take(int socket)
{
	struct passed passed;
	int fd = -1;

	prepare(&passed);
	if (recvmsg(socket, &passed.message, 0) == 1 && CMSG_FIRSTHDR(&passed.message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&passed.message)), sizeof(fd));
	return fd;
}

static void supervise(int notifications)
{
	struct seccomp_notif call = {0};
	struct seccomp_notif_resp answer = {0};
	char byte;

	for (int taken = 1;; taken++) {
		memset(&call, 0, sizeof(call));
		if (ioctl(notifications, SECCOMP_IOCTL_NOTIF_RECV, &call))
			_exit(1);
		(void)!write(STDOUT_FILENO, "ready\n", 6);
		if (read(STDIN_FILENO, &byte, 1) != 1)
			_exit(1);
		answer = (struct seccomp_notif_resp){.id = call.id, .val = taken};
		(void)ioctl(notifications, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
}

static int set_filter(void)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ppoll, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(rows) / sizeof(*rows), rows};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &program);
}

int main(void)
{
	static void *blocks[BLOCKS];
	int ends[2], notifications;
	pid_t supervisor;

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(BLOCK_SIZE), 1, BLOCK_SIZE);
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	supervisor = fork();
	if (supervisor < 0)
		return 1;
	if (!supervisor) {
		prctl(PR_SET_PDEATHSIG, 9);
		supervise(take(ends[1]));
	}
	notifications = set_filter();
	if (notifications < 0)
		return SKIP;
	if (give(ends[0], notifications))
		return 1;
	close(notifications);
	for (;;) {
		char line[32];
		int length = snprintf(line, sizeof(line), "result %ld\n",
				      syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0));

		(void)!write(STDOUT_FILENO, line, (size_t)length);
	}
}
