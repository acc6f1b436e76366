/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_BUF_H
#define FLMEM_BASE_BUF_H

/*
 * Growing byte buffer. `data` always ends in a NUL that `length` does not count, so it can be used
 * as a string; it is never NULL, even before the first append. A failed allocation sets `failed`
 * and makes all later appends do nothing, so that a series of appends is checked once.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct flmem_buf {
	char *data;
	size_t length;
	size_t capacity; /* 0 while `data` is the shared empty string */
	bool failed;
};

extern char flmem_buf_empty[1];

#define FLMEM_BUF_INIT                  \
	{                               \
		.data = flmem_buf_empty \
	}

void flmem_buf_init(struct flmem_buf *buf);

/* Frees the bytes; the buffer is empty and usable again. */
void flmem_buf_clear(struct flmem_buf *buf);

/* Drops the content, keeps the allocation. */
void flmem_buf_reset(struct flmem_buf *buf);

/* Makes room for `extra` more bytes (and the NUL); false when out of memory. */
bool flmem_buf_reserve(struct flmem_buf *buf, size_t extra);

void flmem_buf_append(struct flmem_buf *buf, const void *bytes, size_t length);
void flmem_buf_puts(struct flmem_buf *buf, const char *text);
void flmem_buf_putc(struct flmem_buf *buf, char c);
void flmem_buf_printf(struct flmem_buf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Passes the heap string to the caller (which frees it) and empties the buffer; NULL when it
 * failed.
 */
char *flmem_buf_take(struct flmem_buf *buf);

#define FLMEM_AUTO_BUF FLMEM_AUTO(flmem_buf_clear)

#endif
