/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAFE_COMMON_H
#define SAFE_COMMON_H

/*
 * Shared by the target programs of the safety tests: a status page that the tests watch from
 * outside, blocks that can be checked for damage, and a heap worth trimming.
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
	_Atomic uint64_t rounds;	/* completed rounds of checks */
	_Atomic uint64_t failures;	/* failed checks */
	_Atomic uint64_t interruptions; /* system calls that returned EINTR for no reason */
	char first_failure[FAILURE_BYTES];
};

/* Maps the status page; a victim calls it first. */
void victim_open(void);

/* Prints `ready PID`: the state that the test is about has been reached. */
void victim_ready(void);

/* Counts one more complete round of checks. */
void victim_round(void);

/* Records a system call that returned EINTR although no signal handler ran. */
void victim_interrupted(void);

/* Records a failed check; the text of the first one is kept. */
void victim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the program with status 2 because the test itself cannot be set up. */
_Noreturn void victim_die(const char *what);

/* Returns milliseconds of the monotonic clock. */
int64_t clock_ms(void);

/* Returns a decimal argument within [low, high]; ends the program otherwise. */
long argument_number(const char *text, long low, long high);

/* Starts a timer that sends SIGALRM 1,000 times a second. */
void signals_start(void);

/* Starts threads that all run the same function, and waits until each has called the second one. */
void threads_start(long count, void *(*run)(void *), void *argument);
void thread_started(void);

/* Starts threads that do nothing but sleep, with all signals blocked. */
void idle_threads_start(long count);

/* Calls a function when almost nothing is left of the stack down to the address `floor`. */
void call_deep_down(uintptr_t floor, void (*run)(void *), void *argument);

/* Returns the next pseudo-random number of a sequence; the state must not be 0. */
uint32_t random_next(uint32_t *state);

/* A block of `size` bytes (at least 16) whose content depends on its seed. */
struct block;
struct block *block_new(size_t size, uint32_t seed);

/* Reports whether the block still has its content. */
bool block_is_whole(const struct block *block);

/* Checks the block (a failure is recorded) and frees it; NULL is allowed. */
void block_free(struct block *block);

/* A set of blocks that are allocated and freed by one thread. */
#define CHURN_SLOTS 256
struct churn {
	struct block *slots[CHURN_SLOTS];
	uint32_t random;
};
/* Frees, checks and allocates `steps` blocks. */
void churn_run(struct churn *churn, int steps);
/* Checks all blocks of the set. */
void churn_check(const struct churn *churn);

/* Fills the heap and frees 15 of 16 blocks, so that most of it is retained and can be released. */
void heap_spread(void);

/* Checks some of the blocks that were kept; with VICTIM_REFILL spreads the heap again. */
void heap_check(void);

#endif
