/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TASK_H
#define FLMEM_PROC_TASK_H

/* Lists the threads of a process and reads their states, without stopping any of them. */

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
 * Lists the threads. Returns 0 or -errno. No thread that lives through the call is missing, but
 * some that are listed may have exited.
 */
int flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);
void flmem_tasks_clear(struct flmem_tasks *tasks);

#define FLMEM_AUTO_TASKS FLMEM_AUTO(flmem_tasks_clear)

/* Returns true if an error of reading a thread's file means that the thread has exited. */
static inline bool flmem_task_has_ended(int negative_errno)
{
	return negative_errno == -ESRCH || negative_errno == -ENOENT;
}

/* Threads with their IDs as seen by this process, and as seen by the target. */
struct flmem_task_ids {
	struct flmem_task_id {
		pid_t outer, inner;
	} * rows;
	size_t count;
};

/*
 * Reads the IDs, which differ only if the process lives in a separate PID namespace. Returns 0 or
 * -errno.
 */
int flmem_task_ids_read(const struct flmem_process *process, struct flmem_task_ids *ret_ids);
void flmem_task_ids_clear(struct flmem_task_ids *ids);

#define FLMEM_AUTO_TASK_IDS FLMEM_AUTO(flmem_task_ids_clear)

/*
 * Returns the ID, as seen by this process, of the thread whose own ID is `inner`; 0 if there is
 * none.
 */
pid_t flmem_task_ids_outer(const struct flmem_task_ids *ids, pid_t inner);

/* The system call in which a thread is blocked, from /proc/PID/task/TID/syscall. */
struct flmem_task_wait {
	/* -1: the thread is blocked, but not in a system call (page fault, exception). */
	long number;
	uint64_t args[6];
	uint64_t sp, pc;
};

/*
 * Reads what a thread is blocked in. Returns 1 if it is blocked, with *ret_wait set, 0 if it is
 * running, or -errno (-EACCES or -EPERM without the right to trace the process). The kernel also
 * shows the wait of a thread that was just woken, until the thread is on the list of a processor.
 */
int flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
			 struct flmem_task_wait *ret_wait);

/*
 * The two steps of flmem_task_read_wait(), for callers that must read quickly: opening the file of
 * a thread (returns the descriptor or -errno), and reading its current content.
 */
int flmem_task_open_wait(const struct flmem_process *process, pid_t tid);
int flmem_task_read_open_wait(int fd, struct flmem_task_wait *ret_wait);

/* Parses such a file. Returns as flmem_task_read_wait(), -EPROTO if the file is malformed. */
int flmem_task_wait_parse(const char *text, struct flmem_task_wait *ret_wait);

/*
 * Returns the CPU time that the thread has used so far, in nanoseconds; 0 if the kernel does not
 * report it.
 */
uint64_t flmem_task_cpu_ns(const struct flmem_process *process, pid_t tid);

/* Returns the processor on which the thread last ran; -1 if that cannot be read. */
int flmem_task_processor(const struct flmem_process *process, pid_t tid);

/*
 * Returns true if the kernel runs the thread as a real-time one, or if that cannot be read. It also
 * does so as long as the thread holds a lock that a real-time thread waits for (FUTEX_LOCK_PI).
 */
bool flmem_task_is_boosted(const struct flmem_process *process, pid_t tid);

/*
 * Returns true for a thread of the kernel in the process (io_uring, vhost): it runs no program
 * code.
 */
bool flmem_task_is_kernels(const struct flmem_process *process, pid_t tid);

/* Returns the number of threads that are not the kernel's; counts up to `most`. */
size_t flmem_tasks_count_own(const struct flmem_process *process, const struct flmem_tasks *tasks,
			     size_t most);

/*
 * Returns true for a blocked thread whose system call another process makes for it (seccomp user
 * notification), if the kernel shows that.
 */
bool flmem_task_is_supervised(const struct flmem_process *process, pid_t tid);

/*
 * Returns true for a blocked thread that its control group (version 2) has frozen. If the kernel
 * does not show the function in which the thread waits: true if its group is to be frozen, as far
 * as visible here.
 */
bool flmem_task_is_frozen(const struct flmem_process *process, pid_t tid);

/* Reads the name of the thread (comm), always terminated; "" if it cannot be read. */
void flmem_task_name(const struct flmem_process *process, pid_t tid, char *out, size_t size);

#endif
