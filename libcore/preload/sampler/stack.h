/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_STACK_H
#define FLMEM_PRELOAD_SAMPLER_STACK_H

/* Declares what the readers of native and of Python frames share. */

#include "preload/sampler/sampler.h"

/* Adds the caller of the frames so far. Returns false where the stack is full. NONE is left out. */
HIDDEN bool sampler_stack_push(struct sampler_scratch *scratch, uint32_t frame);

/* Returns true for an address in the module of the interpreter. */
HIDDEN bool sampler_python_has(uintptr_t address);

/* Returns true for an address in the evaluation function of the interpreter. */
HIDDEN bool sampler_python_evaluates(uintptr_t address);

#endif
