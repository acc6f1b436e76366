/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_FLAGS_H
#define FLMEM_TESTS_FLAGS_H

/* Flags by which threads of a test wait for each other, without a lock that a fork could copy. */

#include <sched.h>
#include <stdbool.h>

static inline bool read_flag(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

static inline void set_flag(bool *flag)
{
	__atomic_store_n(flag, true, __ATOMIC_SEQ_CST);
}

static inline void await_flag(const bool *flag)
{
	while (!read_flag(flag))
		sched_yield();
}

#endif
