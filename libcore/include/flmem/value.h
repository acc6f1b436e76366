/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VALUE_H
#define FLMEM_VALUE_H

/*
 * A number that may be unknown. `unknown` is NULL if `value` is valid, else a static text with the
 * reason; values are never guessed, and unknown is never 0. A zero-initialised value is the number
 * 0, so start from FLMEM_UNKNOWN(reason).
 */

#include <stdint.h>

struct flmem_u64 {
	uint64_t value;
	const char *unknown;
};

/* The same for signed numbers. */
struct flmem_i64 {
	int64_t value;
	const char *unknown;
};

#define FLMEM_KNOWN(number)   ((struct flmem_u64){.value = (number)})
#define FLMEM_UNKNOWN(reason) ((struct flmem_u64){.unknown = (reason)})

/* The number, or `otherwise` if it is unknown: for sums and comparisons, never for a report. */
static inline uint64_t flmem_u64_or(struct flmem_u64 number, uint64_t otherwise)
{
	return number.unknown ? otherwise : number.value;
}

#endif
