/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_FORMAT_H
#define FLMEM_CLI_FORMAT_H

/*
 * Formats numbers for people. Each function writes to `out`, always terminates it and returns it.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/text.h>
#include <flmem/value.h>

/* This is the size for an error message with each of its bytes escaped. */
#define ESCAPED_MESSAGE_MAX (4 * FLMEM_ERROR_MESSAGE_MAX)

/* This is the size of `out` for every function of this header. */
#define FORMAT_MAX FLMEM_TEXT_BYTES_MAX

/* Formats bytes with three significant digits and binary units: "512 B", "64 KiB", "1.5 GiB". */
const char *format_bytes(uint64_t bytes, char out[FORMAT_MAX]);

/* Does the same, or returns `otherwise` if the number is unknown. */
const char *format_bytes_or(struct flmem_u64 bytes, const char *otherwise, char out[FORMAT_MAX]);

/* Formats seconds: "90 s", "12.5 min", "3.25 h", "4.2 days". */
const char *format_span(uint64_t seconds, char out[FORMAT_MAX]);

/* Formats microseconds: "85 us", "12.3 ms", "4.05 s". */
const char *format_us(uint64_t us, char out[FORMAT_MAX]);

#endif
