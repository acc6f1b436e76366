/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_TEXT_H
#define FLMEM_BASE_TEXT_H

/* Small string functions; flmem/text.h makes hostile strings safe to print. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/text.h>

/* The characters of names of variables and functions, for strspn(). */
#define FLMEM_TEXT_NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

bool flmem_text_starts(const char *text, const char *prefix);
bool flmem_text_ends(const char *text, const char *suffix);

/* Reports whether the text equals one of the NULL-terminated list `words`. */
bool flmem_text_is_one_of(const char *text, const char *const *words);

/* Reports whether the text is well-formed UTF-8 throughout (RFC 3629). */
bool flmem_text_is_utf8(const char *text);

/*
 * Like flmem_text_is_utf8(), and false for the noncharacters of Unicode (U+FFFE, U+FDD0 and so on).
 */
bool flmem_text_is_assigned_utf8(const char *text);

/* Returns the length of the well-formed UTF-8 at the start of the text. */
size_t flmem_text_utf8_length(const char *text);

/* Returns the last component of a path; the text itself when it has no slash. Never NULL. */
const char *flmem_text_basename(const char *path);

/*
 * Reads the decimal digits at *text and moves *text past them. False, with *text unmoved, when
 * there is no digit or the number does not fit.
 */
bool flmem_text_read_digits(const char **text, uint64_t *ret_value);

#endif
