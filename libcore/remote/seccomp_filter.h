/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SECCOMP_FILTER_H
#define FLMEM_REMOTE_SECCOMP_FILTER_H

/*
 * What a seccomp filter may return for a system call of which only a part is known. The program is
 * followed exactly where what it tests is known; on what is not known both branches are followed.
 * So the answer may name an action that never comes, but never lacks one that does.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "remote/syscalls.h"

/* 32 bits as the filter sees them: those in `open` are not known, and 0 in `value`. */
struct flmem_filter_word {
	uint32_t value, open;
};

/* struct seccomp_data in its 16 words, the order of which is that of little-endian machines. */
#define FLMEM_FILTER_WORDS (sizeof(struct seccomp_data) / sizeof(uint32_t))

struct flmem_filter_input {
	struct flmem_filter_word words[FLMEM_FILTER_WORDS];
};

/* A call of this architecture; from which instruction it is made is not known. */
void flmem_filter_input_set(struct flmem_filter_input *input, const struct flmem_syscall *call);

/* Any call whose number is below `numbers`, a power of two, with any arguments. */
void flmem_filter_input_any(struct flmem_filter_input *input, uint32_t numbers);

/* X(NAME, value): actions of a filter, the most severe first. */
#define FLMEM_FILTER_ACTIONS(X)                   \
	X(KILL_PROCESS, SECCOMP_RET_KILL_PROCESS) \
	X(KILL_THREAD, SECCOMP_RET_KILL_THREAD)   \
	X(TRAP, SECCOMP_RET_TRAP)                 \
	X(ERRNO, SECCOMP_RET_ERRNO)               \
	X(NOTIFY, SECCOMP_RET_USER_NOTIF)         \
	X(TRACE, SECCOMP_RET_TRACE)               \
	X(LOG, SECCOMP_RET_LOG)                   \
	X(ALLOW, SECCOMP_RET_ALLOW)

enum flmem_filter_action {
#define FLMEM_FILTER_ENUM(name, value) FLMEM_FILTER_##name,
	FLMEM_FILTER_ACTIONS(FLMEM_FILTER_ENUM)
#undef FLMEM_FILTER_ENUM
};

/* All that may come out. */
struct flmem_filter_outcome {
	unsigned actions;   /* bit enum flmem_filter_action: it may come */
	unsigned error;	    /* errno of FLMEM_FILTER_ERRNO, when it is always the same */
	bool errors_differ; /* ... when it is not */
};

/* Adds what one return value of a filter means. */
void flmem_filter_outcome_add(struct flmem_filter_outcome *outcome, uint32_t verdict);

/*
 * A program that the kernel would not have accepted counts as one that kills, as does one that
 * there is no memory for. Time and memory grow with `length` alone, which is at most BPF_MAXINSNS.
 */
void flmem_filter_run(const struct sock_filter *program, size_t length,
		      const struct flmem_filter_input *input,
		      struct flmem_filter_outcome *ret_outcome);

#endif
