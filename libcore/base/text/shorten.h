/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SHORTEN_H
#define FLMEM_BASE_SHORTEN_H

/* Messages that are too long for their place. */

#include <stddef.h>

/* What a part that was left out is replaced with. */
#define FLMEM_TEXT_GAP "..."

/*
 * Shortens a message in place to less than `size` bytes, which are at least 64: in the middle of
 * its longest 'quoted' texts, for example paths, while that is enough, else in its own middle. So
 * what failed, the ends of names, and the reason after them stay. UTF-8 stays well-formed.
 */
void flmem_text_fit(char *text, size_t size);

/*
 * How many bytes at the start of `text`, of a message after a quote, are the path, whole or
 * without its middle. A '/' or a quote follows, or what is left of the path after a gap. 0: it
 * is another.
 */
size_t flmem_text_fit_match(const char *text, const char *path);

#endif
