/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_PROFILE_FILTERS_H
#define FLMEM_OPS_PROFILE_PROFILE_FILTERS_H

/* The seccomp filters of flmem, which are those of the command that it becomes. */

#include <flmem/error.h>

#define FLMEM_PROFILE_FILTERS_MAX 32

/* For FLMEM_PROFILE_FILTERS. Later ones than these are untested. */
void flmem_profile_filters_name(char out[FLMEM_PROFILE_FILTERS_MAX]);

/* FLMEM_EUNSUPPORTED: they kill for a call of the sampler. A child tries each. */
int flmem_profile_filters_check(struct flmem_error *err);

#endif
