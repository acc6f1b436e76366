/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_OWN_CODE_H
#define FLMEM_REMOTE_OWN_CODE_H

/*
 * The target may serve the file system that flmem is read from (FUSE, a user-space block device).
 * While flmem holds its thread, a page of flmem's code that is not in memory would never arrive.
 * Reads a byte of each page of the objects whose code runs meanwhile: flmem, the C library, the
 * allocator and the dynamic linker.
 */
void flmem_own_code_fault_in(void);

#endif
