/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_threads: threads that allocate and free blocks which know whether they are whole, beside
 * threads that wait.
 *	-c N	threads that churn		-i N	threads that wait
 *	-m	the main thread churns too	-n US	churning threads rest so long per batch
 *	-s N	stack bytes of each thread	-l N	waiting threads leave only this much of it
 *	-g	all stacks in one mapping with guard pages that it does not show, as newer C
 *		libraries make them (status 77: this kernel has none)
 *	-z	the main thread ends first, which leaves a process whose leader is a zombie
 *	-x MS	the process exits after this long, by exit(0)
 */
#include "safe_common.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GUARD_BYTES    4096
#define GUARD_INSTALL  102 /* MADV_GUARD_INSTALL, Linux 6.13 */
#define THREADS_MAX    64
#define BATCH	       2000
#define BETWEEN_CHECKS 50
#define WAIT_MS	       40 /* the environment may set a longer time, where flmem is slow */
#define LOCAL_WORDS    32
#define WAIT_KINDS     4

struct settings {
	long churners;
	long idlers;
	bool main_churns;
	long nap_us;
	long stack_bytes;
	long left_bytes;
	bool hidden_guards;
	bool leaderless;
	long exit_ms;
};

struct worker {
	const struct settings *settings;
	uint32_t seed;
	bool churns;
	pthread_t thread;
	struct churn churn;
};

static struct worker workers[THREADS_MAX];
static _Thread_local uint32_t thread_seed;
static _Atomic long started;
static int wait_ms = WAIT_MS;

/*
 * A thread that never rests checks all of its blocks only now and then: otherwise it would never be
 * outside of the allocator.
 */
static void churn_batch(struct worker *worker)
{
	if (worker->settings->nap_us > 0) {
		churn_run(&worker->churn, BATCH);
		usleep((unsigned)worker->settings->nap_us);
		return;
	}
	for (int done = 0; done < BATCH; done += BETWEEN_CHECKS) {
		churn_run(&worker->churn, BETWEEN_CHECKS);
		churn_check(&worker->churn);
	}
}

static void churn_for_ever(struct worker *worker)
{
	worker->churn.random = worker->seed;
	for (;;) {
		churn_batch(worker);
		victim_round();
	}
}

static void wake_at(struct timespec *ret_when)
{
	clock_gettime(CLOCK_REALTIME, ret_when);
	ret_when->tv_nsec += wait_ms * 1000000L;
	if (ret_when->tv_nsec >= 1000000000L) {
		ret_when->tv_nsec -= 1000000000L;
		ret_when->tv_sec++;
	}
}

static bool wait_for_semaphore(void)
{
	struct timespec when;
	sem_t semaphore;

	sem_init(&semaphore, 0, 0);
	wake_at(&when);
	return sem_timedwait(&semaphore, &when) == -1 && errno == ETIMEDOUT;
}

static bool wait_for_condition(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec when;

	wake_at(&when);
	pthread_mutex_lock(&mutex);

	int result = pthread_cond_timedwait(&condition, &mutex, &when);

	pthread_mutex_unlock(&mutex);
	return result == ETIMEDOUT;
}

/* Makes one wait that ends by time; returns whether it ended in no other way. */
static bool wait_once(uint32_t kind)
{
	struct timespec nap = {.tv_nsec = wait_ms * 1000000L};

	switch (kind % WAIT_KINDS) {
	case 0:
		return nanosleep(&nap, NULL) == 0;
	case 1:
		return poll(NULL, 0, wait_ms) == 0;
	case 2:
		return wait_for_semaphore();
	default:
		return wait_for_condition();
	}
}

static void idle_for_ever(void *argument)
{
	struct worker *worker = argument;
	uint32_t local[LOCAL_WORDS];

	for (;;) {
		for (uint32_t i = 0; i < LOCAL_WORDS; i++)
			local[i] = worker->seed ^ i;
		__asm__ volatile("" : : "r"(local) : "memory");
		if (!wait_once(worker->seed))
			victim_fail("a wait of kind %u ended early", worker->seed % WAIT_KINDS);
		for (uint32_t i = 0; i < LOCAL_WORDS; i++)
			if (local[i] != (worker->seed ^ i))
				victim_fail("a variable on the stack was damaged");
		if (thread_seed != worker->seed)
			victim_fail("a thread-local variable was damaged");
		victim_round();
	}
}

static uintptr_t stack_low(void)
{
	pthread_attr_t attributes;
	void *low = NULL;
	size_t size = 0;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0 ||
	    pthread_attr_getstack(&attributes, &low, &size) != 0)
		victim_die("pthread_getattr_np");
	pthread_attr_destroy(&attributes);
	return (uintptr_t)low;
}

static void *run_worker(void *argument)
{
	struct worker *worker = argument;

	thread_seed = worker->seed;
	atomic_fetch_add(&started, 1);
	if (worker->churns)
		churn_for_ever(worker);
	if (worker->settings->left_bytes > 0)
		call_deep_down(stack_low() + (uintptr_t)worker->settings->left_bytes, idle_for_ever,
			       worker);
	idle_for_ever(worker);
	return NULL;
}

/* Some C libraries have a higher minimum, such as 128 KiB in glibc for aarch64. */
static size_t stack_size(const struct settings *settings)
{
	size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);

	return settings->stack_bytes < (long)least ? least : (size_t)settings->stack_bytes;
}

/* Makes stacks side by side, each with an invisible guard page at its lower end. */
static void set_guarded_stack(pthread_attr_t *attributes, const struct settings *settings, long i)
{
	static char *all;
	size_t size = stack_size(settings);

	if (!all)
		all = mmap(NULL, size * THREADS_MAX, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		victim_die("mmap");

	char *stack = all + size * (size_t)i;

	if (madvise(stack, GUARD_BYTES, GUARD_INSTALL) != 0)
		_exit(77);
	errno = pthread_attr_setstack(attributes, stack, size);
	if (errno)
		victim_die("pthread_attr_setstack");
}

static void start_workers(const struct settings *settings)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	if (settings->stack_bytes > 0 &&
	    pthread_attr_setstacksize(&attributes, stack_size(settings)) != 0)
		victim_die("pthread_attr_setstacksize");
	for (long i = 0; i < settings->churners + settings->idlers; i++) {
		workers[i].settings = settings;
		workers[i].seed = (uint32_t)i * 2654435761U + 12345;
		workers[i].churns = i < settings->churners;
		if (settings->hidden_guards)
			set_guarded_stack(&attributes, settings, i);
		errno = pthread_create(&workers[i].thread, &attributes, run_worker, &workers[i]);
		if (errno)
			victim_die("pthread_create");
	}
	pthread_attr_destroy(&attributes);
	/* A thread begins with all signals blocked, which the test must not see. */
	while (atomic_load(&started) < settings->churners + settings->idlers)
		usleep(1000);
}

static void parse(int argc, char **argv, struct settings *settings)
{
	int option;

	while ((option = getopt(argc, argv, "c:i:mn:s:l:gzx:")) != -1) {
		switch (option) {
		case 'c':
			settings->churners = argument_number(optarg, 0, THREADS_MAX / 2);
			break;
		case 'i':
			settings->idlers = argument_number(optarg, 0, THREADS_MAX / 2 - 1);
			break;
		case 'm':
			settings->main_churns = true;
			break;
		case 'n':
			settings->nap_us = argument_number(optarg, 0, 1000000);
			break;
		case 's':
			settings->stack_bytes = argument_number(optarg, 16384, 1L << 30);
			break;
		case 'l':
			settings->left_bytes = argument_number(optarg, 1024, 1L << 20);
			break;
		case 'g':
			settings->hidden_guards = true;
			break;
		case 'z':
			settings->leaderless = true;
			break;
		case 'x':
			settings->exit_ms = argument_number(optarg, 0, 100000);
			break;
		default:
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	static struct settings settings;
	static struct worker own;
	const char *slower = getenv("WAIT_MS");

	parse(argc, argv, &settings);
	if (slower)
		wait_ms = (int)argument_number(slower, 1, 999);
	victim_open();
	heap_spread();
	start_workers(&settings);
	victim_ready();
	own.settings = &settings;
	own.seed = thread_seed = 99;
	if (settings.leaderless)
		pthread_exit(NULL);
	if (settings.exit_ms > 0) {
		usleep((unsigned)settings.exit_ms * 1000);
		heap_check();
		exit(0);
	}
	if (settings.main_churns)
		churn_for_ever(&own);
	for (;;) {
		if (!wait_once(settings.idlers > 0 ? 0 : 1))
			victim_fail("the main thread's wait ended early");
		heap_check();
		victim_round();
	}
}
