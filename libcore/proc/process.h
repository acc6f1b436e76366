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
	int pagemap; /* descriptor of its pagemap, if that may be read; or -1 */
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
 * Opens a process. FLMEM_ENOPROC if there is none; FLMEM_EUSAGE for the ID of a thread that is not
 * the first of its process.
 */
int flmem_process_open(pid_t pid, struct flmem_process *ret_process, struct flmem_error *err);

/* Opens a process below a directory that looks like /proc. */
int flmem_process_open_at(int proc_dirfd, pid_t pid, struct flmem_process *ret_process,
			  struct flmem_error *err);

void flmem_process_close(struct flmem_process *process);

/*
 * Returns the start time in microseconds since 1970-01-01 UTC by the current clock, exact to one
 * clock tick (10 ms). If the clock was set since then, the result is off by the same amount.
 */
uint64_t flmem_process_started_us(const struct flmem_process *process);

/*
 * Reads the address of the command line in the process's memory, which each execve changes; 0
 * without the permission to read it. Without ASLR it may stay the same. Returns 0 or -errno.
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
 * everything read since the pinning may belong to two programs.
 */
int flmem_process_failure(const struct flmem_process *process, int rc, struct flmem_error *err);

/* Returns false once the process has ended; a zombie has ended. */
bool flmem_process_alive(const struct flmem_process *process);

/*
 * Appends a whole file below /proc/PID to `buf`. Returns 0 or -errno: -ESRCH or -ENOENT if the
 * process has exited, -EACCES or -EPERM if not permitted.
 */
int flmem_process_read(const struct flmem_process *process, const char *name,
		       struct flmem_buf *buf);

/* Reads the target of a symbolic link below /proc/PID. Returns 0 or -errno. */
int flmem_process_readlink(const struct flmem_process *process, const char *name, char *ret_target,
			   size_t size);

/*
 * Returns true if the process is in the mount namespace of the caller. False also if that cannot be
 * determined.
 */
bool flmem_process_shares_mounts(const struct flmem_process *process);

/*
 * Opens `path`, an absolute path as the process sees it, through /proc/PID/root and never outside
 * of it. Only regular files are opened, and the call never blocks. Returns the descriptor or
 * -errno.
 */
int flmem_process_open_file(const struct flmem_process *process, const char *path);

/*
 * Does the same as flmem_process_open_file(), for a path that may be relative to the working
 * directory of the process.
 */
int flmem_process_open_path(const struct flmem_process *process, const char *path);

/*
 * Reads remote memory: all of it, or fails. Returns 0 or -errno (-EFAULT where nothing is mapped).
 * Reading untouched anonymous pages maps the zero page and swaps pages in, so read only what the
 * program itself has touched, or check pagemap first. -ENODATA: a file system in user space would
 * have to supply a page, and may never do so (proc/files/read_hazard.h).
 */
int flmem_process_read_memory(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length);

struct iovec;

/*
 * Reads many ranges near each other into `out`, one after the other; failures as by
 * flmem_process_read_memory().
 */
int flmem_process_read_scattered(const struct flmem_process *process, const struct iovec *places,
				 size_t count, void *out);

/*
 * Reads a byte of each page of the range that was missed while the calling thread held a thread of
 * the process, which makes them resident. False if there is none, or a page cannot be read.
 */
bool flmem_process_fetch_missed(const struct flmem_process *process);

/*
 * Opens the memory of the process for reading and writing, before any other read of it. The
 * descriptor stays bound to the current address space (proc_mem_open() in the kernel's
 * fs/proc/base.c): after an execve, or when the PID was reused, it reads and writes nothing. Does
 * nothing if it is already open. FLMEM_EPERM: this user may not trace the process.
 */
int flmem_process_pin_memory(struct flmem_process *process, struct flmem_error *err);

/*
 * Reads from the pinned address space: all of it, or fails. Returns 0 or -errno: -ESRCH if no
 * process has that space any more, -EFAULT where nothing is mapped. Reads what mprotect() forbids,
 * too.
 */
int flmem_process_read_pinned(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length);

/*
 * Writes to the pinned address space: all of it, or fails, as flmem_process_read_pinned(). The
 * kernel also writes where mprotect() forbids it, so check the mapping first.
 */
int flmem_process_write_memory(const struct flmem_process *process, uint64_t address,
			       const void *bytes, size_t length);

/* Reads the limit of the main stack in bytes; UINT64_MAX: no limit. Returns 0 or -errno. */
int flmem_process_stack_limit(const struct flmem_process *process, uint64_t *ret_bytes);

/* Turns a -errno of the functions above into an error with the PID and the right code. */
int flmem_process_error(const struct flmem_process *process, int negative_errno, const char *what,
			struct flmem_error *err);

#endif
