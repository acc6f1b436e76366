/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_RELEASE_CALLS_H
#define FLMEM_ALLOCATORS_RELEASE_CALLS_H

/*
 * Rows of the system calls that allocators make when they release memory or take their locks.
 * Addresses and lengths are unknown; memory is never made executable.
 */

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "remote/seccomp/syscalls.h"

#define FLMEM_CALL_MADVISE(advice)                             \
	{                                                      \
		SYS_madvise, "madvise", FLMEM_FAILURE_REFUSED, \
		{                                              \
			{0}, {0}, FLMEM_ARG_IS(advice)         \
		}                                              \
	}

/* A row for advice whose failure allocators ignore. */
#define FLMEM_CALL_HINT(advice)                             \
	{                                                   \
		SYS_madvise, "madvise", FLMEM_FAILURE_FINE, \
		{                                           \
			{0}, {0}, FLMEM_ARG_IS(advice)      \
		}                                           \
	}

#define FLMEM_CALL_MUNMAP                                    \
	{                                                    \
		SYS_munmap, "munmap", FLMEM_FAILURE_REFUSED, \
		{                                            \
			{                                    \
				0                            \
			}                                    \
		}                                            \
	}

#define FLMEM_CALL_MMAP                                                                        \
	{                                                                                      \
		SYS_mmap, "mmap", FLMEM_FAILURE_REFUSED,                                       \
		{                                                                              \
			{0}, {0}, FLMEM_ARG_WITHIN(PROT_READ | PROT_WRITE),                    \
				FLMEM_ARG_WITHIN(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | \
						 MAP_FIXED | MAP_STACK),                       \
				FLMEM_ARG_INT(-1), FLMEM_ARG_IS(0)                             \
		}                                                                              \
	}

#define FLMEM_CALL_MPROTECT                                                \
	{                                                                  \
		SYS_mprotect, "mprotect", FLMEM_FAILURE_REFUSED,           \
		{                                                          \
			{0}, {0}, FLMEM_ARG_WITHIN(PROT_READ | PROT_WRITE) \
		}                                                          \
	}

#define FLMEM_CALL_BRK                                 \
	{                                              \
		SYS_brk, "brk", FLMEM_FAILURE_REFUSED, \
		{                                      \
			{                              \
				0                      \
			}                              \
		}                                      \
	}

#define FLMEM_CALL_FUTEX(operation)                        \
	{                                                  \
		SYS_futex, "futex", FLMEM_FAILURE_REFUSED, \
		{                                          \
			{0}, FLMEM_ARG_IS(operation)       \
		}                                          \
	}

/* Waiting for a lock that another thread holds, and waking a thread that waits for one. */
#define FLMEM_CALLS_LOCK FLMEM_CALL_FUTEX(FUTEX_WAIT_PRIVATE), FLMEM_CALL_FUTEX(FUTEX_WAKE_PRIVATE)

/* The clock, where the vDSO does not support the clock source. */
#define FLMEM_CALL_CLOCK FLMEM_CALL_PLAIN(clock_gettime)

#endif
