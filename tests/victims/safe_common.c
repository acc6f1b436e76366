/* SPDX-License-Identifier: Apache-2.0 */
#include "safe_common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define STATUS_BYTES	 4096
#define KEEP_EVERY	 16
#define DEEP_STEP	 128
#define SIGNAL_PERIOD_NS 1000000L
#define CHECK_PER_CALL	 8
#define NAP_NS		 20000000L
#define BLOCK_STEP	 0xd1b54a32d192ed03U /* difference between two words of a block */

struct block {
	uint32_t bytes; /* length of the content */
	uint32_t seed;
	uint64_t content[];
};

static struct victim_status *status;
static _Atomic long started;

static struct {
	struct block **blocks;
	size_t count;
	size_t next;	   /* kept block that is checked next */
	long refill_every; /* number of checks after which the heap is refilled; 0: never */
	long checks;
} heap;

void victim_open(void)
{
	const char *path = getenv("VICTIM_STATUS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;

	if (path && fd < 0)
		victim_die(path);
	status = mmap(NULL, STATUS_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (status == MAP_FAILED)
		victim_die("mmap");
	if (getenv("VICTIM_PRIVATE"))
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (fd >= 0)
		close(fd);
}

void victim_ready(void)
{
	char line[32];
	int length = snprintf(line, sizeof(line), "ready %d\n", (int)getpid());

	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(2);
}

void victim_round(void)
{
	atomic_fetch_add(&status->rounds, 1);
}

void victim_interrupted(void)
{
	atomic_fetch_add(&status->interruptions, 1);
}

void victim_fail(const char *format, ...)
{
	char text[FAILURE_BYTES] = "";
	va_list args;

	va_start(args, format);
	/* clang-tidy 14 loses sight of va_start here: NOLINTNEXTLINE(clang-analyzer-valist*) */
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (atomic_fetch_add(&status->failures, 1) == 0)
		memcpy(status->first_failure, text, sizeof(text));
}

void victim_die(const char *what)
{
	fprintf(stderr, "victim: %s: %s\n", what, strerror(errno));
	_exit(2);
}

int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

long argument_number(const char *text, long low, long high)
{
	char *end = NULL;
	long value;

	errno = 0;
	value = text ? strtol(text, &end, 10) : 0;
	if (!text || end == text || *end || errno || value < low || value > high) {
		fprintf(stderr, "victim: bad number '%s'\n", text ? text : "");
		_exit(2);
	}
	return value;
}

void signals_start(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	struct itimerspec period = {.it_value.tv_nsec = SIGNAL_PERIOD_NS,
				    .it_interval.tv_nsec = SIGNAL_PERIOD_NS};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
	    timer_settime(timer, 0, &period, NULL) != 0)
		victim_die("timer_create");
}

void threads_start(long count, void *(*run)(void *), void *argument)
{
	for (long i = 0; i < count; i++) {
		pthread_t thread;

		errno = pthread_create(&thread, NULL, run, argument);
		if (errno)
			victim_die("pthread_create");
	}
	/* A thread begins with all signals blocked, which the test must not take for its mask. */
	while (atomic_load(&started) < count)
		usleep(1000);
}

void thread_started(void)
{
	atomic_fetch_add(&started, 1);
}

static void *sleep_for_ever(void *unused)
{
	sigset_t mask;

	(void)unused;
	sigfillset(&mask);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	thread_started();
	for (;;) {
		struct timespec nap = {.tv_nsec = NAP_NS};

		if (nanosleep(&nap, NULL) != 0)
			victim_fail("a thread that blocks all signals was interrupted");
	}
	return NULL;
}

void idle_threads_start(long count)
{
	threads_start(count, sleep_for_ever, NULL);
}

__attribute__((noinline)) void call_deep_down(uintptr_t floor, void (*run)(void *), void *argument)
{
	volatile char room[DEEP_STEP];

	room[0] = 1;
	if ((uintptr_t)room > floor + DEEP_STEP)
		call_deep_down(floor, run, argument);
	else
		run(argument);
	room[0] = 0; /* keeps this frame in use until the call has returned */
}

uint32_t random_next(uint32_t *state)
{
	uint32_t x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

/*
 * One addition per word: a generator takes eight times as long, and targets compute beside all
 * tests.
 */
static uint64_t block_first(uint32_t seed)
{
	return (seed | 1) * 0x9e3779b97f4a7c15U;
}

struct block *block_new(size_t size, uint32_t seed)
{
	struct block *block = malloc(size);
	uint64_t word = block_first(seed);

	if (!block)
		victim_die("malloc");
	block->seed = seed;
	block->bytes = (uint32_t)(size - sizeof(*block));
	for (uint32_t i = 0; i < block->bytes / sizeof(word); i++, word += BLOCK_STEP)
		block->content[i] = word;
	memcpy((char *)block->content + block->bytes / sizeof(word) * sizeof(word), &word,
	       block->bytes % sizeof(word));
	return block;
}

bool block_is_whole(const struct block *block)
{
	uint64_t word = block_first(block->seed);

	for (uint32_t i = 0; i < block->bytes / sizeof(word); i++, word += BLOCK_STEP)
		if (block->content[i] != word)
			return false;
	return memcmp((const char *)block->content + block->bytes / sizeof(word) * sizeof(word),
		      &word, block->bytes % sizeof(word)) == 0;
}

static void block_check(const struct block *block)
{
	if (block && !block_is_whole(block))
		victim_fail("a block of %u bytes was damaged", block->bytes);
}

void block_free(struct block *block)
{
	block_check(block);
	free(block);
}

void churn_run(struct churn *churn, int steps)
{
	for (int i = 0; i < steps; i++) {
		uint32_t random = random_next(&churn->random);
		struct block **slot = &churn->slots[random % CHURN_SLOTS];
		/* Most blocks are small, some have a few pages, few have many. */
		size_t size = 16 + (random >> 8) % 600;

		if (random >> 28 == 0)
			size = 4096 + (random >> 8) % 60000;
		block_free(*slot);
		*slot = block_new(size, random);
	}
}

void churn_check(const struct churn *churn)
{
	for (size_t i = 0; i < CHURN_SLOTS; i++)
		block_check(churn->slots[i]);
}

static void heap_fill(void)
{
	for (size_t i = 0; i < heap.count; i++)
		if (!heap.blocks[i])
			heap.blocks[i] = block_new(3000 + i % 7 * 900, (uint32_t)i * 7919 + 1);
}

static void heap_thin_out(void)
{
	for (size_t i = 0; i < heap.count; i++) {
		if (i % KEEP_EVERY == 0)
			continue;
		block_free(heap.blocks[i]);
		heap.blocks[i] = NULL;
	}
}

void heap_spread(void)
{
	const char *count = getenv("VICTIM_BLOCKS"), *refill = getenv("VICTIM_REFILL");

	heap.count = count ? (size_t)argument_number(count, KEEP_EVERY, 10000000) : 2000;
	heap.refill_every = refill ? argument_number(refill, 1, 1000) : 0;
	heap.blocks = calloc(heap.count, sizeof(struct block *));
	if (!heap.blocks)
		victim_die("calloc");
	heap_fill();
	heap_thin_out();
}

void heap_check(void)
{
	if (heap.refill_every && heap.checks++ % heap.refill_every == 0) {
		heap_fill();
		heap_thin_out();
	}
	for (int i = 0; i < CHECK_PER_CALL; i++) {
		if (!block_is_whole(heap.blocks[heap.next]))
			victim_fail("a kept block was damaged");
		heap.next += KEEP_EVERY;
		if (heap.next >= heap.count)
			heap.next = 0;
	}
}
