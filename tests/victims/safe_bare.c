/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that the C library did not make.
 *	safe_bare clone		one made by clone() uses the heap all the time, the first one waits
 *	safe_bare process	the same, in a process that shares the memory
 *	safe_bare orphan	the same, in such a process whose parent has ended
 *	safe_bare known		as `process`, in a program that has a thread of the C library, too
 *	safe_bare namespace	the same, in a thread of a second C library (dlmopen())
 *	safe_bare io_uring	one of the kernel, for a read of io_uring that does not end
 *	safe_bare sqpoll	one of the kernel that polls a ring of io_uring all the time
 *	safe_bare ended		one of the C library, which has ended
 */
#include "safe_common.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES  (256U << 10)
#define RING_ENTRIES 4U
#define NOT_HERE     77
#define IDLE_MS	     600000U /* time that the kernel's thread polls without work */

static struct churn churn = {.random = 4711};
static char read_into[16];

static int use_heap(void *unused)
{
	(void)unused;
	for (;;) {
		churn_run(&churn, 64);
		victim_round();
	}
	return 0;
}

static int make_bare(int (*run)(void *unused), int flags)
{
	char *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int made = stack == MAP_FAILED ? -1
				       : clone(run, stack + STACK_BYTES,
					       CLONE_VM | CLONE_FS | CLONE_FILES | flags, NULL);

	if (made < 0)
		victim_die("clone");
	return made;
}

/*
 * Makes a thread that shares everything with the first thread, thread-local data, too; the first
 * thread only waits.
 */
static void make_bare_thread(void)
{
	make_bare(use_heap, CLONE_SIGHAND | CLONE_THREAD);
}

static pid_t victim;

/* Uses the heap until the victim ends, whoever is the parent. */
static int use_heap_with_victim(void *unused)
{
	while (kill(victim, 0) == 0) {
		churn_run(&churn, 64);
		victim_round();
	}
	(void)unused;
	_exit(0);
}

static int make_orphan(void *unused)
{
	(void)unused;
	make_bare(use_heap_with_victim, 0);
	_exit(0);
}

static void make_process(bool orphan)
{
	int made;

	victim = getpid();
	made = make_bare(orphan ? make_orphan : use_heap_with_victim, SIGCHLD);
	if (orphan)
		waitpid(made, NULL, 0);
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_lock(void *unused)
{
	pthread_mutex_lock(&held);
	return unused;
}

/* The process uses the thread-local data of the first thread, which waits. */
static void make_process_beside_thread(void)
{
	pthread_t thread;

	pthread_mutex_lock(&held);
	if (pthread_create(&thread, NULL, wait_for_lock, NULL) != 0)
		victim_die("pthread_create");
	make_process(false);
}

static void *use_heap_in_thread(void *unused)
{
	(void)use_heap(NULL);
	return unused;
}

/* The first C library, whose heap the thread uses, does not know that thread. */
static void make_thread_of_second_library(void)
{
	void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	pthread_t thread;

	if (!library)
		exit(NOT_HERE);
	*(void **)&create = dlsym(library, "pthread_create");
	if (!create)
		exit(NOT_HERE);
	if (create(&thread, NULL, use_heap_in_thread, NULL) != 0)
		victim_die("pthread_create");
}

static void *map_ring(int fd, size_t length, off_t at)
{
	void *ring = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);

	if (ring == MAP_FAILED)
		victim_die("mmap of the ring");
	return ring;
}

static void read_in_kernel(int from)
{
	struct io_uring_params params = {0};
	int fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &params);
	struct io_uring_sqe *entries;
	unsigned *ring;

	if (fd < 0)
		exit(NOT_HERE);
	ring = map_ring(fd, params.sq_off.array + params.sq_entries * sizeof(unsigned),
			IORING_OFF_SQ_RING);
	entries = map_ring(fd, params.sq_entries * sizeof(*entries), IORING_OFF_SQES);
	entries[0] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ,
		.flags = IOSQE_ASYNC,
		.fd = from,
		.addr = (uintptr_t)read_into,
		.len = sizeof(read_into),
	};
	ring[params.sq_off.array / sizeof(*ring)] = 0;
	__atomic_store_n(&ring[params.sq_off.tail / sizeof(*ring)], 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0) != 1)
		exit(NOT_HERE);
}

static void poll_in_kernel(void)
{
	struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = IDLE_MS};

	if (syscall(SYS_io_uring_setup, RING_ENTRIES, &params) < 0)
		exit(NOT_HERE);
}

static void *end_at_once(void *unused)
{
	return unused;
}

int main(int argc, char **argv)
{
	const char *kind = argc == 2 ? argv[1] : "";
	pthread_t thread;
	int ends[2];
	char byte;

	victim_open();
	heap_spread();
	if (pipe(ends) != 0)
		victim_die("pipe");
	if (strcmp(kind, "clone") == 0)
		make_bare_thread();
	else if (strcmp(kind, "process") == 0 || strcmp(kind, "orphan") == 0)
		make_process(strcmp(kind, "orphan") == 0);
	else if (strcmp(kind, "known") == 0)
		make_process_beside_thread();
	else if (strcmp(kind, "namespace") == 0)
		make_thread_of_second_library();
	else if (strcmp(kind, "io_uring") == 0)
		read_in_kernel(ends[0]);
	else if (strcmp(kind, "sqpoll") == 0)
		poll_in_kernel();
	else if (strcmp(kind, "ended") != 0 ||
		 pthread_create(&thread, NULL, end_at_once, NULL) != 0 ||
		 pthread_join(thread, NULL) != 0)
		return 2;
	victim_ready();
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	return 1;
}
