/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

char flmem_buf_empty[1];

void flmem_buf_init(struct flmem_buf *buf)
{
	*buf = (struct flmem_buf)FLMEM_BUF_INIT;
}

void flmem_buf_clear(struct flmem_buf *buf)
{
	if (buf->capacity)
		free(buf->data);
	flmem_buf_init(buf);
}

void flmem_buf_reset(struct flmem_buf *buf)
{
	buf->length = 0;
	buf->failed = false;
	if (buf->capacity)
		buf->data[0] = '\0';
}

bool flmem_buf_reserve(struct flmem_buf *buf, size_t extra)
{
	size_t needed, capacity = buf->capacity ? buf->capacity : 64;
	char *grown;

	if (buf->failed || extra > SIZE_MAX / 4 - buf->length) {
		buf->failed = true;
		return false;
	}
	needed = buf->length + extra + 1;
	if (needed <= buf->capacity)
		return true;
	while (capacity < needed)
		capacity *= 2;
	grown = realloc(buf->capacity ? buf->data : NULL, capacity);
	if (!grown) {
		buf->failed = true;
		return false;
	}
	if (!buf->capacity)
		grown[0] = '\0';
	buf->data = grown;
	buf->capacity = capacity;
	return true;
}

void flmem_buf_append(struct flmem_buf *buf, const void *bytes, size_t length)
{
	if (!length || !flmem_buf_reserve(buf, length))
		return;
	memcpy(buf->data + buf->length, bytes, length);
	buf->length += length;
	buf->data[buf->length] = '\0';
}

void flmem_buf_puts(struct flmem_buf *buf, const char *text)
{
	flmem_buf_append(buf, text, strlen(text));
}

/* A fast path: recordings and pages are mostly written one character at a time. */
void flmem_buf_putc(struct flmem_buf *buf, char c)
{
	if (buf->failed || buf->capacity < buf->length + 2) {
		flmem_buf_append(buf, &c, 1);
		return;
	}
	buf->data[buf->length++] = c;
	buf->data[buf->length] = '\0';
}

void flmem_buf_printf(struct flmem_buf *buf, const char *format, ...)
{
	va_list args;
	int needed;

	va_start(args, format);
	needed = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (needed < 0 || !flmem_buf_reserve(buf, (size_t)needed)) {
		buf->failed = true;
		return;
	}
	va_start(args, format);
	vsnprintf(buf->data + buf->length, (size_t)needed + 1, format, args);
	va_end(args);
	buf->length += (size_t)needed;
}

char *flmem_buf_take(struct flmem_buf *buf)
{
	char *text = NULL;

	if (!buf->failed && flmem_buf_reserve(buf, 0)) {
		text = buf->data;
		flmem_buf_init(buf);
	}
	flmem_buf_clear(buf);
	return text;
}
