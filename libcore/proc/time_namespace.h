/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TIME_NAMESPACE_H
#define FLMEM_PROC_TIME_NAMESPACE_H

/*
 * In a time namespace a process reads other start times than flmem does: the clock of each
 * namespace (CLOCK_BOOTTIME) has an offset.
 */

#include <stdbool.h>
#include <stdint.h>

struct flmem_process;

/*
 * Returns true if `ticks` is the start time of the process, as the process itself or flmem reads
 * it.
 */
bool flmem_time_namespace_is_start(const struct flmem_process *process, uint64_t ticks);

#endif
