/* SPDX-License-Identifier: Apache-2.0 */
/* The first figure: memory of all processes over time, with rounds and trims. */
#include "report/html/page.h"

#include <math.h>
#include <stdio.h>

#include <flmem/text.h>

#include "report/html/page_plot.h"

#define COLOURS	    8U	 /* number of processes with a colour, the most important ones */
#define CURVES_MAX  200U /* largest number of processes that are drawn */
#define POINTS_MAX  400U /* largest number of points of one curve */
#define ROUND_LINES 120U

struct processes_view {
	const struct flmem_watch_page *page;
	const struct flmem_page_series *series[CURVES_MAX];
	const struct flmem_watch_result *results[CURVES_MAX];
	size_t count;
	const struct flmem_page_series *rounds; /* the series with the most rounds, or NULL */
	struct flmem_page_plot plot;
};

static void add_page_process(struct processes_view *view, const struct flmem_watch_result *result)
{
	const struct flmem_page_series *s = flmem_page_find(view->page, &result->process);

	if (!s || !s->span_count || view->count == CURVES_MAX)
		return;
	view->results[view->count] = result;
	view->series[view->count++] = s;
	if (s->round_count && (!view->rounds || s->round_count > view->rounds->round_count))
		view->rounds = s;
}

static void fit_all_axes(struct processes_view *view)
{
	double left = INFINITY, right = 0, high = 0;

	for (size_t i = 0; i < view->count; i++) {
		const struct flmem_page_series *s = view->series[i];

		left = fmin(left, (double)s->spans[0].first_us);
		right = fmax(right, (double)s->spans[s->span_count - 1].last_us);
		for (size_t k = 0; k < s->span_count; k++)
			high = fmax(high, (double)s->spans[k].high_bytes);
	}
	flmem_page_plot_span(&view->plot, left, right);
	flmem_page_plot_fit(&view->plot, 0, high);
}

static uint64_t highest_drawn_sample(const struct flmem_page_series *s, size_t first, size_t end)
{
	uint64_t high = 0;

	for (size_t i = first; i < end; i++)
		high = s->spans[i].high_bytes > high ? s->spans[i].high_bytes : high;
	return high;
}

static void put_all_curve(struct flmem_buf *out, const struct processes_view *view, size_t number)
{
	const struct flmem_page_series *s = view->series[number];
	size_t points = s->span_count < POINTS_MAX ? s->span_count : POINTS_MAX;

	flmem_buf_printf(out, "<path class=\"of c%zu\" d=\"",
			 number < COLOURS ? number : (size_t)COLOURS);
	for (size_t i = 0; i < points; i++) {
		size_t first = i * s->span_count / points, end = (i + 1) * s->span_count / points;

		flmem_buf_printf(out, "%c%ld %ld", i ? 'L' : 'M',
				 flmem_page_plot_x(&view->plot, (double)s->spans[first].first_us),
				 flmem_page_plot_y(&view->plot,
						   (double)highest_drawn_sample(s, first, end)));
	}
	flmem_buf_puts(out, points == 1 ? "h2\"/>" : "\"/>");
}

static bool has_all_round_lines(const struct processes_view *view)
{
	return view->rounds && view->rounds->round_count <= ROUND_LINES;
}

static void put_rounds(struct flmem_buf *out, const struct processes_view *view)
{
	if (!has_all_round_lines(view))
		return;
	flmem_buf_puts(out, "<path class=\"rounds\" d=\"");
	for (size_t i = 0; i < view->rounds->round_count; i++)
		flmem_buf_printf(
			out, "M%ld 0V1000",
			flmem_page_plot_x(&view->plot, (double)view->rounds->rounds[i].ended_us));
	flmem_buf_puts(out, "\"/>");
}

/* Draws the trims; returns their number. */
static size_t put_all_trims(struct flmem_buf *out, const struct processes_view *view)
{
	const struct flmem_page_action *a;
	size_t count = 0;

	for (size_t i = 0; (a = flmem_page_action_at(view->page, i)); i++) {
		if (a->kind != FLMEM_WATCH_TRIMMED || a->rss_after_bytes.unknown)
			continue;
		flmem_buf_puts(out, count++ ? "" : "<path class=\"dots trim\" d=\"");
		flmem_buf_printf(out, "M%ld %ldh0",
				 flmem_page_plot_x(&view->plot, (double)a->elapsed_us),
				 flmem_page_plot_y(&view->plot, (double)a->rss_after_bytes.value));
	}
	flmem_buf_puts(out, count ? "\"/>" : "");
	return count;
}

static void put_all_keys(struct flmem_buf *out, const struct processes_view *view, size_t trims)
{
	for (size_t i = 0; i < view->count && i < COLOURS; i++) {
		flmem_buf_printf(out,
				 "<li><svg class=\"key\" viewBox=\"0 0 28 12\" "
				 "aria-hidden=\"true\"><path class=\"of c%zu\" "
				 "d=\"M2 6H26\"/></svg>%d ",
				 i, (int)view->results[i]->process.pid);
		flmem_page_put_who(out, &view->results[i]->process);
		flmem_buf_puts(out, "</li>");
	}
	if (view->count > COLOURS)
		flmem_page_plot_key(out, "of c8", "others");
	if (has_all_round_lines(view))
		flmem_page_plot_key(out, "rounds", "end of a round");
	if (trims)
		flmem_page_plot_dot_key(out, "dots trim", "after a trim");
}

void flmem_page_put_all(struct flmem_buf *out, const struct flmem_watch_page *page,
			const struct flmem_watch_result *const *sorted, size_t count)
{
	struct processes_view view = {.page = page};
	char text[128], counted[FLMEM_TEXT_COUNTED_MAX];
	size_t trims;

	for (size_t i = 0; i < count; i++)
		add_page_process(&view, sorted[i]);
	if (!view.count)
		return;
	fit_all_axes(&view);
	snprintf(text, sizeof(text), "%s; the table below has the figures.",
		 flmem_text_counted(view.count, "process", counted, sizeof(counted)));
	flmem_page_plot_open(
		out, &view.plot,
		&(struct flmem_page_caption){"all", "Memory of all processes over time", text});
	put_rounds(out, &view);
	for (size_t i = view.count; i-- > 0;)
		put_all_curve(out, &view, i);
	trims = put_all_trims(out, &view);
	flmem_page_plot_end(out, &view.plot);
	put_all_keys(out, &view, trims);
	flmem_page_plot_close(out);
}
