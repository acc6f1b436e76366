/* SPDX-License-Identifier: Apache-2.0 */
#include "base/forked_task.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/silent_child.h"

#define SLICE_MS     50U
#define END_STEP_US  200U
#define END_STEPS    1000U
#define LEFT_MAX     16U
#define OLD_LAST     1023U /* before Linux 5.9 each descriptor is closed by its own call */
#define DESCRIPTORS  FLMEM_FORKED_TASK_DESCRIPTORS
#define CONTROL_SIZE CMSG_SPACE(sizeof(int) * DESCRIPTORS)

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

struct task_outcome {
	int rc;
	bool handed[DESCRIPTORS];
};

/* Buffers of a message, for the sender and the receiver. */
struct outcome_message {
	struct task_outcome outcome;
	struct iovec parts[2];
	_Alignas(struct cmsghdr) unsigned char control[CONTROL_SIZE];
};

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t left[LEFT_MAX]; /* children that had not ended in time */

static bool has_child_ended(pid_t child)
{
	return waitpid(child, NULL, WNOHANG | __WALL) != 0;
}

/* Reports whether a place in `left` is free; false while all belong to children that still wait. */
static bool has_place_left(void)
{
	bool is_free = false;

	pthread_mutex_lock(&left_lock);
	for (size_t i = 0; i < LEFT_MAX; i++) {
		if (left[i] && has_child_ended(left[i]))
			left[i] = 0;
		is_free |= !left[i];
	}
	pthread_mutex_unlock(&left_lock);
	return is_free;
}

static void leave_child(pid_t child)
{
	pthread_mutex_lock(&left_lock);
	for (size_t i = 0; i < LEFT_MAX && child; i++)
		if (!left[i]) {
			left[i] = child;
			child = 0;
		}
	pthread_mutex_unlock(&left_lock);
}

/*
 * Waits a short while for the child's end; it is kept in `left` otherwise, as its last close may
 * wait for a server, too.
 */
static void end_child(pid_t child)
{
	for (unsigned i = 0; i < END_STEPS; i++) {
		if (has_child_ended(child))
			return;
		flmem_clock_sleep_us(END_STEP_US);
	}
	leave_child(child);
}

static void close_between(unsigned first, unsigned last)
{
	if (first > last || syscall(SYS_close_range, first, last, 0U) == 0)
		return;
	for (unsigned fd = first; fd <= last && fd <= OLD_LAST; fd++)
		close((int)fd);
}

static void close_all_but(const int *kept, size_t count)
{
	unsigned first = 0;

	for (;;) {
		unsigned next = UINT32_MAX;

		for (size_t i = 0; i < count; i++)
			if (kept[i] >= 0 && (unsigned)kept[i] >= first && (unsigned)kept[i] < next)
				next = (unsigned)kept[i];
		if (next == UINT32_MAX) {
			close_between(first, next);
			return;
		}
		if (next)
			close_between(first, next - 1);
		first = next + 1;
	}
}

static struct msghdr wrap_packet(const struct flmem_forked_task *task,
				 struct outcome_message *packet)
{
	packet->parts[0] = (struct iovec){&packet->outcome, sizeof(packet->outcome)};
	packet->parts[1] = (struct iovec){task->context, task->size};
	return (struct msghdr){
		.msg_iov = packet->parts,
		.msg_iovlen = 2,
		.msg_control = packet->control,
		.msg_controllen = sizeof(packet->control),
	};
}

/* Attaches the descriptors that `run` has opened to the message. */
static void hand_over(const struct flmem_forked_task *task, const int *before,
		      struct outcome_message *packet, struct msghdr *message)
{
	struct cmsghdr *head = (struct cmsghdr *)(void *)packet->control;
	int fds[DESCRIPTORS];
	size_t count = 0;

	for (size_t i = 0; i < DESCRIPTORS; i++) {
		const int *fd = task->descriptors[i];

		packet->outcome.handed[i] = fd && *fd >= 0 && *fd != before[i];
		if (packet->outcome.handed[i])
			fds[count++] = *fd;
	}
	/* The field is a size_t in glibc, a socklen_t in musl. */
	message->msg_controllen = count ? (socklen_t)CMSG_SPACE(sizeof(*fds) * count) : 0;
	if (!count)
		return;
	*head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS,
				 .cmsg_len = (socklen_t)CMSG_LEN(sizeof(*fds) * count)};
	memcpy(CMSG_DATA(head), fds, sizeof(*fds) * count);
}

__attribute__((noreturn)) static void be_forked_task(const struct flmem_forked_task *task, int end)
{
	struct outcome_message packet = {0};
	struct msghdr message = wrap_packet(task, &packet);
	int before[DESCRIPTORS + 1];

	for (size_t i = 0; i < DESCRIPTORS; i++)
		before[i] = task->descriptors[i] ? *task->descriptors[i] : -1;
	before[DESCRIPTORS] = end;
	close_all_but(before, DESCRIPTORS + 1);
	packet.outcome.rc = task->prepare ? task->prepare(task->rights) : 0;
	if (!packet.outcome.rc)
		packet.outcome.rc = task->run(task->context);
	hand_over(task, before, &packet, &message);
	if (sendmsg(end, &message, MSG_NOSIGNAL) < 0 && task->undo)
		task->undo(task->context);
	_exit(0);
}

/* Stores the received descriptors in the context, in the order in which the context lists them. */
static void take_descriptors(const struct flmem_forked_task *task,
			     const struct outcome_message *packet, const int *before)
{
	const unsigned char *at = CMSG_DATA((const struct cmsghdr *)(const void *)packet->control);

	for (size_t i = 0; i < DESCRIPTORS; i++) {
		if (!task->descriptors[i])
			continue;
		*task->descriptors[i] = before[i];
		if (!packet->outcome.handed[i])
			continue;
		memcpy(task->descriptors[i], at, sizeof(int));
		at += sizeof(int);
	}
}

/* Receives the outcome; false if it has not arrived. */
static bool take_outcome(const struct flmem_forked_task *task, int end, int *ret_rc)
{
	struct outcome_message packet = {0};
	struct msghdr message = wrap_packet(task, &packet);
	int before[DESCRIPTORS];

	for (size_t i = 0; i < DESCRIPTORS; i++)
		before[i] = task->descriptors[i] ? *task->descriptors[i] : -1;
	if (recvmsg(end, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) !=
	    (ssize_t)(sizeof(packet.outcome) + task->size))
		return false;
	take_descriptors(task, &packet, before);
	*ret_rc = packet.outcome.rc;
	return true;
}

/* Counts slices of waiting, not time: while flmem is stopped, the child may be, too. */
static bool await_outcome(const struct flmem_forked_task *task, int end, uint64_t timeout_us,
			  int *ret_rc)
{
	struct pollfd poller = {.fd = end, .events = POLLIN};
	const uint64_t slices = timeout_us / (SLICE_MS * 1000U);
	bool has_ended = false;

	for (uint64_t i = 0; i < slices && !has_ended; i++)
		has_ended = poll(&poller, 1, (int)SLICE_MS) > 0;
	/* Accept no later answer: the child then notices that nobody waits, and undoes its work. */
	shutdown(end, SHUT_RD);
	if (take_outcome(task, end, ret_rc))
		return true;
	if (has_ended)
		*ret_rc = -EIO; /* it was killed */
	return has_ended;
}

static pid_t start_forked_child(const struct flmem_forked_task *task, const int *ends)
{
	sigset_t all, before;
	pid_t child;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child = flmem_silent_child_start();
	if (!child)
		be_forked_task(task, ends[1]);
	child = child < 0 ? -errno : child;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return child;
}

int flmem_forked_task_run(const struct flmem_forked_task *task, uint64_t timeout_us)
{
	int ends[2], rc = -ETIMEDOUT;
	pid_t child;

	if (!has_place_left())
		return -EBUSY;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	child = start_forked_child(task, ends);
	close(ends[1]);
	if (child < 0)
		rc = child;
	else if (await_outcome(task, ends[0], timeout_us, &rc))
		end_child(child);
	else
		leave_child(child);
	close(ends[0]);
	return rc;
}
