/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_CHANGED_CODE_H
#define FLMEM_OPS_TARGET_CHANGED_CODE_H

/*
 * Finds code of a process that differs from its file. A killed debugger leaves its breakpoints in
 * the program, which ends at the first one that it reaches: perhaps in a function of the allocator
 * that it never calls itself, but a trim does.
 */

#include "allocators/allocator.h"

/*
 * FLMEM_EUNSUPPORTED if the process has changed code in a function of the library that a release of
 * memory may run, in a function without a name, or in any function if the file cannot be read.
 * `libc`: the library is the C library, most of whose functions do not matter for a release;
 * otherwise it is an allocator, Python or the dynamic linker, and every function counts.
 */
int flmem_changed_code_check(const struct flmem_view *view, const struct flmem_module *library,
			     bool libc, struct flmem_error *err);

#endif
