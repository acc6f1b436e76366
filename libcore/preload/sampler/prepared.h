/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_PREPARED_H
#define FLMEM_PRELOAD_SAMPLER_PREPARED_H

/* Supports a process that is only prepared (start --profile-ready). */

#include <stdbool.h>

#include "preload/sampler/sampler.h"

/*
 * prepared.c, called in constructors: returns whether seccomp filters may end the process for a
 * call that it would not make itself. Returns true where that cannot be read.
 */
HIDDEN bool sampler_may_be_filtered(void);

#endif
