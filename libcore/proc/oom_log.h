/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_OOM_LOG_H
#define FLMEM_PROC_OOM_LOG_H

/*
 * Reading the kernel's log for flmem/oom.h. Lines are known by words that no name of a process has
 * room for (15 bytes), so that none can pretend to be one, and what a log daemon or dmesg puts in
 * front of them does not matter.
 */

#include <flmem/oom.h>

/* False when the text tells of no kill. */
bool flmem_oom_log_read(const char *text, struct flmem_oom_log *ret_log);

/* Whether the text may be one: cheaper, and right unless lines are cut. */
bool flmem_oom_log_is_likely(const char *text);

#endif
