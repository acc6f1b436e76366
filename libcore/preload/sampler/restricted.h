/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_RESTRICTED_H
#define FLMEM_PRELOAD_SAMPLER_RESTRICTED_H

/* A program that restricts what its threads may ask of the kernel. */

#include <stdbool.h>
#include <stdint.h>

#include "preload/sampler/sampler.h"

/* Where the hooks of prctl() and syscall() jump to. */
extern int (*sampler_next_prctl)(int, ...) HIDDEN;
extern long (*sampler_next_syscall)(long, ...) HIDDEN;

/* The hook of that function, if it is one that the hooks jump to; else NULL. */
HIDDEN void *sampler_watched_function(void *function);

/* From the hooks, where the arguments may restrict the program. */
HIDDEN long sampler_watch_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
				unsigned long d);
HIDDEN long sampler_watch_syscall(long number, long a, long b, long c, long d, long e);

/* The mode of seccomp and the number of its filters; 0 before Linux 5.9. False: not known. */
HIDDEN bool sampler_restrictions_read(uint32_t *ret_mode, uint32_t *ret_filters);
/* By an order of flmem, which has evaluated them. */
HIDDEN void sampler_filters_are_known(void);
/* Before any other call: whether there are others than FLMEM_PROFILE_FILTERS names. */
HIDDEN bool sampler_begins_quiet(void);

#endif
