/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_JSON_SCAN_H
#define FLMEM_MODEL_JSON_SCAN_H

/*
 * A strict JSON reader, value by value, for headers of a million tensors. documents/ is unsuitable:
 * it allocates a node per value, and its numbers have 63 bits. Strings are decoded in place.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLMEM_JSON_DEPTH_MAX 32U

struct flmem_json_scan {
	char *at, *end;	 /* *end is NUL */
	const char *why; /* the error at `at`, after a function returned false */
};

/* Begins to read a text, which must be UTF-8 without NUL; the caller checks that. */
void flmem_json_scan_begin(struct flmem_json_scan *scan, char *text, size_t length);

/* If the next character after spaces is `c`, skips it and returns true. */
bool flmem_json_scan_take(struct flmem_json_scan *scan, char c);

/* Like flmem_json_scan_take(), but any other character is an error. */
bool flmem_json_scan_expect(struct flmem_json_scan *scan, char c);

/* True if only spaces are left. */
bool flmem_json_scan_ends(struct flmem_json_scan *scan);

/* Reads a string; it stays valid as long as the text. A string with \u0000 is an error. */
bool flmem_json_scan_string(struct flmem_json_scan *scan, const char **ret_string);

/* Reads an integer of 64 bits without a sign, fraction or exponent. */
bool flmem_json_scan_number(struct flmem_json_scan *scan, uint64_t *ret_number);

/* Skips a value of any kind. */
bool flmem_json_scan_skip(struct flmem_json_scan *scan);

#endif
