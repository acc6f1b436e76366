/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_ERRNO_CODE_H
#define FLMEM_REMOTE_ERRNO_CODE_H

/* Decodes the machine code of __errno_location(), which shows where a thread keeps its errno. */

#include <stdbool.h>
#include <stdint.h>

struct flmem_process;

#define FLMEM_ERRNO_CODE_BYTES 32U

/*
 * Decodes the distance of errno from the thread pointer from the first FLMEM_ERRNO_CODE_BYTES of
 * the function. False if the function has another form.
 */
bool flmem_errno_decode(const struct flmem_process *process, uint64_t function,
			const unsigned char *bytes, int64_t *ret_distance);

#endif
