/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/threads.h"

#include <sched.h>

#define BY_ITSELF 8U
/* While one thread waits for the disk or for the lock of the output file, another one computes. */
#define PER_PROCESSOR 2
/* Fewer bytes are read by one thread, which takes less time than to start another. */
#define SHARED_BYTES (UINT64_C(4) << 20)

int flmem_threads_check(unsigned requested, struct flmem_error *err)
{
	if (requested > FLMEM_THREADS_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--threads accepts at most %u",
				       FLMEM_THREADS_MAX);
	return 0;
}

unsigned flmem_threads_count(unsigned requested)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) < 0 ? 2 : CPU_COUNT(&set);

	if (requested)
		return requested;
	count *= PER_PROCESSOR;
	return (unsigned)count < BY_ITSELF ? (unsigned)count : BY_ITSELF;
}

unsigned flmem_threads_count_readers(unsigned requested, uint64_t bytes, bool remote)
{
	/* Streams from a server arrive in their order, for one reader. */
	return remote || bytes < SHARED_BYTES ? 1 : flmem_threads_count(requested);
}
