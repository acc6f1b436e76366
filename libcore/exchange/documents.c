/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/documents.h"

#include <inttypes.h>

#include "base/text/text.h"

/* Writes a text in quotes, or null. Bytes that are not UTF-8 become '?'. */
static void put_text(struct flmem_buf *out, const char *text)
{
	flmem_buf_puts(out, text ? "\"" : "null");
	while (text && *text) {
		size_t length = flmem_text_utf8_length(text);

		for (; length; length--, text++) {
			unsigned char c = (unsigned char)*text;

			if (c == '"' || c == '\\')
				flmem_buf_printf(out, "\\%c", c);
			else if (c < 0x20 || c == 0x7f)
				flmem_buf_printf(out, "\\u%04x", c);
			else
				flmem_buf_putc(out, (char)c);
		}
		if (*text) {
			flmem_buf_putc(out, '?');
			text++;
		}
	}
	if (text)
		flmem_buf_putc(out, '"');
}

static void put_number(struct flmem_buf *out, const char *name, bool known, uint64_t number)
{
	if (known)
		flmem_buf_printf(out, "\"%s\":%" PRIu64 ",", name, number);
	else
		flmem_buf_printf(out, "\"%s\":null,", name);
}

void flmem_exchange_status_print(const struct flmem_status_document *status, struct flmem_buf *out)
{
	flmem_buf_printf(out,
			 "{\"schema\":\"" FLMEM_EXCHANGE_STATE_SCHEMA "\",\"round\":%" PRIu64
			 ",\"rounds\":%" PRIu64 ",\"phase\":\"%s\",\"published_round\":%" PRIu64
			 ",\"clients\":{\"expected\":%" PRIu64 ",\"quorum\":%" PRIu64
			 ",\"complete\":%" PRIu64 ",\"names\":[",
			 status->round, status->rounds, status->phase, status->published_round,
			 status->expected, status->quorum, status->complete);
	if (status->name)
		put_text(out, status->name);
	flmem_buf_puts(out, "]},");
	put_number(out, "deadline_s", status->has_deadline, status->deadline_s);
	put_number(out, "chunk_bytes", true, status->chunk_bytes);
	put_number(out, "max_request_bytes", status->max_request_bytes, status->max_request_bytes);
	flmem_buf_printf(out,
			 "\"mode\":\"%s\",\"reason\":", status->lockstep ? "lockstep" : "staged");
	put_text(out, status->reason);
	flmem_buf_puts(out, "}\n");
}

void flmem_exchange_index_print(uint64_t round, const struct flmem_published_file *files,
				size_t count, struct flmem_buf *out)
{
	flmem_buf_printf(out,
			 "{\"schema\":\"" FLMEM_EXCHANGE_MODEL_SCHEMA "\",\"round\":%" PRIu64
			 ",\"files\":[",
			 round);
	for (size_t i = 0; i < count; i++) {
		char hex[FLMEM_SHA256_HEX];

		flmem_hex_print(files[i].sha256, sizeof(files[i].sha256), hex);
		flmem_buf_puts(out, i ? ",{\"name\":" : "{\"name\":");
		put_text(out, files[i].name);
		flmem_buf_printf(out, ",\"size_bytes\":%" PRIu64 ",\"sha256\":\"%s\"}",
				 files[i].bytes, hex);
	}
	flmem_buf_puts(out, "]}\n");
}

void flmem_exchange_problem_print(unsigned status, const char *title, const char *detail,
				  struct flmem_buf *out)
{
	flmem_buf_puts(out, "{\"type\":\"about:blank\",\"title\":");
	put_text(out, title);
	flmem_buf_printf(out, ",\"status\":%u,\"detail\":", status);
	put_text(out, detail);
	flmem_buf_puts(out, "}\n");
}
