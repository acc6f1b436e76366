/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of sending and connecting with SO_SNDTIMEO: they return plain EINTR when interrupted, and
 * nothing was done.
 */
#include "safe_cases.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "safe_common.h"

#define FILLERS 4

static void open_sender(struct site *site)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
		victim_die("socketpair");
	site->read_fd = fds[0];
	site->write_fd = fds[1];
	case_limit_socket(site->write_fd, SO_SNDTIMEO, CASE_PATIENCE_MS);
}

static void fill(struct site *site)
{
	while (send(site->write_fd, site->buffer, sizeof(site->buffer), MSG_DONTWAIT) > 0)
		;
}

/* Reads everything, so that the sender has room whatever the kernel counts. */
static void wake_sender(struct site *site)
{
	char bytes[4096];

	while (recv(site->read_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void arm_write(struct site *site, struct probe *probe)
{
	fill(site);
	case_call(probe, SYS_write, (uint64_t)site->write_fd, case_word(site->buffer), 1, 0);
}

static void arm_writev(struct site *site, struct probe *probe)
{
	fill(site);
	site->vector = (struct iovec){site->buffer, 1};
	case_call(probe, SYS_writev, (uint64_t)site->write_fd, case_word(&site->vector), 1, 0);
}

static void arm_sendto(struct site *site, struct probe *probe)
{
	arm_write(site, probe);
	probe->number = SYS_sendto;
}

static void arm_sendmsg(struct site *site, struct probe *probe)
{
	arm_writev(site, probe);
	site->message = (struct mmsghdr){.msg_hdr = {.msg_iov = &site->vector, .msg_iovlen = 1}};
	case_call(probe, SYS_sendmsg, (uint64_t)site->write_fd, case_word(&site->message.msg_hdr),
		  0, 0);
}

static void arm_sendmmsg(struct site *site, struct probe *probe)
{
	arm_sendmsg(site, probe);
	case_call(probe, SYS_sendmmsg, (uint64_t)site->write_fd, case_word(&site->message), 1, 0);
}

static void open_sendfile(struct site *site)
{
	open_sender(site);
	site->wait_fd = memfd_create("victim", MFD_CLOEXEC);
	if (site->wait_fd < 0 || write(site->wait_fd, "!", 1) != 1)
		victim_die("memfd_create");
}

static void arm_sendfile(struct site *site, struct probe *probe)
{
	fill(site);
	site->offset = 0;
	case_call(probe, SYS_sendfile, (uint64_t)site->write_fd, (uint64_t)site->wait_fd,
		  case_word(&site->offset), 1);
}

static int splice_fds[2];

static void open_splice(struct site *site)
{
	open_sender(site);
	if (pipe(splice_fds) != 0)
		victim_die("pipe");
}

static void arm_splice(struct site *site, struct probe *probe)
{
	int waiting;

	fill(site);
	if (ioctl(splice_fds[0], FIONREAD, &waiting) != 0 ||
	    (!waiting && write(splice_fds[1], "!", 1) != 1))
		victim_die("pipe");
	case_call(probe, SYS_splice, (uint64_t)splice_fds[0], 0, (uint64_t)site->write_fd, 0);
	probe->args[4] = 1;
}

/* Receiving several messages belongs here, too: no thread is borrowed from it. */
static void open_receiver(struct site *site)
{
	open_sender(site);
	case_limit_socket(site->read_fd, SO_RCVTIMEO, CASE_PATIENCE_MS);
}

static void arm_recvmmsg(struct site *site, struct probe *probe)
{
	site->vector = (struct iovec){site->buffer, 1};
	site->message = (struct mmsghdr){.msg_hdr = {.msg_iov = &site->vector, .msg_iovlen = 1}};
	case_call(probe, SYS_recvmmsg, (uint64_t)site->read_fd, case_word(&site->message), 1, 0);
}

/* A listening socket whose queue is full keeps connect() waiting. */
static struct {
	struct sockaddr_storage bytes;
	socklen_t length;
} address;

static int new_socket(int flags)
{
	int fd = socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	if (fd < 0)
		victim_die("socket");
	return fd;
}

static void listen_there(struct site *site)
{
	site->wait_fd = new_socket(SOCK_NONBLOCK);
	if (bind(site->wait_fd, (struct sockaddr *)&address.bytes, address.length) != 0 ||
	    listen(site->wait_fd, 0) != 0)
		victim_die("listen");
	address.length = sizeof(address.bytes);
	getsockname(site->wait_fd, (struct sockaddr *)&address.bytes, &address.length);
}

static void open_unix_listener(struct site *site)
{
	address.bytes.ss_family = AF_UNIX;
	address.length = sizeof(sa_family_t); /* the kernel chooses an abstract name */
	listen_there(site);
}

static void open_tcp_listener(struct site *site)
{
	const struct sockaddr_in loopback = {.sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	memcpy(&address.bytes, &loopback, sizeof(loopback));
	address.length = sizeof(loopback);
	listen_there(site);
}

static void arm_connect(struct site *site, struct probe *probe)
{
	for (int i = 0; i < FILLERS; i++) {
		int fd = new_socket(SOCK_NONBLOCK);

		(void)connect(fd, (struct sockaddr *)&address.bytes, address.length);
		close(fd);
	}
	site->write_fd = new_socket(0);
	case_limit_socket(site->write_fd, SO_SNDTIMEO, CASE_PATIENCE_MS);
	case_call(probe, SYS_connect, (uint64_t)site->write_fd, case_word(&address.bytes),
		  address.length, 0);
}

static void wake_connect(struct site *site)
{
	for (int fd; (fd = accept(site->wait_fd, NULL, NULL)) >= 0;)
		close(fd);
}

static bool connected(struct site *site, int64_t result)
{
	return close(site->write_fd) == 0 && result == 0;
}

const struct wait_case wait_cases_send[] = {
	{"write-patient", false, open_sender, arm_write, case_gives_one, wake_sender, NULL},
	{"writev-patient", false, open_sender, arm_writev, case_gives_one, wake_sender, NULL},
	{"sendto-patient", false, open_sender, arm_sendto, case_gives_one, wake_sender, NULL},
	{"sendmsg-patient", false, open_sender, arm_sendmsg, case_gives_one, wake_sender, NULL},
	{"sendmmsg-patient", false, open_sender, arm_sendmmsg, case_gives_one, wake_sender, NULL},
	{"sendfile-patient", false, open_sendfile, arm_sendfile, case_gives_one, wake_sender, NULL},
	{"splice-patient", false, open_splice, arm_splice, case_gives_one, wake_sender, NULL},
	{"recvmmsg-patient", false, open_receiver, arm_recvmmsg, case_gives_one, case_wake_pipe,
	 NULL},
	{0},
};

const struct wait_case wait_cases_connect[] = {
	{"connect-patient", false, open_unix_listener, arm_connect, connected, wake_connect, NULL},
	{"connect-tcp-patient", false, open_tcp_listener, arm_connect, connected, wake_connect,
	 NULL},
	{0},
};
