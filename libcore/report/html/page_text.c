/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that several parts of the page share. */
#include "report/html/page.h"

#include <inttypes.h>

#include <flmem/text.h>

#include "report/html/markup.h"

void flmem_page_put_bytes(struct flmem_buf *out, struct flmem_u64 bytes)
{
	char text[FLMEM_TEXT_BYTES_MAX];

	flmem_buf_puts(out, bytes.unknown ? "unknown"
					  : flmem_text_bytes(bytes.value, text, sizeof(text)));
}

void flmem_page_put_interval(struct flmem_buf *out, const struct flmem_heap_profile *profile)
{
	flmem_page_put_bytes(out, FLMEM_KNOWN(profile->interval_bytes));
	flmem_buf_puts(out, " on average");
	if (profile->interval_full_bytes > profile->interval_bytes) {
		flmem_buf_puts(out, ", later one per ");
		flmem_page_put_bytes(out, FLMEM_KNOWN(profile->interval_full_bytes));
		flmem_buf_puts(out, " because the file filled");
	}
	if (profile->interval_now_bytes > profile->interval_full_bytes) {
		flmem_buf_puts(out, ", at times one per ");
		flmem_page_put_bytes(out, FLMEM_KNOWN(profile->interval_now_bytes));
	}
}

void flmem_page_put_growth(struct flmem_buf *out, struct flmem_i64 bytes)
{
	uint64_t size = bytes.value < 0 ? -(uint64_t)bytes.value : (uint64_t)bytes.value;

	if (bytes.unknown) {
		flmem_buf_puts(out, "–");
		return;
	}
	if (bytes.value)
		flmem_buf_puts(out, bytes.value < 0 ? "−" : "+");
	flmem_page_put_bytes(out, FLMEM_KNOWN(size));
}

void flmem_page_put_span_us(struct flmem_buf *out, uint64_t us)
{
	char text[FLMEM_TEXT_BYTES_MAX];

	if (us < 10000000U)
		flmem_buf_printf(out, "%.3g s", (double)us / 1e6);
	else
		flmem_buf_puts(out, flmem_text_span(us / 1000000U, text, sizeof(text)));
}

/* Writes a verdict with a distinct sign, so that it is readable without colour. */
void flmem_page_put_verdict(struct flmem_buf *out, const struct flmem_trend *trend)
{
	static const char *const signs[] = {
		[FLMEM_TREND_TOO_EARLY] = "…", [FLMEM_TREND_FLAT] = "→",
		[FLMEM_TREND_CLIMBING] = "↗",  [FLMEM_TREND_STEPPED] = "↱",
		[FLMEM_TREND_FALLING] = "↘",
	};
	const char *name = flmem_trend_verdict_name(trend->verdict);

	flmem_buf_printf(
		out, "<span class=\"verdict %s\"><span aria-hidden=\"true\">%s</span> %s</span>",
		name, signs[trend->verdict], name);
}

void flmem_page_put_forecast(struct flmem_buf *out, const struct flmem_watch_result *result)
{
	const struct flmem_forecast *f = &result->forecast;
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (f->exhausted_in_s.unknown) {
		flmem_buf_puts(out, "–");
		return;
	}
	flmem_buf_puts(out, "in ");
	flmem_page_put_span_us(out, f->exhausted_in_s.value > UINT64_MAX / 1000000U
					    ? UINT64_MAX
					    : f->exhausted_in_s.value * 1000000U);
	if (!f->exhausted_in_rounds.unknown)
		flmem_buf_printf(out, " or %s",
				 flmem_text_counted(f->exhausted_in_rounds.value, "round", count,
						    sizeof(count)));
}

void flmem_page_put_who(struct flmem_buf *out, const struct flmem_watch_process *process)
{
	const char *role = flmem_role_name(process->role);
	const char *framework = flmem_framework_name(process->framework);

	if (framework)
		flmem_buf_puts(out, framework);
	if (role)
		flmem_buf_printf(out, "%s%s", framework ? " " : "", role);
	if (process->site) {
		flmem_buf_puts(out, " <bdi>");
		flmem_markup_text(out, process->site);
		flmem_buf_puts(out, "</bdi>");
	}
}
