/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_PROCESS_H
#define FLMEM_PROC_PROCESS_H

/*
 * A handle on one process that never refers to another one: the /proc/PID directory is open (its
 * files give ESRCH once the process is gone, also after its pid was reused), a pidfd signals its
 * end, and the start time is the identity that is reported. One thread at a time per handle.
 *
 * Tests open handles on captured trees: flmem_process_open_at() takes a directory that looks like
 * /proc; such a handle has no pidfd and its memory cannot be read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/text/buf.h"

struct flmem_process {
	pid_t pid;
	int pidfd;   /* -1 on a captured tree */
	int dirfd;   /* /proc/PID, O_RDONLY | O_DIRECTORY */
	int mem_fd;  /* /proc/PID/mem of one address space, -1 before flmem_process_pin_memory() */
	int pagemap; /* its pagemap, where that may be read, or -1 */
	uint64_t start_time; /* clock ticks after boot, field 22 of /proc/PID/stat */
	pid_t parent;
	char state; /* R, S, D, T, t, Z, X, I as in /proc/PID/stat when opened */
	bool kernel_thread;
};

#define FLMEM_PROCESS_INIT                                             \
	{                                                              \
		.pidfd = -1, .dirfd = -1, .mem_fd = -1, .pagemap = -1, \
	}

/*
 * FLMEM_ENOPROC when there is none; FLMEM_EUSAGE for the id of a thread that is not a process's
 * first.
 */
int flmem_process_open(pid_t pid, struct flmem_process *ret_process, struct flmem_error *err);

/* The same below a directory that looks like /proc. */
int flmem_process_open_at(int proc_dirfd, pid_t pid, struct flmem_process *ret_process,
			  struct flmem_error *err);

void flmem_process_close(struct flmem_process *process);

/*
 * The start time in microseconds since 1970-01-01 UTC by the current clock, exact to one clock tick
 * (10 ms). If the clock was set since then, the result is off by the same amount.
 */
uint64_t flmem_process_started_us(const struct flmem_process *process);

/*
 * Address of its command line in its memory, which each execve changes; 0 without the permission to
 * read it, and without ASLR it may stay the same. Negative errno.
 */
int flmem_process_arguments_at(const struct flmem_process *process, uint64_t *ret_address);

/*
 * Closes the pidfd, for callers with thousands of handles: the files below the directory still
 * refer to this process only, but its memory can no longer be read.
 */
void flmem_process_unpin(struct flmem_process *process);

#define FLMEM_AUTO_PROCESS FLMEM_AUTO(flmem_process_close)

/*
 * Replaces the error of a step by FLMEM_ENOPROC if no process runs in the pinned memory any more:
 * everything read since then may belong to two programs.
 */
int flmem_process_failure(const struct flmem_process *process, int rc, struct flmem_error *err);

/* False once the process has ended (a zombie has ended). */
bool flmem_process_alive(const struct flmem_process *process);

/*
 * Appends the whole of a file below /proc/PID to `buf`. Negative errno on failure: -ESRCH or
 * -ENOENT when the process is gone, -EACCES or -EPERM when not permitted.
 */
int flmem_process_read(const struct flmem_process *process, const char *name,
		       struct flmem_buf *buf);

/* Target of a symbolic link below /proc/PID; negative errno on failure. */
int flmem_process_readlink(const struct flmem_process *process, const char *name, char *ret_target,
			   size_t size);

/* Whether it is in the mount namespace of the caller. False also if that cannot be determined. */
bool flmem_process_shares_mounts(const struct flmem_process *process);

/*
 * Opens `path`, an absolute path as the process sees it, through /proc/PID/root and never outside
 * of it. Only regular files, never blocking. Returns the descriptor or a negative errno.
 */
int flmem_process_open_file(const struct flmem_process *process, const char *path);

/* The same for a path that may be relative to the working directory of the process. */
int flmem_process_open_path(const struct flmem_process *process, const char *path);

/*
 * Reads remote memory; all or nothing. Negative errno on failure (-EFAULT where nothing is mapped).
 * Reading untouched anonymous pages maps the zero page and swaps pages in, so read only what the
 * program itself has touched, or check pagemap first. -ENODATA: a file system in user space would
 * have to supply a page, and may never do so (proc/files/read_hazard.h).
 */
int flmem_process_read_memory(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length);

struct iovec;

/* Reads many ranges near each other into `out`, one after the other; failures as above. */
int flmem_process_read_scattered(const struct flmem_process *process, const struct iovec *places,
				 size_t count, void *out);

/*
 * Opens the memory of the process for reading and writing, before any other read of it. The
 * descriptor stays bound to the current address space (proc_mem_open() in the kernel's
 * fs/proc/base.c): after an execve, or when the pid was reused, it reads and writes nothing. Does
 * nothing when already open. FLMEM_EPERM: this user may not trace the process.
 */
int flmem_process_pin_memory(struct flmem_process *process, struct flmem_error *err);

/*
 * Reads from the pinned address space; all or nothing. Negative errno: -ESRCH when no process has
 * it any more, -EFAULT where nothing is mapped. Reads what mprotect() forbids, too.
 */
int flmem_process_read_pinned(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length);

/*
 * Writes to the pinned address space; all or nothing, failures as above. The kernel also writes
 * where mprotect() forbids it, so check the mapping first.
 */
int flmem_process_write_memory(const struct flmem_process *process, uint64_t address,
			       const void *bytes, size_t length);

/* Limit of its main stack in bytes; UINT64_MAX: no limit. Negative errno. */
int flmem_process_stack_limit(const struct flmem_process *process, uint64_t *ret_bytes);

/* Turns a negative errno of the functions above into an error with the pid and the right code. */
int flmem_process_error(const struct flmem_process *process, int negative_errno, const char *what,
			struct flmem_error *err);

#endif
