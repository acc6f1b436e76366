/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_PROFILE_FILTERS_H
#define FLMEM_OPS_PROFILE_PROFILE_FILTERS_H

/* Checks the seccomp filters of flmem, which are also those of the command that it becomes. */

#include <flmem/error.h>

#define FLMEM_PROFILE_FILTERS_MAX 32

/* Prints the value of FLMEM_PROFILE_FILTERS. Filters that are added later are untested. */
void flmem_profile_filters_name(char out[FLMEM_PROFILE_FILTERS_MAX]);

/* FLMEM_EUNSUPPORTED if the filters kill for a system call of the sampler. A child tries each. */
int flmem_profile_filters_check(struct flmem_error *err);

#endif
