/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_ROLLUP_H
#define FLMEM_PROC_ROLLUP_H

/*
 * Reads /proc/PID/smaps_rollup (Linux 4.14): sums over all mappings. The kernel walks every page
 * for it, 3 ms per GiB, so use it only for what no other file reports.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/value.h>

struct flmem_process;

/* Reads the sum with this name ("LazyFree"), in bytes; unknown if the process may not be traced. */
struct flmem_u64 flmem_rollup_bytes(const struct flmem_process *process, const char *name);

/* Finds a value in a text with lines as in smaps_rollup, meminfo and status: "Name: 4 kB". */
bool flmem_rollup_find(const char *text, const char *name, uint64_t *ret_bytes);

#endif
