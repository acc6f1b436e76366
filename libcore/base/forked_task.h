/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_FORKED_TASK_H
#define FLMEM_BASE_FORKED_TASK_H

/*
 * Runs work on files in a child process. A file system in user space whose server is silent blocks
 * its user, and SIGKILL does not end that: a process with such a thread cannot end. The child
 * can be left behind.
 */

#include <stddef.h>
#include <stdint.h>

#define FLMEM_FORKED_TASK_DESCRIPTORS 3

struct flmem_forked_task {
	/*
	 * In the child, which is a copy of the calling thread alone: system calls, and nothing that
	 * takes a lock. Negative errno on failure.
	 */
	int (*run)(void *context);
	int (*prepare)(const void *rights); /* before it, likewise; NULL: nothing */
	const void *rights;
	void (*undo)(void *context); /* after it, if no caller waits; NULL: nothing */
	void *context;		     /* its bytes come back from the child */
	size_t size;
	/*
	 * In the context: those that are open stay open in the child, and those that it opens come
	 * back. All others are closed there: a reader of flmem's output waits until they are.
	 */
	int *descriptors[FLMEM_FORKED_TASK_DESCRIPTORS];
};

/*
 * Returns what `run` returns, and -ETIMEDOUT if it did not in time: the context is as it was, and
 * the child undoes its work once it can. -EBUSY: too many earlier ones still wait.
 */
int flmem_forked_task_run(const struct flmem_forked_task *task, uint64_t timeout_us);

#endif
