/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes forks and walks over the linker's list exclude each other. A child of fork() gets the list
 * locked if another thread of its parent walks over it at that moment. No thread of the child
 * unlocks it, and its next dlopen() or exception waits forever (glibc renews other locks of the
 * linker in a child, this one not). A page that is writable for a moment would stay so in the
 * child, too. So nothing else in the sampler calls dl_iterate_phdr() (tests/checks/forbidden.py).
 *
 * Both waits are bounded: a function of the program that the linker calls with its list locked may
 * fork.
 */

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/sampler/got.h"

#define PAUSE_NS  100000
#define WAITS_MAX 10000U /* the limit of a wait: at least a second */
/* Handlers of a fork in progress take less time, even on a busy machine. */
#define HANDLERS_NS 200000000

static uint32_t forking, walking, registered, settled;

static void pause_shortly(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	/* nanosleep() is not used: it is a cancellation point. */
	syscall(SYS_nanosleep, &pause, NULL);
}

static uint32_t read_count(const uint32_t *count)
{
	return __atomic_load_n(count, __ATOMIC_SEQ_CST);
}

static void add_to_count(uint32_t *count, uint32_t number)
{
	__atomic_fetch_add(count, number, __ATOMIC_SEQ_CST);
}

/*
 * Waits for walks before a fork. Handlers of others are called later, so no lock of theirs is
 * held. A signal handler may fork in the thread that walks.
 */
static void begin_fork(void)
{
	const uint32_t own = sampler_thread.walks > 0;

	sampler_thread.forking++;
	add_to_count(&forking, 1);
	for (unsigned i = 0; i < WAITS_MAX && read_count(&walking) > own; i++) {
		add_to_count(&forking, -1U);
		pause_shortly();
		add_to_count(&forking, 1);
	}
}

/*
 * Ends the exclusion in the parent, except for a fork that was in progress when the handlers were
 * registered. A signal handler may have forked in the middle of another fork.
 */
static void end_fork_in_parent(void)
{
	if (!sampler_thread.forking)
		return;
	add_to_count(&forking, -1U);
	sampler_thread.forking--;
}

/* Resets the counts in the child, where the other threads of the parent do not exist. */
static void end_fork_in_child(void)
{
	sampler_child_settle();
	sampler_thread.forking = 0;
	forking = 0;
	walking = sampler_thread.walks > 0;
}

static void register_handlers(void)
{
	if (!__atomic_exchange_n(&registered, 1, __ATOMIC_SEQ_CST))
		pthread_atfork(begin_fork, end_fork_in_parent, end_fork_in_child);
}

void sampler_walk_prepare(void)
{
	register_handlers();
	add_to_count(&settled, 1);
}

/*
 * Prepares walks where other threads already run. A fork may be in progress, and have called its
 * handlers just when these were registered. It does not call these (since glibc 2.36; before, the
 * list is locked over a whole fork), and copies the process when its own handlers have returned. So
 * this waits for such forks.
 */
void sampler_walk_prepare_late(void)
{
	const struct timespec pause = {.tv_nsec = HANDLERS_NS};

	register_handlers();
	if (read_count(&settled))
		return;
	syscall(SYS_nanosleep, &pause, NULL);
	add_to_count(&settled, 1);
}

/*
 * Begins a walk. A handler of the program may open a library in the middle of a fork: such a fork
 * of the same thread does not count.
 */
void sampler_walk_begin(void)
{
	const uint32_t own = sampler_thread.forking;

	if (sampler_thread.walks++)
		return;
	add_to_count(&walking, 1);
	for (unsigned i = 0; i < WAITS_MAX && read_count(&forking) > own; i++)
		pause_shortly();
}

bool sampler_walk_try(void)
{
	if (sampler_thread.walks++)
		return true;
	add_to_count(&walking, 1);
	if (read_count(&forking) <= sampler_thread.forking)
		return true;
	sampler_walk_end();
	return false;
}

void sampler_walk_end(void)
{
	if (--sampler_thread.walks == 0)
		add_to_count(&walking, -1U);
}

void sampler_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context)
{
	sampler_walk_begin();
	dl_iterate_phdr(visit, context);
	sampler_walk_end();
}
