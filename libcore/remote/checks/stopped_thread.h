/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_STOPPED_THREAD_H
#define FLMEM_REMOTE_CHECKS_STOPPED_THREAD_H

/* Checks a thread that is stopped to be borrowed; most checks repeat earlier ones. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proc/status.h"
#include "remote/borrow_state.h"
#include "remote/checks/candidates.h"

/*
 * Returns what a thread must fulfil to be borrowed with these options, and the time limit of the
 * search.
 */
struct flmem_candidate_needs flmem_stopped_thread_needs(const struct flmem_borrow_options *options,
							const struct flmem_gadgets *gadgets,
							size_t area_bytes);

/*
 * Checks, just before a thread is seized, what needs no stopped thread: the space below its stack
 * pointer. False, with the reason, if it may not be borrowed.
 */
bool flmem_stopped_thread_prepare(struct flmem_borrow_state *borrow,
				  const struct flmem_candidate *candidate);

/*
 * True if the stopped thread is where it was found and may be borrowed there; then its registers
 * are in borrow->state, and its status, read through the open file, in *ret_status. Otherwise
 * borrow->refused has the reason, or NULL if the thread had moved on.
 */
bool flmem_stopped_thread_check(struct flmem_borrow_state *borrow,
				struct flmem_candidate *candidate, int status_fd,
				struct flmem_status *ret_status);

/*
 * True if a thread that was blocked in a call has gone to sleep only once since it was found there:
 * because of its stop. *status is the result of flmem_stopped_thread_check().
 */
bool flmem_stopped_thread_has_slept(const struct flmem_candidate *candidate,
				    const struct flmem_status *status);

/*
 * Records that this stopped thread cannot be borrowed, if another stop would restart its timeout.
 */
void flmem_stopped_thread_spare(struct flmem_borrow_state *borrow,
				const struct flmem_candidate *candidate, const char *why);

/* True for a thread that was recorded; borrow->refused has the reason. */
bool flmem_stopped_thread_is_spared(struct flmem_borrow_state *borrow,
				    const struct flmem_candidate *candidate);

#endif
