/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_H
#define FLMEM_RUNTIMES_CPYTHON_H

/*
 * Finds the CPython interpreter of a process, 2.7 to 3.15, in a shared libpython or inside the
 * program. Only its files are read here, not its memory.
 */

#include <stdbool.h>

#include "elf/modules.h"
#include "elf/view.h"

#define FLMEM_CPYTHON_VERSION_MAX 32

struct flmem_cpython {
	const struct flmem_module *module; /* the module that contains the interpreter */
	int major, minor;		   /* 0 when unknown */
	int micro;			   /* -1 when unknown */
	bool pre_release; /* the release is an alpha, beta or candidate, by Py_Version */
	char version[FLMEM_CPYTHON_VERSION_MAX]; /* "3.11.2", "3.14.0rc1", "3.9", or "" */
};

/* Finds the interpreter. Returns false if the process has no CPython. */
bool flmem_cpython_find(const struct flmem_view *view, struct flmem_cpython *ret_python);

/* Sets the version by Py_Version, which 3.11 and later export (PY_VERSION_HEX, patchlevel.h). */
void flmem_cpython_set_version(struct flmem_cpython *python, uint32_t hex);

#endif
