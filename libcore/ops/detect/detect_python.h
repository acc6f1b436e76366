/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_DETECT_PYTHON_H
#define FLMEM_OPS_DETECT_DETECT_PYTHON_H

/* Fills the CPython part of a report. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/detect.h>

#include "elf/view.h"
#include "runtimes/cpython.h"

/* Makes a report in which every number is unknown for the same reason. */
void flmem_python_report_init(const char *why, struct flmem_python_report *ret_python);

/* A cache of where recently read interpreters keep their arenas, by file. */
#define FLMEM_PYTHON_PLACES 8U

struct flmem_python_places {
	struct {
		dev_t device;
		uint64_t inode;
		uint64_t table; /* struct flmem_pymalloc_search */
	} rows[FLMEM_PYTHON_PLACES];
	size_t count; /* interpreters seen so far */
};

struct flmem_python_reading {
	const struct flmem_cpython *python; /* from flmem_cpython_find(); NULL: none */
	uint64_t budget_us;		    /* 0: do not read the arenas */
	struct flmem_python_places *places;
};

/*
 * Reads the interpreter into the report. The settings in the report show whether the process runs
 * without arenas (PYTHONMALLOC). Returns 0 or -ENOMEM.
 */
int flmem_python_report_read(const struct flmem_view *view,
			     const struct flmem_python_reading *reading,
			     struct flmem_process_report *report);

/*
 * Corrects the report of mimalloc, which CPython contains from 3.13 on, without symbols to query it
 * by. Free-threaded builds and PYTHONMALLOC=mimalloc use it in place of arenas: if there are
 * arenas, its heap is empty.
 */
void flmem_python_settle_mimalloc(const struct flmem_cpython *python,
				  struct flmem_process_report *report);

#endif
