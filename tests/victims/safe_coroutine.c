/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_coroutine [-t N] [-p] BYTES: a thread waits on a stack that the program made itself inside
 * its heap, with BYTES of it left and other data of the program right below: no guard page, and the
 * mapping that holds the stack pointer says nothing about where the stack ends.
 *	-t N	N threads beside do the same, each on its own stack
 *	-p	the main thread waits on its own stack
 *	-b	one thread beside does so right below its own stack, in the same mapping
 *	-o	one thread beside waits on its own stack, right above other data in the same mapping
 * With -b and -o the main thread waits for a lock, where nobody may borrow it.
 */
#include "safe_common.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024)
#define BELOW_BYTES (64 * 1024)
#define OWN_BYTES   (256 * 1024)
#define WAIT_NS	    40000000L
#define PATTERN	    0xa5

static long left_bytes;
static long thread_count;
static _Thread_local unsigned char *arena;
static _Thread_local bool is_worker;

static void check_below(void)
{
	for (size_t i = 0; arena && i < BELOW_BYTES; i++) {
		if (arena[i] == PATTERN)
			continue;
		victim_fail("data %zu bytes below the stack was overwritten", BELOW_BYTES - i);
		memset(arena, PATTERN, BELOW_BYTES);
		return;
	}
}

static _Noreturn void wait_for_ever(void)
{
	for (;;) {
		struct timespec nap = {.tv_nsec = WAIT_NS};

		if (nanosleep(&nap, NULL) != 0)
			victim_fail("nanosleep failed with errno %d", errno);
		check_below();
		victim_round();
	}
}

static void wait_deep_down(void *unused)
{
	(void)unused;
	if (is_worker)
		thread_started();
	else
		victim_ready();
	wait_for_ever();
}

static void run_coroutine(void)
{
	uintptr_t floor = (uintptr_t)arena + BELOW_BYTES + (uintptr_t)left_bytes;

	call_deep_down(floor, wait_deep_down, NULL);
}

static void leave_own_stack(void)
{
	ucontext_t own;
	ucontext_t coroutine;

	if (!arena)
		arena = malloc(BELOW_BYTES + STACK_BYTES);
	if (!arena || getcontext(&coroutine) != 0)
		victim_die("getcontext");
	memset(arena, PATTERN, BELOW_BYTES);
	coroutine.uc_stack.ss_sp = arena + BELOW_BYTES;
	coroutine.uc_stack.ss_size = STACK_BYTES;
	coroutine.uc_link = NULL;
	makecontext(&coroutine, run_coroutine, 0);
	swapcontext(&own, &coroutine);
}

static void *work(void *unused)
{
	is_worker = true;
	leave_own_stack();
	return unused;
}

static void *wait_below_own_stack(void *memory)
{
	arena = memory;
	leave_own_stack();
	return NULL;
}

static void *wait_on_own_stack(void *memory)
{
	arena = memory;
	memset(arena, PATTERN, BELOW_BYTES);
	run_coroutine();
	return NULL;
}

/*
 * Starts on a mapping that has, upwards: the data, the stack of a coroutine, unless `own`, and that
 * of a thread.
 */
static _Noreturn void start_in_mapping(bool own)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const size_t below = own ? BELOW_BYTES : BELOW_BYTES + STACK_BYTES;
	unsigned char *memory = mmap(NULL, below + OWN_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	if (memory == MAP_FAILED || pthread_attr_init(&attributes) != 0 ||
	    pthread_attr_setstack(&attributes, memory + below, OWN_BYTES) != 0 ||
	    pthread_create(&thread, &attributes, own ? wait_on_own_stack : wait_below_own_stack,
			   memory) != 0)
		victim_die("thread");
	pthread_mutex_lock(&lock);
	for (;;)
		pthread_mutex_lock(&lock);
}

int main(int argc, char **argv)
{
	int option, where = 0;

	while ((option = getopt(argc, argv, "t:pbo")) != -1) {
		if (option == 't')
			thread_count = argument_number(optarg, 1, 32);
		else if (strchr("pbo", option))
			where = option;
		else
			return 2;
	}
	left_bytes = argument_number(argv[optind], 4000, STACK_BYTES - 8192);
	victim_open();
	heap_spread();
	threads_start(thread_count, work, NULL);
	if (where == 'b' || where == 'o')
		start_in_mapping(where == 'o');
	if (where == 'p')
		wait_deep_down(NULL);
	leave_own_stack();
	return 2;
}
