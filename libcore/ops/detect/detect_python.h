/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_DETECT_PYTHON_H
#define FLMEM_OPS_DETECT_DETECT_PYTHON_H

/* The part of a report that is about CPython. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/detect.h>

#include "elf/view.h"
#include "runtimes/cpython.h"

/* Every number unknown for one reason. */
void flmem_python_report_init(const char *why, struct flmem_python_report *ret_python);

/* Where the interpreters that were met last keep what is searched for, by their files. */
#define FLMEM_PYTHON_PLACES 8U

struct flmem_python_places {
	struct {
		dev_t device;
		uint64_t inode;
		uint64_t table; /* struct flmem_pymalloc_search */
	} rows[FLMEM_PYTHON_PLACES];
	size_t count; /* ever met */
};

struct flmem_python_reading {
	const struct flmem_cpython *python; /* as flmem_cpython_find() gave it; NULL: none */
	uint64_t budget_us;		    /* 0: without the arenas */
	struct flmem_python_places *places;
};

/*
 * Reads the interpreter into the report, whose settings tell whether it was told to do without
 * arenas. -ENOMEM.
 */
int flmem_python_report_read(const struct flmem_view *view,
			     const struct flmem_python_reading *reading,
			     struct flmem_process_report *report);

/*
 * CPython has mimalloc in it from 3.13 on, without names to ask it by. It serves a process, or one
 * that was told so (PYTHONMALLOC), in place of arenas: where there are arenas, its heap is empty.
 */
void flmem_python_settle_mimalloc(const struct flmem_cpython *python,
				  struct flmem_process_report *report);

#endif
