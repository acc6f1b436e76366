/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_THREAD_STACK_H
#define FLMEM_REMOTE_CHECKS_THREAD_STACK_H

/*
 * Checks whether calls may run on the stack of a thread: its kind of mapping, its free space,
 * frames of an allocator or of a signal handler on it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/view.h"
#include "remote/checks/candidates.h"

/*
 * Checks the stack of a blocked or stopped thread whose place is at.sp and at.pc. Returns NULL if
 * it may be borrowed there, else a static reason.
 */
const char *flmem_stack_check(const struct flmem_view *view,
			      const struct flmem_candidate_needs *needs,
			      const struct flmem_candidate *row);

/*
 * The two parts of the check: the area below the stack pointer, which does not depend on what the
 * thread does while it keeps that pointer, and the contents of the stack above.
 */
const char *flmem_stack_check_room(const struct flmem_view *view,
				   const struct flmem_candidate_needs *needs,
				   const struct flmem_candidate *row);
const char *flmem_stack_check_frames(const struct flmem_view *view,
				     const struct flmem_candidate_needs *needs,
				     const struct flmem_candidate *row);

/* Returns how many bytes of a stack must be mapped below its pointer. */
uint64_t flmem_stack_bytes_needed(const struct flmem_candidate_needs *needs, bool leader);

/*
 * True if is_word() is true for one of the words from `sp` to `end`; searches 64 KiB at most, up to
 * the first unreadable page. `depth`: bytes from `sp`. Also true if nothing can be read.
 */
bool flmem_stack_has_word(const struct flmem_process *process, uint64_t sp, uint64_t end,
			  bool (*is_word)(void *context, uint64_t word, uint64_t depth),
			  void *context);

/*
 * True if all pages from one address of a mapping to another can be read, so that no guard page
 * divides it. False also if they are farther apart than the usual length of a stack.
 */
bool flmem_stack_is_whole(const struct flmem_process *process, uint64_t from, uint64_t to);

#endif
