/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_NEXT_STEP_H
#define FLMEM_OPS_WATCH_NEXT_STEP_H

/* Decides what to do about a process whose memory keeps rising. */

#include <flmem/watch_result.h>

/* Fills `next` and `sampled_into` of the result, from the current state of the process. */
void flmem_next_step_find(struct flmem_watch_result *result);

#endif
