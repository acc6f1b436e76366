/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAFE_COMMON_H
#define SAFE_COMMON_H

/*
 * What the target programs of the safety tests share: a status page that the tests watch from
 * outside, blocks that know whether they are whole, and a heap worth trimming.
 *
 * From the environment: VICTIM_STATUS, a file of one page to report through; VICTIM_BLOCKS, the
 * size of the heap; VICTIM_REFILL, allocate and free again in every round so that there is always
 * something to release (without it, a victim that waits leaves its heap and mappings alone);
 * VICTIM_PRIVATE, do not be dumpable.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAILURE_BYTES 240

/* Read by tests/harness/victim.py. */
struct victim_status {
	_Atomic uint64_t rounds;	/* rounds of checks that were completed */
	_Atomic uint64_t failures;	/* checks that failed */
	_Atomic uint64_t interruptions; /* system calls that gave EINTR for no reason */
	char first_failure[FAILURE_BYTES];
};

/* Maps the status page; the first thing that a victim does. */
void victim_open(void);

/* Prints `ready PID`: the state that the test is about has been reached. */
void victim_ready(void);

/* One more round of checks is complete. */
void victim_round(void);

/* A system call gave EINTR although no signal handler ran. */
void victim_interrupted(void);

/* A check failed; the text of the first one is kept. */
void victim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the program because the test itself cannot be set up: status 2. */
_Noreturn void victim_die(const char *what);

/* Milliseconds of the monotonic clock. */
int64_t clock_ms(void);

/* A decimal argument within [low, high]; ends the program otherwise. */
long argument_number(const char *text, long low, long high);

/* Makes SIGALRM come 1,000 times a second. */
void signals_start(void);

/* Starts threads that all run the same function, and waits until each has called the second. */
void threads_start(long count, void *(*run)(void *), void *argument);
void thread_started(void);

/* Starts threads that do nothing but sleep, with all signals blocked. */
void idle_threads_start(long count);

/* Calls a function with nothing left of the stack below the address `floor`, or almost. */
void call_deep_down(uintptr_t floor, void (*run)(void *), void *argument);

/* Next pseudo-random number of a sequence; the state must not be 0. */
uint32_t random_next(uint32_t *state);

/* A block of `size` bytes (at least 16) whose content follows from its seed. */
struct block;
struct block *block_new(size_t size, uint32_t seed);

/* Whether the block still holds what was put into it. */
bool block_is_whole(const struct block *block);

/* Checks the block (a failure is recorded) and frees it; NULL is fine. */
void block_free(struct block *block);

/* A set of blocks that comes and goes; one thread each. */
#define CHURN_SLOTS 256
struct churn {
	struct block *slots[CHURN_SLOTS];
	uint32_t random;
};
/* Frees, checks and allocates `steps` blocks. */
void churn_run(struct churn *churn, int steps);
/* Checks all of its blocks. */
void churn_check(const struct churn *churn);

/* Fills the heap and frees 15 of 16 blocks, so that most of it is retained and can be released. */
void heap_spread(void);

/* Checks some of the blocks that were kept; with VICTIM_REFILL spreads the heap again. */
void heap_check(void);

#endif
