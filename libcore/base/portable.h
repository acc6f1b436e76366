/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_PORTABLE_H
#define FLMEM_BASE_PORTABLE_H

/*
 * Functions and constants that glibc 2.28 or musl 1.2.2 lack or have in another form; the wheels
 * are built for these versions. System calls without a function there are made directly: their
 * numbers exist since Linux 4.11 or before.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* struct statx: glibc 2.28, musl 1.2.5 */
#ifndef STATX_TYPE
#include <linux/stat.h>
#endif

/* linux/fs.h, which some versions of sys/mount.h contradict */
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1U
#endif
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2U
#endif

/* The type of ptrace()'s first parameter. */
#ifdef __GLIBC__
typedef enum __ptrace_request flmem_ptrace_request;
#else
typedef int flmem_ptrace_request;
#endif

/* The type of ioctl()'s second parameter: unsigned long, but int in POSIX and musl. */
#ifdef __GLIBC__
#define FLMEM_IOCTL_REQUEST(request) (request)
#else
#define FLMEM_IOCTL_REQUEST(request) ((int)(request))
#endif

/* Exists from glibc 2.30 and musl 1.2.2 on. */
static inline pid_t flmem_thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Exists from glibc 2.28 and musl 1.2.6 on. */
static inline int flmem_file_rename(int from, const char *name, int to, const char *new_name,
				    unsigned flags)
{
#ifdef __GLIBC__
	return renameat2(from, name, to, new_name, flags);
#else
	return (int)syscall(SYS_renameat2, from, name, to, new_name, flags);
#endif
}

/* Exists from musl 1.2.5 on. */
static inline int flmem_file_statx(int directory, const char *name, int flags, unsigned mask,
				   struct statx *ret_status)
{
	return (int)syscall(SYS_statx, directory, name, flags, mask, ret_status);
}

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/*
 * Exists from musl 1.2.5 on. The offset is passed in two halves, the upper one of which is for
 * 32-bit systems.
 */
static inline ssize_t flmem_file_read_flags(int fd, const struct iovec *places, int count,
					    off_t offset, int flags)
{
	return syscall(SYS_preadv2, fd, places, (long)count, offset, 0L, flags);
}

/*
 * Hides a difference: strerror_r() of glibc may return a static string; that of POSIX fills the
 * buffer.
 */
static inline const char *flmem_errno_text(int number, char *buffer, size_t size)
{
#ifdef __GLIBC__
	return strerror_r(number, buffer, size);
#else
	if (strerror_r(number, buffer, size))
		snprintf(buffer, size, "error %d", number);
	return buffer;
#endif
}

/*
 * Locks within `seconds`, or returns an error number. The older function knows only the clock that
 * can be set, which makes the wait shorter or longer if the clock is set meanwhile.
 */
static inline int flmem_mutex_lock_within(pthread_mutex_t *mutex, time_t seconds)
{
	struct timespec until;
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 30)
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
#else
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	return pthread_mutex_timedlock(mutex, &until);
#endif
}

/* Prepares a condition for pthread_cond_timedwait() with times of CLOCK_MONOTONIC. */
static inline void flmem_cond_init_monotonic(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

#endif
