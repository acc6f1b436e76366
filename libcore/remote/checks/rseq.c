/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/rseq.h"

#include <sys/ptrace.h>

#include "base/portable.h"
#include "proc/process.h"

/* Since Linux 5.13; older C libraries do not define it. */
#define GET_RSEQ_CONFIGURATION 0x420f

struct rseq_configuration {
	uint64_t pointer;
	uint32_t size, signature, flags, padding;
};

/* Offset of the pointer in struct rseq: cpu_id_start, cpu_id, rseq_cs. */
#define POINTER_TO_SEQUENCE 8

struct rseq_section {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

bool flmem_rseq_is_inside(const struct flmem_process *process, pid_t tid, uint64_t pc)
{
	struct rseq_configuration configuration = {0};
	struct rseq_section sequence;
	uint64_t address;

	/*
	 * An older kernel: only threads in libraries with their own sequences, such as tcmalloc,
	 * could be affected, and threads inside an allocator are not borrowed anyway.
	 */
	if (ptrace((flmem_ptrace_request)GET_RSEQ_CONFIGURATION, tid, (void *)sizeof(configuration),
		   &configuration) < 0 ||
	    !configuration.pointer)
		return false;
	if (flmem_process_read_pinned(process, configuration.pointer + POINTER_TO_SEQUENCE,
				      &address, sizeof(address)))
		return true;
	if (!address)
		return false;
	if (flmem_process_read_pinned(process, address, &sequence, sizeof(sequence)))
		return true;
	return pc - sequence.start < sequence.length;
}
