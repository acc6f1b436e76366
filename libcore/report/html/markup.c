/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/markup.h"

#include <string.h>
#include <time.h>

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

void flmem_markup_time(struct flmem_buf *out, uint64_t at_us)
{
	time_t seconds = (time_t)(at_us / 1000000U);
	struct tm utc;
	char text[32];

	if (gmtime_r(&seconds, &utc) && strftime(text, sizeof(text), "%F %T UTC", &utc))
		flmem_buf_puts(out, text);
}
