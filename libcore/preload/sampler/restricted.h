/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_RESTRICTED_H
#define FLMEM_PRELOAD_SAMPLER_RESTRICTED_H

/* Handles a program that restricts the system calls of its threads. */

#include <stdbool.h>
#include <stdint.h>

#include "preload/sampler/sampler.h"

/* The hooks of prctl() and syscall() jump to these. */
extern int (*sampler_next_prctl)(int, ...) HIDDEN;
extern long (*sampler_next_syscall)(long, ...) HIDDEN;

/* Returns the hook of that function, if it is one that the hooks jump to; else NULL. */
HIDDEN void *sampler_watched_function(void *function);

/* The hooks call these two if the arguments may restrict the program. */
HIDDEN long sampler_watch_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
				unsigned long d);
HIDDEN long sampler_watch_syscall(long number, long a, long b, long c, long d, long e);

/*
 * Reads the mode of seccomp and the number of its filters (0 before Linux 5.9). Returns false where
 * they are not known.
 */
HIDDEN bool sampler_restrictions_read(uint32_t *ret_mode, uint32_t *ret_filters);
/*
 * Allows calls of the kernel. It is called for an order of flmem, which has evaluated the filters.
 */
HIDDEN void sampler_filters_are_known(void);
/*
 * Returns whether there are filters besides those that FLMEM_PROFILE_FILTERS names. It is called
 * before any other call of the kernel.
 */
HIDDEN bool sampler_begins_quiet(void);

#endif
