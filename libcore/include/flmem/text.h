/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TEXT_H
#define FLMEM_TEXT_H

/* Makes untrusted text printable and numbers readable. */

#include <stddef.h>
#include <stdint.h>

#include <flmem/visibility.h>

/*
 * Copies `text` with control characters (including those for text direction) and invalid UTF-8
 * written as \xNN. Text that does not fit `size` bytes is cut and ends in "...". The copy is always
 * terminated. Returns `out`.
 */
FLMEM_API char *flmem_text_escape(const char *text, char *out, size_t size);

/*
 * Returns the edit distance: the number of letters to insert, delete or replace between two words.
 * Only the first 63 letters of `b` count.
 */
FLMEM_API size_t flmem_text_distance(const char *a, const char *b);

/* Buffer size that suffices for flmem_text_bytes(). */
#define FLMEM_TEXT_BYTES_MAX 32

/*
 * Writes a size as "512 B", "64 KiB", "1.5 GiB": three significant digits, binary units. Returns
 * `out`.
 */
FLMEM_API char *flmem_text_bytes(uint64_t bytes, char *out, size_t size);

/*
 * Writes a duration as "90 s", "12.5 min", "3.25 h", "4.2 days", into a buffer of at least
 * FLMEM_TEXT_BYTES_MAX bytes. Returns `out`.
 */
FLMEM_API char *flmem_text_span(uint64_t seconds, char *out, size_t size);

/* Buffer size that suffices for flmem_text_counted() with a noun of up to 40 letters. */
#define FLMEM_TEXT_COUNTED_MAX 64

/*
 * Writes a count with its noun in singular or plural: "1 round", "2 rounds", "0 processes", "3
 * entries". If `noun` has several words, the last one is inflected. Returns `out`.
 */
FLMEM_API char *flmem_text_counted(uint64_t count, const char *noun, char *out, size_t size);

#endif
