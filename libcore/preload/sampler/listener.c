/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the socket of `flmem start --profile-socket`, through which flmem sends orders without
 * tracing the process. One thread waits for connections, and does what a thread that flmem starts
 * would do.
 *
 * The thread has a descriptor table for itself: the socket takes no number from the program, is not
 * counted in its limit, no loop of the program that closes descriptors reaches it, and no child
 * inherits it. So a child of fork() has neither the thread nor the socket; a program that is
 * executed makes its own. The thread's signals are blocked by the C library's function, which
 * leaves out those of setuid(): the C library sends these to all threads.
 *
 * A program in C may have functions named bind, send or kill, which would be called in place of the
 * C library's. So what POSIX adds to the names of C is asked of the kernel.
 */
#include "preload/sampler/prepared.h"

#ifdef SAMPLER_HIDES_HOOKS
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "preload/sampler/got.h"
#include "preload/sampler/hold.h"
#include "preload/sampler/sampler.h"
#include "preload/sampler_state.h"

#ifndef SYS_close_range /* since Linux 5.9 */
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2U
#endif

#define LISTENER_STACK ((size_t)256 << 10) /* executing an order takes some KiB of stack */
#define LISTENER_QUEUE 4
#define START_WAIT_S   2
/* After this timeout a silent client no longer blocks the others. */
#define CLIENT_WAIT_US 500000
/*
 * The thread pauses after each connection, so that a flood of them costs next to no processor time.
 */
#define CLIENT_PAUSE_NS	 10000000
#define FAILURE_PAUSE_NS 500000000
#define NAMES_BYTES	 ((size_t)32 << 10)
#define PID_LIMIT	 (1 << 22) /* maximum PID of the kernel */
#define NAME_LIMIT	 FLMEM_SAMPLER_SOCKET_NAME_MAX
#define NEW_NAME_S	 60

extern struct flmem_sampler_socket flmem_sampler_socket __attribute__((visibility("default")));
struct flmem_sampler_socket flmem_sampler_socket;
/*
 * This alias names the sampler's own object: the symbol is that of the sampler that was loaded
 * first.
 */
extern struct flmem_sampler_socket sampler_socket
	__attribute__((alias("flmem_sampler_socket"), visibility("hidden")));

extern void flmem_sampler_order(const char *order, char *answer)
	__attribute__((visibility("default")));

/* Before glibc 2.34 these functions are in a library that not every program has loaded. */
extern __typeof__(pthread_create) pthread_create __attribute__((weak));
extern __typeof__(pthread_attr_setstacksize) pthread_attr_setstacksize __attribute__((weak));

static struct {
	struct sockaddr_un address;
	size_t directory; /* length of the directory part of its path */
	size_t prefix;	  /* length of the part before the PID */
	ino_t namespace;  /* inode of the PID namespace */
} listener_place = {.address.sun_family = AF_UNIX};

static void keep_stage(enum flmem_sampler_socket_stage stage, int error)
{
	sampler_socket.error = (uint32_t)error;
	__atomic_store_n(&sampler_socket.stage, stage, __ATOMIC_SEQ_CST);
}

static void set_stage(enum flmem_sampler_socket_stage stage, int error)
{
	keep_stage(stage, error);
	syscall(SYS_futex, &sampler_socket.stage, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void pause_listener(long ns)
{
	const struct timespec pause = {.tv_nsec = ns};

	syscall(SYS_nanosleep, &pause, NULL);
}

static size_t append_listener_text(char *out, size_t size, size_t at, const char *text)
{
	while (*text && at + 1 < size)
		out[at++] = *text++;
	out[at] = '\0';
	return at;
}

static size_t append_listener_number(char *out, size_t size, size_t at, unsigned long number)
{
	char digits[24];
	size_t first = sizeof(digits) - 1;

	digits[first] = '\0';
	do
		digits[--first] = (char)('0' + number % 10);
	while (number /= 10);
	return append_listener_text(out, size, at, digits + first);
}

static uid_t ask_user(void)
{
	return (uid_t)syscall(SYS_geteuid);
}

static bool read_listener_status(const char *path, int flags, struct stat *ret_status)
{
	*ret_status = (struct stat){0};
	return syscall(SYS_newfstatat, AT_FDCWD, path, ret_status, flags) == 0;
}

/* Writes the name of the socket. All of it fits: three numbers of at most 20 digits. */
static void name_listener(void)
{
	char *out = listener_place.address.sun_path;
	const size_t size = sizeof(listener_place.address.sun_path);
	size_t at;

	at = append_listener_text(out, size, 0, FLMEM_SAMPLER_SOCKET_DIRECTORY);
	at = append_listener_number(out, size, at, ask_user());
	listener_place.directory = at;
	at = append_listener_text(out, size, at, "/" FLMEM_SAMPLER_SOCKET_NAME);
	at = append_listener_number(out, size, at, listener_place.namespace);
	at = append_listener_text(out, size, at, "-");
	listener_place.prefix = at;
	append_listener_number(out, size, at, sampler_process());
}

/*
 * Makes the directory and sets its mode, since a umask may remove the user's own rights from new
 * files.
 */
static bool make_directory(const char *path)
{
	if (syscall(SYS_mkdirat, AT_FDCWD, path, 0700) < 0)
		return errno == EEXIST;
	return syscall(SYS_fchmodat, AT_FDCWD, path, 0700) == 0;
}

/*
 * Makes the directory of the socket and checks its owner: another user may have created one of that
 * name, in which names are not safe.
 */
static enum flmem_sampler_socket_stage make_listener_directory(const char *path)
{
	struct stat status;

	if (!make_directory(path))
		return FLMEM_SAMPLER_SOCKET_NO_DIRECTORY;
	errno = 0;
	if (!read_listener_status(path, AT_SYMLINK_NOFOLLOW, &status))
		return FLMEM_SAMPLER_SOCKET_NO_DIRECTORY;
	return S_ISDIR(status.st_mode) && status.st_uid == ask_user() && !(status.st_mode & 077)
		       ? FLMEM_SAMPLER_SOCKET_LISTENING
		       : FLMEM_SAMPLER_SOCKET_FOREIGN_DIRECTORY;
}

static bool is_name_of_own_namespace(const char *name, size_t *ret_length)
{
	const char *prefix = listener_place.address.sun_path + listener_place.directory + 1;

	*ret_length = listener_place.prefix - listener_place.directory - 1;
	return strncmp(name, prefix, *ret_length) == 0;
}

/* Returns true for a name of this PID namespace whose process has ended. */
static bool is_left_name(const char *name)
{
	size_t length;
	pid_t pid = 0;

	if (!is_name_of_own_namespace(name, &length))
		return false;
	for (name += length; *name >= '0' && *name <= '9' && pid < PID_LIMIT; name++)
		pid = pid * 10 + (*name - '0');
	return !*name && pid > 0 && syscall(SYS_kill, pid, 0) < 0 && errno == ESRCH;
}

/*
 * Returns true for a left name of another PID namespace, in a folder that containers share. No
 * process can be asked for there, so this connects: a connection of another type is refused without
 * a notice to the listener. A name that was just bound is refused like a left one, so new names are
 * skipped. This function is not inlined: the thread has a small stack.
 */
__attribute__((noinline)) static bool is_foreign_left_name(const char *name)
{
	static const char prefix[] = FLMEM_SAMPLER_SOCKET_NAME;
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	struct timespec now = {0};
	struct stat status;
	size_t at, length;
	bool is_left;
	int fd;

	if (is_name_of_own_namespace(name, &length) ||
	    strncmp(name, prefix, sizeof(prefix) - 1) != 0 || strlen(name) >= NAME_LIMIT)
		return false;
	memcpy(place.sun_path, listener_place.address.sun_path, listener_place.directory);
	at = append_listener_text(place.sun_path, sizeof(place.sun_path), listener_place.directory,
				  "/");
	append_listener_text(place.sun_path, sizeof(place.sun_path), at, name);
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
	if (!read_listener_status(place.sun_path, AT_SYMLINK_NOFOLLOW, &status) ||
	    !S_ISSOCK(status.st_mode) || now.tv_sec - status.st_mtime < NEW_NAME_S)
		return false;
	fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	is_left = fd >= 0 && syscall(SYS_connect, fd, &place, sizeof(place)) < 0 &&
		  errno == ECONNREFUSED;
	if (fd >= 0)
		sampler_close(fd);
	return is_left;
}

/*
 * Removes the names that programs leave when they are killed, call _exit() as shells do, or execute
 * one without a sampler. A connection that they would serve is not tried: a filter of a program
 * could kill it for what its thread does then. The directory is read once: with more names than
 * fit, some stay until others have gone.
 */
static void remove_left_names(const char *path)
{
	static union {
		struct dirent entry;
		char bytes[NAMES_BYTES];
	} names;
	int directory = sampler_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *entry;
	long length;

	if (directory < 0)
		return;
	length = syscall(SYS_getdents64, directory, &names, sizeof(names));
	for (long at = 0; at < length; at += entry->d_reclen) {
		entry = (const struct dirent *)(names.bytes + at);
		if (is_left_name(entry->d_name) || is_foreign_left_name(entry->d_name))
			sampler_unlink(directory, entry->d_name);
	}
	sampler_close(directory);
}

/* Binds the socket. A name that exists belongs to an earlier process with this PID. */
static int bind_listener(void)
{
	const struct sockaddr_un *place = &listener_place.address;
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	sampler_unlink(AT_FDCWD, place->sun_path);
	if (syscall(SYS_bind, fd, place, sizeof(*place)) < 0 ||
	    syscall(SYS_fchmodat, AT_FDCWD, place->sun_path, 0600) < 0 ||
	    syscall(SYS_listen, fd, LISTENER_QUEUE) < 0) {
		int error = errno;

		sampler_close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

/*
 * Opens the standard descriptors that are closed. Output of this thread to standard error must not
 * end up in a file.
 */
static void fill_standard_descriptors(void)
{
	for (int i = 0; i < 3; i++)
		sampler_open("/dev/null", O_RDWR);
}

static bool read_pid_namespace(ino_t *ret_namespace)
{
	struct stat status = {0};

	if (!read_listener_status("/proc/self/ns/pid", 0, &status))
		return false;
	*ret_namespace = status.st_ino;
	return true;
}

/* Returns the listening socket, or -1. */
static int listen_at_place(void)
{
	char directory[sizeof(listener_place.address.sun_path)];
	enum flmem_sampler_socket_stage stage;
	int fd;

	memcpy(directory, listener_place.address.sun_path, listener_place.directory);
	directory[listener_place.directory] = '\0';
	stage = make_listener_directory(directory);
	if (stage != FLMEM_SAMPLER_SOCKET_LISTENING) {
		set_stage(stage, errno);
		return -1;
	}
	remove_left_names(directory);
	fd = bind_listener();
	set_stage(fd < 0 ? FLMEM_SAMPLER_SOCKET_NO_SOCKET : stage, fd < 0 ? errno : 0);
	return fd;
}

/* Opens the socket. It is not inlined: its temporary data would stay on the stack of the thread. */
__attribute__((noinline)) static int open_listener(void)
{
	if (syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) < 0) {
		set_stage(FLMEM_SAMPLER_SOCKET_NO_TABLE, errno);
		return -1;
	}
	fill_standard_descriptors();
	if (!read_pid_namespace(&listener_place.namespace)) {
		set_stage(FLMEM_SAMPLER_SOCKET_NO_SOCKET, errno);
		return -1;
	}
	name_listener();
	return listen_at_place();
}

/*
 * Returns whether the client is this user or root. A user that the namespace of the process has no
 * number for appears as 65534, which may be that of the process, too; the directory keeps such a
 * user out.
 */
static bool is_client_allowed(int client)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof(peer);

	if (syscall(SYS_getsockopt, client, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
	    size != sizeof(peer))
		return false;
	return peer.uid == ask_user() || peer.uid == 0;
}

static void answer_client(int client, const void *answer, size_t length)
{
	syscall(SYS_sendto, client, answer, length, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
}

static void answer_client_text(int client, const char *text)
{
	answer_client(client, text, strlen(text));
}

static ssize_t receive_order(int client, void *out, size_t size, int flags)
{
	return syscall(SYS_recvfrom, client, out, size, flags, NULL, NULL);
}

/*
 * Returns whether the client still waits. An order is not executed after its client has stopped
 * waiting.
 */
static bool is_client_waiting(int client)
{
	char more;

	return receive_order(client, &more, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void run_client_order(int client, const char *order)
{
	static struct flmem_sampler_state state;
	static char answer[FLMEM_SAMPLER_ANSWER_MAX];

	if (strcmp(order, FLMEM_SAMPLER_ORDER_STATE) == 0) {
		state = sampler_shown.state;
		answer_client(client, &state, sizeof(state));
		return;
	}
	flmem_sampler_order(order, answer);
	answer_client_text(client, answer);
}

static void serve_client(int client)
{
	static char order[FLMEM_SAMPLER_ORDER_MAX];
	const struct timeval most = {.tv_usec = CLIENT_WAIT_US};
	ssize_t length;

	syscall(SYS_setsockopt, client, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	length = receive_order(client, order, sizeof(order) - 1, MSG_TRUNC);
	if (length <= 0 || !is_client_waiting(client))
		return;
	if (!is_client_allowed(client)) {
		answer_client_text(client, FLMEM_SAMPLER_REFUSED "only its user and root may send "
								 "requests");
	} else if (length >= (ssize_t)sizeof(order)) {
		answer_client_text(client, FLMEM_SAMPLER_REFUSED "the request is too long");
	} else {
		order[length] = '\0';
		run_client_order(client, order);
	}
}

static void *listen_for_requests(void *unused)
{
	int listener, client;

	(void)unused;
	syscall(SYS_prctl, PR_SET_NAME, "flmem-sampler", 0, 0, 0);
	listener = open_listener();
	if (listener < 0)
		return NULL;
	for (;;) {
		client = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC);
		if (client >= 0) {
			serve_client(client);
			sampler_close(client);
			pause_listener(CLIENT_PAUSE_NS);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			pause_listener(FAILURE_PAUSE_NS);
		}
	}
}

/*
 * Returns how much of a thread's stack the thread-local data of the program and its libraries take.
 * The C library knows their size, and this function of it returns it (since 2.15; Rust asks it,
 * too).
 */
static size_t ask_stack_taken(const pthread_attr_t *attributes)
{
	void *found = sampler_look_up(RTLD_DEFAULT, "__pthread_get_minstack");
	size_t (*get_minstack)(const pthread_attr_t *) = NULL;

	memcpy(&get_minstack, &found, sizeof(found));
	return get_minstack ? get_minstack(attributes) : 0;
}

/*
 * Starts the thread. Returns 0, or an error number. The program's default attributes are not used:
 * it may have changed them.
 */
static int start_listener_thread(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	size_t taken;
	int error;

	if (!pthread_create || !pthread_attr_setstacksize)
		return ENOSYS;
	error = pthread_attr_init(&attributes);
	if (error)
		return error;
	taken = ask_stack_taken(&attributes);
	error = taken ? pthread_attr_setstacksize(&attributes, LISTENER_STACK + taken) : ENOSYS;
	if (!error)
		error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (!error)
		error = pthread_create(&thread, &attributes, listen_for_requests, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

/*
 * Starts the thread and waits: when main() starts the socket exists, unless the directory does not
 * respond.
 */
static void start_listener(void)
{
	const struct timespec most = {.tv_sec = START_WAIT_S};
	sigset_t all, before;
	int error;

	set_stage(FLMEM_SAMPLER_SOCKET_STARTING, 0);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	error = start_listener_thread();
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (error)
		set_stage(FLMEM_SAMPLER_SOCKET_NO_THREAD, error);
	syscall(SYS_futex, &sampler_socket.stage, FUTEX_WAIT_PRIVATE, FLMEM_SAMPLER_SOCKET_STARTING,
		&most, NULL, 0);
}

static void prepare_allowed(void)
{
	sampler_socket.process = sampler_process();
	/* A program may pass the variable on to a process in which the sampler is not preloaded. */
	if (!sampler_is_first_thread())
		return;
	/* Orders would reach one sampler, and the state would be that of the other. */
	if (!sampler_is_alone())
		keep_stage(FLMEM_SAMPLER_SOCKET_NOT_ALONE, 0);
	else
		start_listener();
}

__attribute__((constructor)) static void prepare_listener(void)
{
	const char *asked = getenv(FLMEM_SAMPLER_SOCKET_VARIABLE);
	const int before = errno;

	sampler_socket.magic = FLMEM_SAMPLER_SOCKET_MAGIC;
	if (!asked)
		return;
	/* This is checked before any other call. */
	if (strcmp(asked, FLMEM_SAMPLER_SOCKET_ASSUMED) != 0 &&
	    (strcmp(asked, FLMEM_SAMPLER_SOCKET_UNFILTERED) != 0 || sampler_may_be_filtered()))
		keep_stage(FLMEM_SAMPLER_SOCKET_FILTERED, 0);
	else
		prepare_allowed();
	errno = before;
}

/*
 * Removes the socket, but not in a child of fork(), whose parent has the socket: with PID
 * namespaces both may have the same PID.
 */
__attribute__((destructor)) static void remove_listener(void)
{
	ino_t namespace;

	if (sampler_socket.stage == FLMEM_SAMPLER_SOCKET_LISTENING &&
	    sampler_socket.process == sampler_process() && read_pid_namespace(&namespace) &&
	    namespace == listener_place.namespace)
		sampler_unlink(AT_FDCWD, listener_place.address.sun_path);
}
#endif
