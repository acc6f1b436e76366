/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_READ_HAZARD_H
#define FLMEM_PROC_FILES_READ_HAZARD_H

/*
 * Finds out whether a read of remote memory could wait for a server in user space. A page that is
 * not resident is read from its file. When a FUSE server has accepted that request, the reader
 * waits until the server answers or exits, and not even SIGKILL ends the wait
 * (request_wait_answer() in fs/fuse/dev.c). So such a page is not read.
 *
 * While the calling thread holds a thread of another process, no page is read either that has to
 * be fetched first: from swap, or from a process that supplies the page (userfaultfd).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct flmem_process;

/*
 * Returns 0 if no page of the range needs such a file now, -ENODATA if one does, or may. A page
 * that is dropped between this check and the read is not covered; see base/attempt.h.
 */
int flmem_read_hazard_check(const struct flmem_process *process, uint64_t address, size_t length);

/* A range of memory that was not read, because a page of it was not resident. */
struct flmem_missed_range {
	uint64_t address;
	size_t length; /* 0: there is none */
};

/*
 * Marks the beginning and the end of such a hold, for the calling thread. The beginning forgets the
 * missed range.
 */
bool flmem_read_hazard_begin_hold(void);
void flmem_read_hazard_end_hold(const bool *hold);

#define FLMEM_AUTO_RESIDENT FLMEM_AUTO(flmem_read_hazard_end_hold) __attribute__((unused))

/* Returns the last range that was missed in a hold of the calling thread. */
struct flmem_missed_range flmem_read_hazard_missed(void);

/* The same, and forgets it: an attempt that holds no thread has missed nothing. */
struct flmem_missed_range flmem_read_hazard_take_missed(void);

#endif
