/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VALUE_H
#define FLMEM_VALUE_H

/*
 * A number that may be unknown. `unknown` is NULL where `value` holds, else a static text that
 * says why it does not; it is never guessed and never stands as 0. A zero-initialised value is the
 * number 0, so start from FLMEM_UNKNOWN(reason).
 */

#include <stdint.h>

struct flmem_u64 {
	uint64_t value;
	const char *unknown;
};

/* The same for what can be below zero. */
struct flmem_i64 {
	int64_t value;
	const char *unknown;
};

#define FLMEM_KNOWN(number)   ((struct flmem_u64){.value = (number)})
#define FLMEM_UNKNOWN(reason) ((struct flmem_u64){.unknown = (reason)})

#endif
