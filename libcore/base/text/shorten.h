/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SHORTEN_H
#define FLMEM_BASE_SHORTEN_H

/* Shortens messages that are too long for their place. */

#include <stddef.h>

/* Replaces a part that was left out. */
#define FLMEM_TEXT_GAP "..."

/*
 * Shortens a message in place to less than `size` bytes, which are at least 64. It cuts the middle
 * of the longest 'quoted' texts, for example paths, while that is enough, else the middle of the
 * message. So the object of the message, the ends of names, and the reason after them stay. UTF-8
 * stays well-formed.
 */
void flmem_text_fit(char *text, size_t size);

/*
 * Compares `path` with the start of `text`, the rest of a message after a quote, where the path is
 * whole or without its middle. Returns the length of the path in `text`; a '/' or a quote follows,
 * or what is left of the path after a gap. 0: `text` starts with another path.
 */
size_t flmem_text_fit_match(const char *text, const char *path);

#endif
