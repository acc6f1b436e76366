/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_WAIT_KIND_H
#define FLMEM_TESTS_WAIT_KIND_H

/*
 * Queries whether a thread may be borrowed from a wait of the test itself, made of a call and
 * arguments.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "proc/process.h"
#include "proc/task.h"
#include "remote/checks/waits.h"

static struct flmem_process self = FLMEM_PROCESS_INIT;
static struct flmem_wait kind;

static inline int open_self(void **state)
{
	(void)state;
	return flmem_process_open(getpid(), &self, NULL);
}

static inline int close_self(void **state)
{
	(void)state;
	flmem_process_close(&self);
	return 0;
}

/* Returns NULL when the wait is accepted, and sets `kind`; otherwise the reason. */
static inline const char *refusal(const struct flmem_task_wait *at)
{
	const char *reason = NULL;

	kind = (struct flmem_wait){0};
	if (!flmem_wait_classify(&self, gettid(), at, &kind, &reason)) {
		assert_non_null(reason);
		return reason;
	}
	assert_null(reason);
	return NULL;
}

#define AT(call, ...) (&(const struct flmem_task_wait){.number = (call), .args = {__VA_ARGS__}})

static inline uint64_t word(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static inline void expect(const struct flmem_task_wait *at, enum flmem_wait_quality quality,
			  uint64_t late_us, bool eintr_means_timeout)
{
	const char *reason = refusal(at);

	if (reason)
		fail_msg("system call %ld %s", at->number, reason);
	assert_int_equal(kind.quality, quality);
	assert_int_equal(kind.late_us, late_us);
	assert_int_equal(kind.eintr_means_timeout, eintr_means_timeout);
	assert_non_null(kind.name);
}

static inline void expect_refused(const struct flmem_task_wait *at, const char *why)
{
	const char *reason = refusal(at);

	if (!reason)
		fail_msg("system call %ld was accepted", at->number);
	assert_string_equal(reason, why);
}

#endif
