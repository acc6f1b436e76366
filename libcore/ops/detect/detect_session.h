/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_DETECT_SESSION_H
#define FLMEM_OPS_DETECT_DETECT_SESSION_H

/*
 * Reads one process after the other and caches what they share: program files, the mounts, the
 * process table. A process that does not answer can block every call here, closing included,
 * because a file system in user space is queried when one of its files is closed. Call these
 * functions within attempts.
 */

#include <flmem/detect.h>

struct flmem_detect_session;

/* `ends_us` is the end of the time budget for the heaps of all processes; 0: no budget. */
struct flmem_detect_session *flmem_detect_session_new(const struct flmem_detect_options *options,
						      uint64_t ends_us, struct flmem_error *err);

void flmem_detect_session_free(struct flmem_detect_session *session);

int flmem_detect_session_read(struct flmem_detect_session *session, pid_t pid,
			      struct flmem_process_report *ret_report, struct flmem_error *err);

#endif
