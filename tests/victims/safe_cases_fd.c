/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for descriptors to become ready, and reading from them. */
#include "safe_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "safe_common.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static bool gives_positive(struct site *site, int64_t result)
{
	(void)site;
	return result > 0;
}

/* Opens a FIFO with a name, as programs use it to communicate. */
static void open_fifo(struct site *site)
{
	char directory[] = "/tmp/flmem-fifo-XXXXXX", path[64];

	if (!mkdtemp(directory))
		victim_die("mkdtemp");
	snprintf(path, sizeof(path), "%s/fifo", directory);
	if (mkfifo(path, 0600) != 0)
		victim_die("mkfifo");
	site->read_fd = site->write_fd = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	rmdir(directory);
	if (site->read_fd < 0)
		victim_die(path);
}

static void arm_poll_limited(struct site *site, struct probe *probe)
{
	site->poll = (struct pollfd){.fd = site->read_fd, .events = POLLIN};
	case_poll(site, probe, CASE_LIMIT_MS);
}

static void arm_poll(struct site *site, struct probe *probe)
{
	arm_poll_limited(site, probe);
	case_poll(site, probe, -1);
}

static void arm_ppoll_limited(struct site *site, struct probe *probe)
{
	case_mask(site);
	site->poll = (struct pollfd){.fd = site->read_fd, .events = POLLIN};
	case_call(probe, SYS_ppoll, case_word(&site->poll), 1, case_word(case_limit(site)),
		  case_word(&site->mask));
	probe->args[4] = KERNEL_SIGSET_BYTES;
}

static void arm_ppoll(struct site *site, struct probe *probe)
{
	arm_ppoll_limited(site, probe);
	probe->args[2] = 0;
}

static void arm_select_limited(struct site *site, struct probe *probe)
{
	FD_ZERO(&site->fds);
	FD_SET(site->read_fd, &site->fds);
	case_select(site, probe);
}

static void arm_select(struct site *site, struct probe *probe)
{
	arm_select_limited(site, probe);
	probe->args[4] = 0;
}

static void arm_pselect(struct site *site, struct probe *probe)
{
	arm_select_limited(site, probe);
	case_mask(site);
	site->mask_argument.set = &site->mask;
	site->mask_argument.size = KERNEL_SIGSET_BYTES;
	probe->number = SYS_pselect6;
	probe->args[4] = case_word(case_limit(site));
	probe->args[5] = case_word(&site->mask_argument);
}

static void open_epoll(struct site *site)
{
	struct epoll_event event = {.events = EPOLLIN};

	case_open_pipe(site);
	site->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	if (site->wait_fd < 0 ||
	    epoll_ctl(site->wait_fd, EPOLL_CTL_ADD, site->read_fd, &event) != 0)
		victim_die("epoll");
}

static void arm_epoll_limited(struct site *site, struct probe *probe)
{
	case_epoll(site, probe, CASE_LIMIT_MS);
}

static void arm_epoll(struct site *site, struct probe *probe)
{
	case_epoll(site, probe, -1);
}

static void arm_epoll_pwait_limited(struct site *site, struct probe *probe)
{
	case_mask(site);
	arm_epoll_limited(site, probe);
	probe->number = SYS_epoll_pwait;
	probe->args[4] = case_word(&site->mask);
	probe->args[5] = KERNEL_SIGSET_BYTES;
}

static void arm_epoll_pwait(struct site *site, struct probe *probe)
{
	arm_epoll_pwait_limited(site, probe);
	probe->args[3] = (uint32_t)-1;
}

static void arm_epoll_pwait2(struct site *site, struct probe *probe)
{
	arm_epoll_pwait_limited(site, probe);
	probe->number = SYS_epoll_pwait2;
	probe->args[3] = case_word(case_limit(site));
}

/* Cases of reading. */

static void arm_read(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_read, (uint64_t)site->read_fd, case_word(site->buffer), 1, 0);
}

static bool read_a_mark(struct site *site, int64_t result)
{
	return result == 1 && site->buffer[0] == '!';
}

static void open_eventfd(struct site *site)
{
	site->read_fd = site->write_fd = eventfd(0, EFD_CLOEXEC);
	if (site->read_fd < 0)
		victim_die("eventfd");
}

static void arm_eventfd(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_read, (uint64_t)site->read_fd, case_word(site->buffer),
		  sizeof(uint64_t), 0);
}

static void wake_eventfd(struct site *site)
{
	uint64_t one = 1;

	if (write(site->write_fd, &one, sizeof(one)) != sizeof(one))
		_exit(1);
}

static bool read_a_count(struct site *site, int64_t result)
{
	uint64_t count;

	memcpy(&count, site->buffer, sizeof(count));
	return result == sizeof(count) && count > 0;
}

static void open_inotify(struct site *site)
{
	char path[] = "/tmp/flmem-victim-XXXXXX";

	site->read_fd = inotify_init1(IN_CLOEXEC);
	site->write_fd = mkstemp(path);
	if (site->read_fd < 0 || site->write_fd < 0 ||
	    inotify_add_watch(site->read_fd, path, IN_ATTRIB) < 0)
		victim_die("inotify");
	unlink(path);
}

static void arm_inotify(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_read, (uint64_t)site->read_fd, case_word(site->buffer),
		  sizeof(site->buffer), 0);
}

static void wake_inotify(struct site *site)
{
	fchmod(site->write_fd, 0600);
}

static void open_terminal(struct site *site)
{
	struct termios settings;

	site->write_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (site->write_fd < 0 || grantpt(site->write_fd) != 0 || unlockpt(site->write_fd) != 0)
		victim_die("posix_openpt");
	site->read_fd = open(ptsname(site->write_fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (site->read_fd < 0 || tcgetattr(site->read_fd, &settings) != 0)
		victim_die("terminal");
	cfmakeraw(&settings);
	tcsetattr(site->read_fd, TCSANOW, &settings);
}

/* Cases of sockets. */

static void open_socket_pair(struct site *site)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
		victim_die("socketpair");
	site->read_fd = fds[0];
	site->write_fd = fds[1];
}

static void open_limited_socket(struct site *site)
{
	open_socket_pair(site);
	case_limit_socket(site->read_fd, SO_RCVTIMEO, CASE_LIMIT_MS);
}

static void open_patient_socket(struct site *site)
{
	open_socket_pair(site);
	case_limit_socket(site->read_fd, SO_RCVTIMEO, CASE_PATIENCE_MS);
}

static void arm_recv(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_recvfrom, (uint64_t)site->read_fd, case_word(site->buffer), 1, 0);
}

static void arm_readv(struct site *site, struct probe *probe)
{
	site->vector = (struct iovec){site->buffer, 1};
	case_call(probe, SYS_readv, (uint64_t)site->read_fd, case_word(&site->vector), 1, 0);
}

static void arm_recvmsg(struct site *site, struct probe *probe)
{
	site->vector = (struct iovec){site->buffer, 1};
	site->message = (struct mmsghdr){.msg_hdr = {.msg_iov = &site->vector, .msg_iovlen = 1}};
	case_call(probe, SYS_recvmsg, (uint64_t)site->read_fd, case_word(&site->message.msg_hdr), 0,
		  0);
}

/* One byte is available, for which the call does not return. */
static void arm_recv_all(struct site *site, struct probe *probe)
{
	if (write(site->write_fd, "!", 1) != 1)
		victim_die("write");
	arm_recv(site, probe);
	probe->args[2] = 2;
	probe->args[3] = MSG_WAITALL;
}

static void arm_recvmsg_all(struct site *site, struct probe *probe)
{
	if (write(site->write_fd, "!", 1) != 1)
		victim_die("write");
	arm_recvmsg(site, probe);
	site->vector.iov_len = 2;
	probe->args[2] = MSG_WAITALL;
}

static bool gives_two(struct site *site, int64_t result)
{
	(void)site;
	return result == 2;
}

static void listening_address(const struct site *site, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* The name is in the abstract space: nothing has to be removed afterwards. */
	snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1, "flmem-victim-%d",
		 (int)site->victim);
}

static void open_listener(struct site *site)
{
	struct sockaddr_un address;

	listening_address(site, &address);
	site->wait_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (site->wait_fd < 0 ||
	    bind(site->wait_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(site->wait_fd, 64) != 0)
		victim_die("listen");
}

static void open_patient_listener(struct site *site)
{
	open_listener(site);
	case_limit_socket(site->wait_fd, SO_RCVTIMEO, CASE_PATIENCE_MS);
}

static void arm_accept(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_accept4, (uint64_t)site->wait_fd, 0, 0, SOCK_CLOEXEC);
}

static void wake_listener(struct site *site)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	listening_address(site, &address);
	if (fd < 0)
		_exit(1);
	(void)connect(fd, (struct sockaddr *)&address, sizeof(address));
	close(fd);
}

static bool accepted(struct site *site, int64_t result)
{
	(void)site;
	return result >= 0 && close((int)result) == 0;
}

const struct wait_case wait_cases_fd[] = {
	{"poll", false, case_open_pipe, arm_poll, case_drained, case_wake_pipe, NULL},
	{"poll-limited", true, case_open_pipe, arm_poll_limited, case_gives_zero, NULL, NULL},
	{"ppoll", false, case_open_pipe, arm_ppoll, case_drained, case_wake_pipe, NULL},
	{"ppoll-limited", true, case_open_pipe, arm_ppoll_limited, case_gives_zero, NULL, NULL},
	{"select", false, case_open_pipe, arm_select, case_drained, case_wake_pipe, NULL},
	{"select-limited", true, case_open_pipe, arm_select_limited, case_gives_zero, NULL, NULL},
	{"pselect-limited", true, case_open_pipe, arm_pselect, case_gives_zero, NULL, NULL},
	{"epoll_wait", false, open_epoll, arm_epoll, case_drained, case_wake_pipe, NULL},
	{"epoll_wait-limited", true, open_epoll, arm_epoll_limited, case_gives_zero, NULL, NULL},
	{"epoll_pwait", false, open_epoll, arm_epoll_pwait, case_drained, case_wake_pipe, NULL},
	{"epoll_pwait-limited", true, open_epoll, arm_epoll_pwait_limited, case_gives_zero, NULL,
	 NULL},
	{"epoll_pwait2-limited", true, open_epoll, arm_epoll_pwait2, case_gives_zero, NULL, NULL},
	{"read-pipe", false, case_open_pipe, arm_read, read_a_mark, case_wake_pipe, NULL},
	{"read-eventfd", false, open_eventfd, arm_eventfd, read_a_count, wake_eventfd, NULL},
	{"read-inotify", false, open_inotify, arm_inotify, gives_positive, wake_inotify, NULL},
	{"read-fifo", false, open_fifo, arm_read, read_a_mark, case_wake_pipe, NULL},
	{"read-terminal", false, open_terminal, arm_read, read_a_mark, case_wake_pipe, NULL},
	{"recv", false, open_socket_pair, arm_recv, read_a_mark, case_wake_pipe, NULL},
	{"readv", false, open_socket_pair, arm_readv, read_a_mark, case_wake_pipe, NULL},
	{"recvmsg", false, open_socket_pair, arm_recvmsg, read_a_mark, case_wake_pipe, NULL},
	{"accept", false, open_listener, arm_accept, accepted, wake_listener, NULL},
	{0},
};

const struct wait_case wait_cases_timed[] = {
	{"recv-limited", true, open_limited_socket, arm_recv, case_gives_again, NULL, NULL},
	{"read-patient", false, open_patient_socket, arm_read, read_a_mark, case_wake_pipe, NULL},
	{"readv-patient", false, open_patient_socket, arm_readv, read_a_mark, case_wake_pipe, NULL},
	{"recv-patient", false, open_patient_socket, arm_recv, read_a_mark, case_wake_pipe, NULL},
	{"recvmsg-patient", false, open_patient_socket, arm_recvmsg, read_a_mark, case_wake_pipe,
	 NULL},
	{"accept-patient", false, open_patient_listener, arm_accept, accepted, wake_listener, NULL},
	{0},
};

const struct wait_case wait_cases_whole[] = {
	{"recv-all", false, open_socket_pair, arm_recv_all, gives_two, case_wake_pipe, NULL},
	{"recvmsg-all", false, open_socket_pair, arm_recvmsg_all, gives_two, case_wake_pipe, NULL},
	{0},
};
