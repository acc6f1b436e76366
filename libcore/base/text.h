/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_TEXT_H
#define FLMEM_BASE_TEXT_H

/* Small questions about strings; flmem/text.h makes hostile ones fit to print. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/text.h>

bool flmem_text_starts(const char *text, const char *prefix);
bool flmem_text_ends(const char *text, const char *suffix);

/* Well-formed UTF-8 throughout (RFC 3629). */
bool flmem_text_is_utf8(const char *text);

/* Bytes before the first that is not well-formed UTF-8; all of them when the text is. */
size_t flmem_text_utf8_length(const char *text);

/* Last component of a path; the text itself when it has no slash. Never NULL. */
const char *flmem_text_basename(const char *path);

/*
 * Reads the decimal digits at *text and moves it behind them; false and nothing moved when there is
 * none or the number does not fit.
 */
bool flmem_text_read_digits(const char **text, uint64_t *ret_value);

#endif
