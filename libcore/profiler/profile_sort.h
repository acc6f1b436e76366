/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_PROFILE_SORT_H
#define FLMEM_PROFILER_PROFILE_SORT_H

/* Puts the lists of a profile into their final order, and reduces its amounts to some rounds. */

#include <flmem/heap_profile.h>

/* Sorts changes and survivors, merges changes of the same site and round, and sets ages. */
void flmem_heap_sort_profile(struct flmem_heap_profile *profile);

/* Reduces the amounts to these rounds. FLMEM_EUSAGE if the profile has no such round. */
int flmem_heap_select_rounds(struct flmem_heap_profile *profile, uint64_t first_round,
			     uint64_t last_round, struct flmem_error *err);

#endif
