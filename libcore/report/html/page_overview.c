/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all processes. */
#include "report/html/page.h"

#include "report/html/page_plot.h"
#include <flmem/text.h>

#include "report/html/markup.h"

#define ROWS_MAX   500U
#define CURVE_LEFT 120U /* number of points of a small curve */

/* Returns the maximum of a group of spans, which is enough for a small curve. */
static uint64_t highest_of_spans(const struct flmem_page_series *s, size_t first, size_t end)
{
	uint64_t high = 0;

	for (size_t i = first; i < end; i++)
		if (s->spans[i].high_bytes > high)
			high = s->spans[i].high_bytes;
	return high;
}

static void put_small_curve(struct flmem_buf *out, const struct flmem_page_series *s)
{
	size_t count = s->span_count < CURVE_LEFT ? s->span_count : CURVE_LEFT;
	double most = (double)highest_of_spans(s, 0, s->span_count),
	       from = (double)s->spans[0].first_us;
	double span = (double)s->spans[s->span_count - 1].last_us - from;
	char sign = 'M';

	flmem_buf_puts(out,
		       "<svg class=\"small\" viewBox=\"0 0 100 20\" "
		       "preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"curve\" "
		       "d=\"");
	for (size_t i = 0; i < count; i++, sign = 'L') {
		size_t first = i * s->span_count / count, end = (i + 1) * s->span_count / count;
		double at = (double)s->spans[first].first_us - from;

		flmem_buf_printf(out, "%c%.3g %.3g", sign, span > 0 ? at / span * 100 : 0,
				 19 - 18 * (double)highest_of_spans(s, first, end) /
						 (most > 0 ? most : 1));
	}
	flmem_buf_puts(out, count == 1 ? "h100\"/></svg>" : "\"/></svg>");
}

static void put_growth(struct flmem_buf *out, const struct flmem_trend *t)
{
	bool by_round = t->basis == FLMEM_TREND_BY_ROUND;

	if (t->low_bytes.unknown) {
		flmem_buf_puts(out, "–");
		return;
	}
	flmem_page_put_growth(out, by_round ? t->growth_per_round_bytes : t->growth_per_hour_bytes);
	flmem_buf_puts(out, by_round ? " per round" : " per hour");
}

/*
 * Writes a row with the most important columns first: a narrow screen shows them without scrolling.
 */
static void put_overview_row(struct flmem_buf *out, const struct flmem_watch_page *page,
			     const struct flmem_watch_result *r)
{
	const struct flmem_page_series *series = flmem_page_find(page, &r->process);

	flmem_buf_printf(out, "<tr><th scope=\"row\">%d</th><td class=\"text\">",
			 (int)r->process.pid);
	flmem_page_put_verdict(out, &r->trend);
	flmem_buf_puts(out, "</td><td>");
	flmem_page_put_bytes(out, r->last_bytes);
	flmem_buf_puts(out, "</td><td>");
	flmem_page_put_bytes(out, r->peak_bytes);
	flmem_buf_puts(out, "</td><td class=\"wrap\">");
	put_growth(out, &r->trend);
	flmem_buf_puts(out, "</td><td class=\"wrap\">");
	flmem_page_put_forecast(out, r);
	flmem_buf_puts(out, "</td><td class=\"text\">");
	if (series && series->span_count)
		put_small_curve(out, series);
	flmem_buf_puts(out, "</td><td class=\"text\">");
	flmem_page_put_who(out, &r->process);
	flmem_buf_printf(out, "%s <code class=\"one\"><bdi>", r->ended ? " (ended)" : "");
	flmem_markup_text(out, r->process.command);
	flmem_buf_puts(out, "</bdi></code></td></tr>\n");
}

void flmem_page_put_overview(struct flmem_buf *out, const struct flmem_watch_page *page,
			     const struct flmem_watch_summary *summary)
{
	size_t count = summary->count < ROWS_MAX ? summary->count : ROWS_MAX;
	char left[FLMEM_TEXT_COUNTED_MAX];

	flmem_buf_puts(out, "<section><h2>Processes</h2><div class=\"wide\"><table><thead><tr>"
			    "<th scope=\"col\">pid</th><th scope=\"col\" class=\"text\">trend</th>"
			    "<th scope=\"col\">last</th><th scope=\"col\">peak</th>"
			    "<th scope=\"col\">growth</th><th scope=\"col\">limit reached</th>"
			    "<th scope=\"col\" class=\"text\">memory</th>"
			    "<th scope=\"col\" class=\"text\">process</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < count; i++)
		put_overview_row(out, page, &summary->results[i]);
	flmem_buf_puts(out, "</tbody></table></div>");
	if (summary->count > count)
		flmem_buf_printf(out, "<p>And %s.</p>",
				 flmem_text_counted(summary->count - count, "more process", left,
						    sizeof(left)));
	flmem_buf_puts(out, "</section>\n");
}
