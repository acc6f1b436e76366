/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TASK_H
#define FLMEM_PROC_TASK_H

/* The threads of a process and their states, read without stopping any of them. */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct flmem_process;

struct flmem_tasks {
	pid_t *ids;
	size_t count;
};

/* Limit on the number of listed threads. */
#define FLMEM_TASKS_MAX 4096U

/*
 * Negative errno on failure. No thread that lives through the call is missing, but some that are
 * listed may have exited.
 */
int flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);
void flmem_tasks_clear(struct flmem_tasks *tasks);

#define FLMEM_AUTO_TASKS FLMEM_AUTO(flmem_tasks_clear)

/* Whether an error of reading a thread's file means that the thread has exited. */
static inline bool flmem_task_has_ended(int negative_errno)
{
	return negative_errno == -ESRCH || negative_errno == -ENOENT;
}

/* Threads with their ids as seen by this process, and as seen by the target. */
struct flmem_task_ids {
	struct flmem_task_id {
		pid_t outer, inner;
	} * rows;
	size_t count;
};

/* The ids differ only if the process lives in its own pid namespace. Negative errno. */
int flmem_task_ids_read(const struct flmem_process *process, struct flmem_task_ids *ret_ids);
void flmem_task_ids_clear(struct flmem_task_ids *ids);

#define FLMEM_AUTO_TASK_IDS FLMEM_AUTO(flmem_task_ids_clear)

/* The id, as seen by this process, of the thread whose own id is `inner`; 0 when there is none. */
pid_t flmem_task_ids_outer(const struct flmem_task_ids *ids, pid_t inner);

/* The system call that a thread is blocked in, from /proc/PID/task/TID/syscall. */
struct flmem_task_wait {
	long number; /* -1: blocked, but not in a system call (page fault, exception) */
	uint64_t args[6];
	uint64_t sp, pc;
};

/*
 * 1 when the thread is blocked, with *ret_wait set, 0 when it is running, negative errno on failure
 * (-EACCES or -EPERM: needs the right to trace the process).
 */
int flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
			 struct flmem_task_wait *ret_wait);

/*
 * The same in two steps, for callers that must read quickly: opens the file of a thread, and reads
 * its current content. Returns the descriptor, or a negative errno.
 */
int flmem_task_open_wait(const struct flmem_process *process, pid_t tid);
int flmem_task_read_open_wait(int fd, struct flmem_task_wait *ret_wait);

/* Parses such a file; the return value as above, -EPROTO when it is malformed. */
int flmem_task_wait_parse(const char *text, struct flmem_task_wait *ret_wait);

/* CPU time that the thread has used so far in nanoseconds; 0 when the kernel does not report it. */
uint64_t flmem_task_cpu_ns(const struct flmem_process *process, pid_t tid);

/* The processor that the thread last ran on; -1 when that cannot be read. */
int flmem_task_processor(const struct flmem_process *process, pid_t tid);

/* True for a thread of the kernel in the process (io_uring, vhost): it runs no program code. */
bool flmem_task_is_kernels(const struct flmem_process *process, pid_t tid);

/* The number of threads that are not the kernel's; counts up to `most`. */
size_t flmem_tasks_count_own(const struct flmem_process *process, const struct flmem_tasks *tasks,
			     size_t most);

/*
 * True for a blocked thread whose system call another process makes for it (seccomp user
 * notification), where the kernel shows that.
 */
bool flmem_task_is_supervised(const struct flmem_process *process, pid_t tid);

/*
 * True for a blocked thread that its control group (version 2) has frozen. If the kernel does not
 * show the function in which the thread waits: true if its group is to be frozen, as far as visible
 * here.
 */
bool flmem_task_is_frozen(const struct flmem_process *process, pid_t tid);

/* Name of the thread (comm), always terminated; "" when it cannot be read. */
void flmem_task_name(const struct flmem_process *process, pid_t tid, char *out, size_t size);

#endif
