/* SPDX-License-Identifier: Apache-2.0 */
/* The figure of peak and trough by round, and the table of rounds. */
#include "report/html/page.h"
#include "report/html/page_plot.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"

#define DOTS_FEW 40U

const char *flmem_page_dots(const struct flmem_page_series *series)
{
	return series->round_count > DOTS_FEW ? "dots many" : "dots";
}

typedef struct flmem_u64 pick(const struct flmem_page_round *round);

static struct flmem_u64 round_peak(const struct flmem_page_round *round)
{
	return round->peak_bytes;
}

static struct flmem_u64 round_trough(const struct flmem_page_round *round)
{
	return round->trough_bytes;
}

/* Round numbers can restart, so the x axis counts on from the first number. */
static double round_position(const struct flmem_page_series *s, size_t i)
{
	return (double)s->rounds[0].first + (double)i * (double)s->per_round;
}

static void widen_range(struct flmem_u64 bytes, double *low, double *high)
{
	if (bytes.unknown)
		return;
	*low = (double)bytes.value < *low ? (double)bytes.value : *low;
	*high = (double)bytes.value > *high ? (double)bytes.value : *high;
}

static bool fit_plot(const struct flmem_page_series *s, struct flmem_page_plot *plot)
{
	double low = 1e300, high = 0;

	for (size_t i = 0; i < s->round_count; i++) {
		widen_range(s->rounds[i].peak_bytes, &low, &high);
		widen_range(s->rounds[i].trough_bytes, &low, &high);
	}
	plot->axis = FLMEM_PAGE_NUMBER;
	flmem_page_plot_span(plot, round_position(s, 0) - 0.5 * (double)s->per_round,
			     round_position(s, s->round_count - 1) + 0.5 * (double)s->per_round);
	if (high <= 0)
		return false;
	flmem_page_plot_fit(plot, low, high);
	return true;
}

static void put_path(struct flmem_buf *out, const struct flmem_page_plot *plot,
		     const struct flmem_page_series *s, pick *of, bool dots)
{
	char sign = 'M';

	for (size_t i = 0; i < s->round_count; i++) {
		struct flmem_u64 bytes = of(&s->rounds[i]);

		if (bytes.unknown)
			continue;
		flmem_buf_printf(out, "%c%ld %ld%s", sign,
				 flmem_page_plot_x(plot, round_position(s, i)),
				 flmem_page_plot_y(plot, (double)bytes.value), dots ? "h0" : "");
		sign = dots ? 'M' : 'L';
	}
}

static void put_line(struct flmem_buf *out, const struct flmem_page_plot *plot,
		     const struct flmem_page_series *s, pick *of, const char *style)
{
	flmem_buf_printf(out, "<path class=\"%s\" d=\"", style);
	put_path(out, plot, s, of, false);
	flmem_buf_printf(out, "\"/><path class=\"%s %s\" d=\"", flmem_page_dots(s), style);
	put_path(out, plot, s, of, true);
	flmem_buf_puts(out, "\"/>");
}

static void put_figure(struct flmem_buf *out, const struct flmem_page_subject *subject)
{
	const struct flmem_page_series *s = subject->series;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_page_plot plot;
	char id[32];

	if (s->round_count < 2 || !fit_plot(s, &plot))
		return;
	flmem_buf_printf(&text, "%zu rounds; the table below has the figures.", s->round_count);
	snprintf(id, sizeof(id), "rounds%zu", subject->number);
	flmem_page_plot_open(
		out, &plot,
		&(struct flmem_page_caption){id, "Resident memory by round", text.data});
	put_line(out, &plot, s, round_peak, "peak");
	put_line(out, &plot, s, round_trough, "trough");
	flmem_page_plot_end(out, &plot);
	flmem_page_plot_key(out, "peak", "highest within the round");
	flmem_page_plot_key(out, "trough",
			    "lowest soon after its end, thus above the peak "
			    "where memory still rose then");
	flmem_page_plot_close(out);
}

static void put_round_row(struct flmem_buf *out, const struct flmem_page_round *round)
{
	flmem_buf_printf(out, "<tr><th scope=\"row\">%" PRIu64, round->first);
	if (round->last != round->first)
		flmem_buf_printf(out, "–%" PRIu64, round->last);
	flmem_buf_puts(out, "</th><td>");
	flmem_page_put_span_us(out, round->started_us);
	flmem_buf_puts(out, "</td><td>");
	flmem_page_put_span_us(out, round->ended_us - round->started_us);
	flmem_buf_puts(out, "</td><td>");
	flmem_page_put_bytes(out, round->peak_bytes);
	flmem_buf_puts(out, "</td><td>");
	flmem_page_put_bytes(out, round->trough_bytes);
	flmem_buf_puts(out, "</td><td>");
	flmem_page_put_growth(out, round->growth_bytes);
	flmem_buf_puts(out, "</td></tr>\n");
}

static void put_table(struct flmem_buf *out, const struct flmem_page_series *s)
{
	flmem_buf_printf(out,
			 "<details%s><summary>Rounds</summary><div class=\"wide\"><table>"
			 "<thead><tr><th scope=\"col\">round</th><th scope=\"col\">started at</th>"
			 "<th scope=\"col\">duration</th><th scope=\"col\">peak</th>"
			 "<th scope=\"col\">trough</th><th scope=\"col\">growth</th></tr></thead>"
			 "<tbody>\n",
			 s->round_count <= 24 ? " open" : "");
	for (size_t i = 0; i < s->round_count; i++)
		put_round_row(out, &s->rounds[i]);
	flmem_buf_puts(out, "</tbody></table></div></details>\n");
}

void flmem_page_put_rounds(struct flmem_buf *out, const struct flmem_page_subject *subject)
{
	if (!subject->series || !subject->series->round_count)
		return;
	put_figure(out, subject);
	put_table(out, subject->series);
}
