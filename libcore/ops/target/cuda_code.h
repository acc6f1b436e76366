/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_CUDA_CODE_H
#define FLMEM_OPS_TARGET_CUDA_CODE_H

/*
 * Python for the interpreter of a process that uses CUDA, which a query and a trim have in common:
 *
 *	has_driver	whether CUDA's driver library is loaded
 *	driver()	that library or None, and the indexes of the devices that the process uses:
 *			those whose primary context is active
 *	pool(d,i,trim)	bytes that the default stream-ordered pool of a device keeps, and the
 *			allocated ones of these; trims it before
 */

#include "base/text/buf.h"
#include "elf/modules.h"

/*
 * Appends these functions and then `code` to `out`, which records if memory is out. If the driver
 * is not mapped, driver() does not search for it: that would open files.
 */
void flmem_cuda_code(const struct flmem_modules *modules, const char *code, struct flmem_buf *out);

#endif
