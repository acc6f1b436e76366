/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PARSE_H
#define FLMEM_PARSE_H

/*
 * Strict parsing of what people and files write: the whole text must be consumed, no sign, no
 * spaces, overflow is an error. Outputs are untouched on failure; the error is FLMEM_EUSAGE and
 * quotes the text (control characters escaped).
 */

#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

/* Decimal number in [min, max]. */
FLMEM_API int flmem_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value,
			      struct flmem_error *err);

/* Process id: 1 up to the kernel's PID_MAX_LIMIT (4194304). */
FLMEM_API int flmem_parse_pid(const char *text, pid_t *ret_pid, struct flmem_error *err);

/* Size in bytes: 512, 64K, 1.5GiB, 4GB. K = KiB = 1024, KB = 1000; so for M, G, T, P. */
FLMEM_API int flmem_parse_size(const char *text, uint64_t *ret_bytes, struct flmem_error *err);

/* How many: 350000000, 8B, 1.5B, 350M. K, M, B and T in either case, G as B; all decimal. */
FLMEM_API int flmem_parse_count(const char *text, uint64_t *ret_count, struct flmem_error *err);

/* Duration in microseconds: 100us, 250ms, 5s, 2m, 1h, 1d; fractions allowed. "0" needs no unit. */
FLMEM_API int flmem_parse_duration(const char *text, uint64_t *ret_us, struct flmem_error *err);

#endif
