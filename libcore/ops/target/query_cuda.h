/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_QUERY_CUDA_H
#define FLMEM_OPS_TARGET_QUERY_CUDA_H

/* Queries PyTorch, CuPy, RMM and CUDA itself for the memory that they keep. */

#include <flmem/process_report.h>

#include "allocators/allocator.h"
#include "elf/view.h"
#include "remote/borrow.h"

/*
 * Runs a short script in the process's interpreter, with the timeout and assume_seccomp of `how`.
 * Fills all of *cuda except `used_bytes`, and adds the cost of the query or the reason of its
 * failure to *asked.
 */
void flmem_query_cuda(const struct flmem_view *view, const struct flmem_allocator_list *list,
		      const struct flmem_borrow_options *how, struct flmem_cuda_report *cuda,
		      struct flmem_query_report *asked);

/*
 * Parses an answer into all of *cuda except `used_bytes`: a line of ten numbers, "-" or "?" for an
 * unknown one.
 */
void flmem_query_cuda_parse(const char *answer, struct flmem_cuda_report *cuda);

#endif
