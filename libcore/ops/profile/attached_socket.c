/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile/attached_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/forked_task.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "ops/profile/attached_paths.h"
#include "proc/status.h"

#ifndef SO_PEERPIDFD /* added in Linux 6.5 */
#define SO_PEERPIDFD 77
#endif
#define PIDFS_MAGIC_NUMBER 0x50494446 /* Linux 6.9: the inode of a process is unique */

#define QUEUE_PAUSE_US	    5000U
#define CONNECT_PATIENCE_US 1000000U

bool flmem_attached_socket_was_asked(const struct flmem_process *process)
{
	static const char variable[] = "\0" FLMEM_SAMPLER_SOCKET_VARIABLE "=";
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_append(&text, "", 1);
	if (flmem_process_read(process, "environ", &text) || text.failed)
		return false;
	return memmem(text.data, text.length, variable, sizeof(variable) - 1) != NULL;
}

static bool take_map_number(const char **text, uint64_t *ret_value)
{
	*text += strspn(*text, " \n");
	return flmem_text_read_digits(text, ret_value);
}

bool flmem_attached_socket_inner_user(const char *map, uint32_t outer, uint32_t *ret_inner)
{
	uint64_t inner, first, count;

	while (take_map_number(&map, &inner) && take_map_number(&map, &first) &&
	       take_map_number(&map, &count)) {
		if (outer < first || outer - first >= count || inner > UINT32_MAX ||
		    inner + (outer - first) > UINT32_MAX)
			continue;
		*ret_inner = (uint32_t)(inner + (outer - first));
		return true;
	}
	return false;
}

static int refuse_socket(struct flmem_error *err, int error, const char *why)
{
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, error, "%s", why);
}

/*
 * Reports that there is no socket; a caller who may trace the process learns the reason from its
 * memory.
 */
static int refuse_no_socket(struct flmem_error *err)
{
	return refuse_socket(err, 0,
			     "it has none; a child of fork() makes one when it executes a program, "
			     "and one with seccomp filters after start --assume-seccomp");
}

static int read_inner_user(const struct flmem_process *process, uint32_t outer, uint32_t *ret_inner,
			   struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf map = FLMEM_BUF_INIT;
	int rc = flmem_process_read(process, "uid_map", &map);

	flmem_buf_putc(&map, '\0');
	if (!rc && !map.failed && flmem_attached_socket_inner_user(map.data, outer, ret_inner))
		return 0;
	return refuse_socket(err, -rc, "its user namespace cannot be read");
}

/* Checks the owner: another user may have made a directory of that name. */
static int check_socket_directory(const struct flmem_attached_directory *directory, uint32_t user,
				  struct flmem_error *err)
{
	if (directory->status.st_uid == user && !(directory->status.st_mode & 077))
		return 0;
	return refuse_socket(err, 0,
			     "its directory belongs to another user, or others may enter it");
}

static int name_socket(const struct flmem_process *process, const struct flmem_status *status,
		       struct flmem_attached_socket *found, struct flmem_error *err)
{
	struct stat namespace;

	if (fstatat(process->dirfd, "ns/pid", &namespace, 0) < 0)
		return refuse_socket(err, errno, "its PID namespace cannot be read");
	snprintf(found->name, sizeof(found->name), "%s%ju-%" PRIu64, FLMEM_SAMPLER_SOCKET_NAME,
		 (uintmax_t) namespace.st_ino,
		 flmem_u64_or(status->ns_pid, (uint64_t)process->pid));
	return 0;
}

/* Opens the directory of the socket in the root of the process; links must not lead out of it. */
static int open_socket_directory(struct flmem_attached_socket *found, uint32_t inner_user,
				 struct flmem_error *err)
{
	struct flmem_attached_directory directory = FLMEM_ATTACHED_DIRECTORY_INIT;
	char path[FLMEM_SAMPLER_SOCKET_NAME_MAX + 64];
	int rc;

	snprintf(path, sizeof(path), "%s%u/%s", FLMEM_SAMPLER_SOCKET_DIRECTORY, inner_user,
		 found->name);
	rc = flmem_attached_directory_open(found->process, path, &directory);
	if (rc)
		return rc == -ENOENT ? refuse_no_socket(err)
				     : refuse_socket(err, -rc, "its directory cannot be opened");
	found->directory = directory.fd;
	rc = check_socket_directory(&directory, found->user, err);
	if (rc || (directory.exists && S_ISSOCK(directory.old.st_mode)))
		return rc;
	return refuse_no_socket(err);
}

int flmem_attached_socket_find(const struct flmem_process *process,
			       struct flmem_attached_socket *ret_socket, struct flmem_error *err)
{
	FLMEM_AUTO_ATTACHED_SOCKET struct flmem_attached_socket found = FLMEM_ATTACHED_SOCKET_INIT;
	struct flmem_status status;
	uint32_t inner;
	int rc = flmem_status_read(process, &status, err);

	if (rc || !status.uid.known)
		return refuse_socket(err, 0, "its user cannot be read");
	found.process = process;
	found.user = status.uid.effective;
	rc = read_inner_user(process, found.user, &inner, err);
	if (rc)
		return rc;
	rc = name_socket(process, &status, &found, err);
	if (!rc)
		rc = open_socket_directory(&found, inner, err);
	if (rc)
		return rc;
	*ret_socket = found;
	found.directory = -1;
	return 0;
}

void flmem_attached_socket_clear(struct flmem_attached_socket *socket)
{
	flmem_cleanup_close(&socket->directory);
	socket->directory = -1;
}

/*
 * Returns true if the kernel's unique name of the listening process is that of the target, or if
 * the kernel has no such names.
 */
static bool is_peer_pinned(int fd, const struct flmem_process *process)
{
	FLMEM_AUTO_CLOSE int peer = -1;
	socklen_t size = sizeof(peer);
	struct statfs system;
	struct stat theirs, wanted;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &peer, &size) < 0)
		return errno != ESRCH;
	if (process->pidfd < 0 || fstatfs(peer, &system) < 0 || system.f_type != PIDFS_MAGIC_NUMBER)
		return true;
	return fstat(peer, &theirs) == 0 && fstat(process->pidfd, &wanted) == 0 &&
	       theirs.st_ino == wanted.st_ino;
}

/*
 * Returns true if the target listens, as the kernel noted it when the listening began: another
 * process may have bound the name.
 */
static bool is_peer_target(int fd, const struct flmem_attached_socket *socket)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && size == sizeof(peer) &&
	       peer.pid == socket->process->pid && peer.uid == socket->user &&
	       flmem_process_alive(socket->process) && is_peer_pinned(fd, socket->process);
}

/*
 * Arguments of connect_to_place(), which runs in a child process: the name may be on a file system
 * that does not answer.
 */
struct connect_request {
	int directory, fd;
	struct sockaddr_un place;
	uint64_t deadline_us;
};

/* Connects to the socket; its queue may be full while others are served. */
static int connect_to_place(void *context)
{
	struct connect_request *work = context;
	const struct sockaddr *place = (const struct sockaddr *)&work->place;

	work->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	while (work->fd >= 0 && connect(work->fd, place, sizeof(work->place)) < 0) {
		int error = errno;

		if (error != EAGAIN && error != EINTR)
			return -error;
		if (flmem_clock_us() >= work->deadline_us)
			return -ETIMEDOUT;
		flmem_clock_sleep_us(QUEUE_PAUSE_US);
	}
	return work->fd < 0 ? -errno : 0;
}

/* Returns the connection or a negative errno. */
static int connect_socket(const struct flmem_attached_socket *found, uint64_t timeout_us)
{
	struct connect_request work = {
		.directory = found->directory,
		.fd = -1,
		.place = {.sun_family = AF_UNIX},
		.deadline_us = flmem_clock_us() + timeout_us,
	};
	const struct flmem_forked_task task = {
		.run = connect_to_place,
		.context = &work,
		.size = sizeof(work),
		.descriptors = {&work.directory, &work.fd},
	};
	int rc;

	snprintf(work.place.sun_path, sizeof(work.place.sun_path), "/proc/self/fd/%d/%s",
		 found->directory, found->name);
	rc = flmem_forked_task_run(&task, timeout_us + CONNECT_PATIENCE_US);
	if (!rc)
		return work.fd;
	flmem_cleanup_close(&work.fd);
	return rc;
}

/*
 * Receives an answer. Returns 0 or -errno; -ECONNRESET if the socket was closed without an answer.
 */
static int receive_answer(int fd, uint64_t deadline_us, struct flmem_attached_answer *answer)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};
	ssize_t got = -1;

	for (uint64_t now = flmem_clock_us(); got < 0; now = flmem_clock_us()) {
		if (now >= deadline_us)
			return -ETIMEDOUT;
		if (poll(&poller, 1, (int)((deadline_us - now) / 1000U + 1)) <= 0)
			continue;
		got = recv(fd, answer->bytes, sizeof(answer->bytes) - 1, MSG_DONTWAIT | MSG_TRUNC);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	if ((size_t)got >= sizeof(answer->bytes))
		return -EMSGSIZE;
	answer->bytes[got] = '\0';
	answer->length = (size_t)got;
	return got ? 0 : -ECONNRESET;
}

static int refuse_connection(int error, struct flmem_error *err)
{
	switch (error) {
	case ECONNREFUSED:
	case ENOENT:
		return refuse_socket(err, 0, "nothing listens on it");
	case ETIMEDOUT:
		return refuse_socket(err, 0, "others use it; it did not answer in time");
	default:
		return refuse_socket(err, error, "cannot connect to it");
	}
}

int flmem_attached_socket_ask(const struct flmem_attached_socket *socket, const char *order,
			      uint64_t timeout_us, struct flmem_attached_answer *ret_answer,
			      struct flmem_error *err)
{
	const uint64_t deadline_us = flmem_clock_us() + timeout_us;
	FLMEM_AUTO_CLOSE int fd = connect_socket(socket, timeout_us);
	const size_t length = strlen(order);
	int rc;

	if (fd < 0)
		return refuse_connection(-fd, err);
	if (!is_peer_target(fd, socket))
		return refuse_socket(err, 0, "another process answers in its place");
	if (send(fd, order, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
		return refuse_socket(err, errno, "cannot send a request");
	rc = receive_answer(fd, deadline_us, ret_answer);
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc, "no answer came") : 0;
}
