/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_THREADS_H
#define FLMEM_OPS_AGGREGATE_THREADS_H

/* How many threads a call uses, of those that its caller asks for. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#define FLMEM_THREADS_MAX 32U

int flmem_threads_check(unsigned requested, struct flmem_error *err);

/* `requested` 0: two per processor that the calling thread may use, at most 8. */
unsigned flmem_threads_count(unsigned requested);

/* The same for threads that only read models: one for small ones, and for those of a server. */
unsigned flmem_threads_count_readers(unsigned requested, uint64_t bytes, bool remote);

#endif
