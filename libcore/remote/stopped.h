/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_STOPPED_H
#define FLMEM_REMOTE_STOPPED_H

/* Checks of a thread that is stopped to be borrowed; most of them repeat earlier ones. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proc/status.h"
#include "remote/candidates.h"
#include "remote/loan.h"

/* What a thread must have to be borrowed for these options, with the time limit of the search. */
struct flmem_candidate_needs flmem_stopped_needs(const struct flmem_borrow_options *options,
						 const struct flmem_gadgets *gadgets,
						 size_t area_bytes);

/*
 * True if the stopped thread is where it was found and may be borrowed there; then its registers
 * are in loan->state, and its status, read through the open file, in *ret_status. Otherwise
 * loan->refused has the reason, or NULL if the thread had moved on.
 */
bool flmem_stopped_check(struct flmem_loan *loan, struct flmem_candidate *candidate, int status_fd,
			 struct flmem_status *ret_status);

/* True for a thread that an earlier check refused because its timeout would start again. */
bool flmem_stopped_is_timed(const struct flmem_loan *loan, pid_t tid);

#endif
