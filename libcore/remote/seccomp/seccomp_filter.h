/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SECCOMP_SECCOMP_FILTER_H
#define FLMEM_REMOTE_SECCOMP_SECCOMP_FILTER_H

/*
 * Determines what a seccomp filter may return for a system call that is known only in part. The
 * program is evaluated exactly where the tested values are known; otherwise both branches are
 * followed. So the result may include an action that never occurs, but never lacks one that does.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "remote/seccomp/syscalls.h"

/* 32 bits as the filter sees them: the bits in `open` are unknown, and 0 in `value`. */
struct flmem_filter_word {
	uint32_t value, open;
};

/* Number of words of struct seccomp_data, in the order of little-endian machines. */
#define FLMEM_FILTER_WORDS (sizeof(struct seccomp_data) / sizeof(uint32_t))

struct flmem_filter_input {
	struct flmem_filter_word words[FLMEM_FILTER_WORDS];
};

/*
 * Makes the input for a call of this architecture; the address of the calling instruction is
 * unknown.
 */
void flmem_filter_input_set(struct flmem_filter_input *input, const struct flmem_syscall *call);

/* Makes the input for any call with a number below `numbers`, a power of two, and any arguments. */
void flmem_filter_input_any(struct flmem_filter_input *input, uint32_t numbers);

/* Actions of a filter, the most severe first. X(NAME, value) */
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

/* All possible results of a filter. */
struct flmem_filter_outcome {
	unsigned actions;   /* possible actions, as bits 1 << enum flmem_filter_action */
	unsigned error;	    /* errno of FLMEM_FILTER_ERRNO if it is always the same */
	bool errors_differ; /* FLMEM_FILTER_ERRNO may have several errnos */
	unsigned steps;	    /* a measure of the time that the evaluation took */
};

/* Adds the meaning of one return value of a filter. */
void flmem_filter_outcome_add(struct flmem_filter_outcome *outcome, uint32_t verdict);

/*
 * Evaluates a filter. A program that the kernel would not have accepted counts as one that kills,
 * as does any program if memory runs out. Time and memory depend only on `length`, which is at most
 * BPF_MAXINSNS.
 */
void flmem_filter_run(const struct sock_filter *program, size_t length,
		      const struct flmem_filter_input *input,
		      struct flmem_filter_outcome *ret_outcome);

#endif
