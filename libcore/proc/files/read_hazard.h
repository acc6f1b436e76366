/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_READ_HAZARD_H
#define FLMEM_PROC_FILES_READ_HAZARD_H

/*
 * Finds out whether a read of remote memory could wait for a server in user space. A page that is
 * not resident is read from its file. When a FUSE server has accepted that request, the reader
 * waits until the server answers or exits, and not even SIGKILL ends the wait
 * (request_wait_answer() in fs/fuse/dev.c). So such a page is not read.
 */

#include <stddef.h>
#include <stdint.h>

struct flmem_process;

/*
 * Returns 0 if no page of the range needs such a file now, -ENODATA if one does, or may. A page
 * that is dropped between this check and the read is not covered; see base/attempt.h.
 */
int flmem_read_hazard_check(const struct flmem_process *process, uint64_t address, size_t length);

#endif
