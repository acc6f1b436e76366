/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/markup.h"

#include <string.h>

#include <flmem/text.h>

#define TEXT_MAX 1024

void flmem_markup_text(struct flmem_buf *out, const char *text)
{
	char shown[TEXT_MAX];

	for (const char *p = flmem_text_escape(text, shown, sizeof(shown)); *p; p++) {
		if (strchr("&<>\"'", *p))
			flmem_buf_printf(out, "&#%d;", *p);
		else
			flmem_buf_putc(out, *p);
	}
}
