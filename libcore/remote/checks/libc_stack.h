/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_LIBC_STACK_H
#define FLMEM_REMOTE_CHECKS_LIBC_STACK_H

/* Finds the start of a thread's stack, as its C library has recorded it. */

#include <stdint.h>

#include "proc/maps.h"
#include "proc/process.h"

/*
 * Returns the lowest address that a thread may use, which is above its guard pages; 0 if it is not
 * recorded, UINT64_MAX if the control block cannot be read. `block`: the address of its control
 * block, in `stack`.
 */
uint64_t flmem_libc_stack_start(const struct flmem_process *process, const struct flmem_map *stack,
				uint64_t block);

#endif
