/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json_put.h"

#include <flmem/text.h>

#define TEXT_MAX 4096

void flmem_json_put_text(struct flmem_buf *out, const char *text)
{
	char clean[TEXT_MAX];

	if (!text) {
		flmem_buf_puts(out, "null");
		return;
	}
	flmem_buf_putc(out, '"');
	for (const char *p = flmem_text_escape(text, clean, sizeof(clean)); *p; p++) {
		if (*p == '"' || *p == '\\')
			flmem_buf_putc(out, '\\');
		if (*p == '<' || *p == '>' || *p == '&')
			flmem_buf_printf(out, "\\u%04x", (unsigned char)*p);
		else
			flmem_buf_putc(out, *p);
	}
	flmem_buf_putc(out, '"');
}
