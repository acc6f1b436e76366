/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_PYTHON_H
#define FLMEM_OPS_DETECT_PYTHON_H

/* The part of a report that is about CPython. */

#include <flmem/detect.h>

#include "elf/view.h"

/* Every number unknown for one reason. */
void flmem_python_report_init(const char *why, struct flmem_python_report *ret_python);

/*
 * Looks for an interpreter and reads it. Reads no arenas when `budget_us` is 0. `settings` tell
 * whether the process was told to do without arenas. -ENOMEM.
 */
int flmem_python_report_read(const struct flmem_view *view, uint64_t budget_us,
			     const struct flmem_setting_report *settings, size_t setting_count,
			     struct flmem_python_report *report);

/*
 * CPython has mimalloc in it from 3.13 on, without names to ask it by. It serves a process, or one
 * that was told so (PYTHONMALLOC), in place of arenas: where there are arenas, its heap is empty.
 */
void flmem_python_settle_mimalloc(const struct flmem_view *view,
				  struct flmem_process_report *report);

#endif
