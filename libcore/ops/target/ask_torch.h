/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_ASK_TORCH_H
#define FLMEM_OPS_TARGET_ASK_TORCH_H

/* What PyTorch itself tells of the memory that it keeps for CUDA. */

#include <flmem/detect.h>

#include "allocators/allocator.h"
#include "elf/view.h"

/*
 * Runs a few lines in the process's interpreter. Fills all but `used_bytes` of *cuda, and what the
 * asking took or why it failed into *asked, which may hold something already.
 */
void flmem_ask_torch(const struct flmem_view *view, const struct flmem_allocator_list *list,
		     const struct flmem_detect_options *how, struct flmem_cuda_report *cuda,
		     struct flmem_asked *asked);

/* All but `used_bytes` of an answer: five numbers in a line, "-" for one that is not known. */
void flmem_ask_torch_parse(const char *answer, struct flmem_cuda_report *cuda);

#endif
