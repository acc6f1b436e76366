/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_DETECT_SESSION_H
#define FLMEM_OPS_DETECT_DETECT_SESSION_H

/*
 * Reading one process after the other, with what they share: program files, the mounts, the table
 * of processes. A process that does not answer may block all of it, closing included, since a file
 * system in user space is asked when a file of it is closed. Call it within attempts.
 */

#include <flmem/detect.h>

struct flmem_detect_session;

/* `ends_us` is the end of the budget for the heaps of all of them; 0: there is none. */
struct flmem_detect_session *flmem_detect_session_new(const struct flmem_detect_options *options,
						      uint64_t ends_us, struct flmem_error *err);

void flmem_detect_session_free(struct flmem_detect_session *session);

int flmem_detect_session_read(struct flmem_detect_session *session, pid_t pid,
			      struct flmem_process_report *ret_report, struct flmem_error *err);

#endif
