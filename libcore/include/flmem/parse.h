/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PARSE_H
#define FLMEM_PARSE_H

/*
 * Strict parsing of values that users and files contain: the whole text must be consumed, signs and
 * spaces are refused, overflow is an error. On failure outputs are untouched and the error is
 * FLMEM_EUSAGE with the text quoted (control characters escaped).
 */

#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

/* Kinds of values, for error messages. X(NAME, name, what is expected) */
#define FLMEM_VALUES(X)                                                                     \
	X(NUMBER, "number", "expected a whole number")                                      \
	X(PID, "process ID", "expected a number from 1 to 4194304")                         \
	X(SIZE, "size", "expected for example 512, 64K, 1.5GiB or 4GB")                     \
	X(COUNT, "count", "expected for example 350000000, 350M or 1.5B")                   \
	X(DURATION, "duration", "expected for example 250ms, 5s, 2m or 1h, at most 36500d") \
	X(REAL, "number", "expected for example 3, 0.25 or 1e-3")                           \
	X(RATE, "rate", "expected for example 10MiB/round or 1GiB/h")                       \
	X(VERSION, "version", "expected for example 2.8 or 2.8.1")

enum flmem_value_kind {
#define FLMEM_VALUE_ENUM(name, text, expected) FLMEM_VALUE_##name,
	FLMEM_VALUES(FLMEM_VALUE_ENUM)
#undef FLMEM_VALUE_ENUM
};

/*
 * Sets the error for a value that does not parse: "invalid size 'x' for --min-rss; expected ...".
 * `option` is the long name without dashes, or NULL if the value is not of an option. Returns
 * FLMEM_EUSAGE.
 */
FLMEM_API int flmem_parse_invalid(enum flmem_value_kind kind, const char *text, const char *option,
				  struct flmem_error *err);

/*
 * Sets the error for a value outside a list: "invalid value 'x' for --role; choose from server,
 * client". `choices` is the list as printed. Returns FLMEM_EUSAGE.
 */
FLMEM_API int flmem_parse_invalid_choice(const char *text, const char *option, const char *choices,
					 struct flmem_error *err);

/* Parses a decimal number in [min, max]. */
FLMEM_API FLMEM_MUST_CHECK int flmem_parse_u64(const char *text, uint64_t min, uint64_t max,
					       uint64_t *ret_value, struct flmem_error *err);

/* Parses a process ID: 1 up to the kernel's PID_MAX_LIMIT (4194304). */
FLMEM_API FLMEM_MUST_CHECK int flmem_parse_pid(const char *text, pid_t *ret_pid,
					       struct flmem_error *err);

/*
 * Parses a size in bytes: 512, 64K, 1.5GiB, 4GB. K = KiB = 1024, KB = 1000; M, G, T and P likewise.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_parse_size(const char *text, uint64_t *ret_bytes,
						struct flmem_error *err);

/*
 * Parses a count: 350000000, 8B, 1.5B, 350M. Decimal factors K, M, B and T in either case; G means
 * B.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_parse_count(const char *text, uint64_t *ret_count,
						 struct flmem_error *err);

/*
 * Duration in microseconds: 100us, 250ms, 5s, 2m, 1h, 1d; fractions allowed. "0" needs no unit. At
 * most 36,500 days, so that a time from now has no overflow, in nanoseconds either.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_parse_duration(const char *text, uint64_t *ret_us,
						    struct flmem_error *err);

/* Parses a decimal number that is finite and not negative, whatever the locale: 3, 0.25, 1e-3. */
FLMEM_API FLMEM_MUST_CHECK int flmem_parse_real(const char *text, double *ret_value,
						struct flmem_error *err);

#endif
