/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_FORKED_TASK_H
#define FLMEM_BASE_FORKED_TASK_H

/*
 * Runs work on files in a child process. A file system in user space whose server does not answer
 * blocks its user, and SIGKILL does not end that: a process with such a thread cannot end. A child
 * process can be left behind.
 */

#include <stddef.h>
#include <stdint.h>

#define FLMEM_FORKED_TASK_DESCRIPTORS 3

struct flmem_forked_task {
	/*
	 * Called in the child, which is a copy of the calling thread alone: it may make system
	 * calls, and take no lock. Returns a negative errno on failure.
	 */
	int (*run)(void *context);
	int (*prepare)(const void *rights); /* called in the child before run(); NULL: nothing */
	const void *rights;
	/* Called in the child after run() if no caller waits; NULL: nothing. */
	void (*undo)(void *context);
	void *context; /* the child's copy of these bytes is sent back */
	size_t size;
	/*
	 * Descriptors in the context. Those that are open stay open in the child, and those that
	 * run() opens are sent back. All others are closed in the child: a reader of flmem's output
	 * waits until they are.
	 */
	int *descriptors[FLMEM_FORKED_TASK_DESCRIPTORS];
};

/*
 * Runs the task. Returns what `run` returns, or -ETIMEDOUT if it did not return in time: the
 * context is then unchanged, and the child undoes its work once it can. -EBUSY: too many earlier
 * children still wait.
 */
int flmem_forked_task_run(const struct flmem_forked_task *task, uint64_t timeout_us);

#endif
