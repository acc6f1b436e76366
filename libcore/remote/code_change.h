/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CODE_CHANGE_H
#define FLMEM_REMOTE_CODE_CHANGE_H

/*
 * Finds what may have changed the code of a process: a debugger that was killed leaves its
 * breakpoints, and the kernel puts the same instruction where perf, bpftrace and the like set a
 * probe (uprobes).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/view.h"

/*
 * Returns the cause, a static text, as the code at the first changed address and the kernel show
 * it.
 */
const char *flmem_code_change_cause(const struct flmem_view *view, uint64_t address);

/*
 * Compares code of a file with that of the process, both `length` bytes. *address, where the code
 * begins, becomes the address of the first byte that differs, or of the end. True if one differs.
 */
bool flmem_code_differs(const unsigned char *built, const unsigned char *now, size_t length,
			uint64_t *address);

#endif
