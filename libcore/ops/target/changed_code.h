/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_CHANGED_CODE_H
#define FLMEM_OPS_TARGET_CHANGED_CODE_H

/*
 * Code that is no longer what its file has. A debugger that was killed leaves its breakpoints in
 * the program, which ends at the first one that it reaches: perhaps in a function of the allocator
 * that it never calls itself.
 */

#include "allocators/allocator.h"

/*
 * FLMEM_EUNSUPPORTED if the process has code of its own in a function of the library which a
 * release of memory may run, or in one without a name, or in any one if the file cannot be read.
 * `libc`: the library is the C library, most of whose functions have nothing to do with that;
 * otherwise it is an allocator, Python or the dynamic linker, of which any function counts.
 */
int flmem_changed_code_check(const struct flmem_view *view, const struct flmem_module *library,
			     bool libc, struct flmem_error *err);

#endif
