/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_OOM_LOG_H
#define FLMEM_PROC_LIMITS_OOM_LOG_H

/*
 * Reads the kernel's log for flmem/oom.h. A line is identified by words that are longer than any
 * process name (15 bytes), so that no name can imitate one; the prefix that a log daemon or dmesg
 * adds is ignored.
 */

#include <flmem/oom.h>

/* Reads the text. Returns false if it reports no kill. */
bool flmem_oom_log_read(const char *text, struct flmem_oom_log *ret_log);

/*
 * Returns true if the text may be a kernel log: cheaper than reading it, and right unless lines are
 * cut.
 */
bool flmem_oom_log_is_likely(const char *text);

#endif
