/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_FUZZ_MEMORY_H
#define FLMEM_TESTS_FUZZ_MEMORY_H

/*
 * Provides the input as the memory of a process. A target that includes this is linked so that
 * reads of remote memory reach these functions; a walk that does not end is detected by their
 * number.
 */

#include <errno.h>

#include "fuzz.h"
#include "proc/process.h"

#define FUZZ_MEMORY_START 0x10000U

static const uint8_t *fuzz_memory;
static size_t fuzz_memory_bytes;
static unsigned fuzz_reads_left;

int __wrap_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *out, size_t length);

int __wrap_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *out, size_t length)
{
	const uint64_t at = address - FUZZ_MEMORY_START;

	(void)process;
	if (!fuzz_reads_left--)
		abort();
	if (at > fuzz_memory_bytes || length > fuzz_memory_bytes - at)
		return -EFAULT;
	memcpy(out, fuzz_memory + at, length);
	return 0;
}

static inline void fuzz_memory_set(const uint8_t *data, size_t size, unsigned reads)
{
	fuzz_memory = data;
	fuzz_memory_bytes = size;
	fuzz_reads_left = reads;
}

#endif
