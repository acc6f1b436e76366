/* SPDX-License-Identifier: Apache-2.0 */
/* The figure of resident memory over time. */
#include "report/html/page.h"
#include "report/html/page_plot.h"
#include "report/html/page_trend.h"

#include <inttypes.h>
#include <stdio.h>

/* Length of the forecast after the end, as shares of the watched time. */
#define AHEAD	  0.3
#define AHEAD_MAX 1.5

/* The figure shows a limit if the axis grows by at most this factor. */
#define LIMIT_ROOM 1.6

#define ROUND_LINES 40U

struct memory_plot {
	const struct flmem_page_subject *subject;
	struct flmem_page_plot plot;
	bool has_trend;
	struct flmem_page_trend trend;
	bool has_limit, limit_drawn;
	double limit_bytes; /* resident memory of this process at which the limit is reached */
	double first_us, end_us;
};

static double trend_at(const struct memory_plot *memory, double us)
{
	return memory->trend.mid_bytes + memory->trend.per_us * (us - memory->trend.mid_us);
}

static double forecast_end(const struct memory_plot *memory)
{
	const struct flmem_watch_result *r = memory->subject->result;
	double watched = memory->end_us - memory->first_us, left;

	if (!memory->has_trend || r->trend.verdict != FLMEM_TREND_CLIMBING)
		return memory->end_us;
	if (r->forecast.exhausted_in_s.unknown)
		return memory->end_us + watched * AHEAD;
	left = (double)r->forecast.exhausted_in_s.value * 1e6 * 1.1;
	return memory->end_us + (left < watched * AHEAD_MAX ? left : watched * AHEAD);
}

static void find_page_limit(struct memory_plot *memory)
{
	const struct flmem_watch_result *r = memory->subject->result;

	memory->has_limit =
		!r->limit_bytes.unknown && !r->headroom_bytes.unknown && !r->last_bytes.unknown;
	if (memory->has_limit)
		memory->limit_bytes = (double)r->last_bytes.value + (double)r->headroom_bytes.value;
}

static void fit_memory_axes(struct memory_plot *memory)
{
	const struct flmem_page_series *s = memory->subject->series;
	double low = (double)s->spans[0].low_bytes, high = (double)s->spans[0].high_bytes, ahead;

	for (size_t i = 0; i < s->span_count; i++) {
		if ((double)s->spans[i].low_bytes < low)
			low = (double)s->spans[i].low_bytes;
		if ((double)s->spans[i].high_bytes > high)
			high = (double)s->spans[i].high_bytes;
	}
	if (memory->has_trend) {
		ahead = trend_at(memory, memory->plot.right);
		high = ahead > high ? ahead : high;
	}
	memory->limit_drawn = memory->has_limit && memory->limit_bytes <= high * LIMIT_ROOM;
	if (memory->limit_drawn && memory->limit_bytes > high)
		high = memory->limit_bytes;
	flmem_page_plot_fit(&memory->plot, low, high);
}

static void set_memory_plot(const struct flmem_page_subject *subject, struct memory_plot *memory)
{
	const struct flmem_page_series *s = subject->series;

	*memory = (struct memory_plot){
		.subject = subject,
		.first_us = (double)s->spans[0].first_us,
		.end_us = (double)s->spans[s->span_count - 1].last_us,
	};
	memory->has_trend = flmem_page_trend_fit(subject, &memory->trend);
	find_page_limit(memory);
	flmem_page_plot_span(&memory->plot, memory->first_us, forecast_end(memory));
	fit_memory_axes(memory);
}

static bool has_memory_round_lines(const struct memory_plot *memory)
{
	const struct flmem_page_series *s = memory->subject->series;

	return s->round_count && s->round_count <= ROUND_LINES;
}

static void put_round_lines(struct flmem_buf *out, const struct memory_plot *memory)
{
	const struct flmem_page_series *s = memory->subject->series;

	if (!has_memory_round_lines(memory))
		return;
	flmem_buf_puts(out, "<path class=\"rounds\" d=\"");
	for (size_t i = 0; i < s->round_count; i++)
		flmem_buf_printf(out, "M%ld 0V1000",
				 flmem_page_plot_x(&memory->plot, (double)s->rounds[i].ended_us));
	flmem_buf_puts(out, "\"/>");
}

/* Draws the area between low and high of every span; a line where they are equal. */
static void put_memory_curve(struct flmem_buf *out, const struct memory_plot *memory)
{
	const struct flmem_page_series *s = memory->subject->series;
	char sign = 'M';

	flmem_buf_puts(out, "<path class=\"rss\" d=\"");
	for (size_t i = 0; i < s->span_count; i++, sign = 'L')
		flmem_buf_printf(out, "%c%ld %ld", sign,
				 flmem_page_plot_x(&memory->plot, (double)s->spans[i].first_us),
				 flmem_page_plot_y(&memory->plot, (double)s->spans[i].high_bytes));
	for (size_t i = s->span_count; i-- > 0;)
		flmem_buf_printf(out, "L%ld %ld",
				 flmem_page_plot_x(&memory->plot, (double)s->spans[i].last_us),
				 flmem_page_plot_y(&memory->plot, (double)s->spans[i].low_bytes));
	flmem_buf_puts(out, "Z\"/>");
}

static void put_troughs(struct flmem_buf *out, const struct memory_plot *memory)
{
	const struct flmem_page_series *s = memory->subject->series;

	if (!s->round_count)
		return;
	flmem_buf_printf(out, "<path class=\"%s trough\" d=\"", flmem_page_dots(s));
	for (size_t i = 0; i < s->round_count; i++)
		if (!s->rounds[i].trough_bytes.unknown)
			flmem_buf_printf(
				out, "M%ld %ldh0",
				flmem_page_plot_x(&memory->plot, (double)s->rounds[i].ended_us),
				flmem_page_plot_y(&memory->plot,
						  (double)s->rounds[i].trough_bytes.value));
	flmem_buf_puts(out, "\"/>");
}

/* Draws dots for memory after trims. Returns their count. */
static size_t put_memory_trims(struct flmem_buf *out, const struct memory_plot *memory)
{
	const struct flmem_page_series *s = memory->subject->series;
	const struct flmem_page_action *a;
	size_t count = 0;

	for (size_t i = 0; (a = flmem_page_action_at(memory->subject->page, i)); i++) {
		if (a->kind != FLMEM_WATCH_TRIMMED || a->pid != s->pid ||
		    a->start_time != s->start_time || a->rss_after_bytes.unknown)
			continue;
		flmem_buf_puts(out, count++ ? "" : "<path class=\"dots trim\" d=\"");
		flmem_buf_printf(
			out, "M%ld %ldh0", flmem_page_plot_x(&memory->plot, (double)a->elapsed_us),
			flmem_page_plot_y(&memory->plot, (double)a->rss_after_bytes.value));
	}
	flmem_buf_puts(out, count ? "\"/>" : "");
	return count;
}

static long trend_y(const struct memory_plot *memory, double us, double per_us)
{
	return flmem_page_plot_y(&memory->plot,
				 memory->trend.mid_bytes + per_us * (us - memory->trend.mid_us));
}

/*
 * Draws the trend with its band, which widens from the middle of the watched time in both
 * directions.
 */
static void put_trend(struct flmem_buf *out, const struct memory_plot *memory)
{
	const struct flmem_page_plot *p = &memory->plot;
	const struct flmem_page_trend *t = &memory->trend;
	long left = flmem_page_plot_x(p, p->left), right = flmem_page_plot_x(p, p->right);

	if (!memory->has_trend)
		return;
	flmem_buf_printf(out, "<path class=\"band\" d=\"M%ld %ldL%ld %ldL%ld %ldL%ld %ldZ\"/>",
			 left, trend_y(memory, p->left, t->low_per_us), right,
			 trend_y(memory, p->right, t->high_per_us), right,
			 trend_y(memory, p->right, t->low_per_us), left,
			 trend_y(memory, p->left, t->high_per_us));
	flmem_buf_printf(out, "<path class=\"trend\" d=\"M%ld %ldL%ld %ld\"/>", left,
			 trend_y(memory, p->left, t->per_us), right,
			 trend_y(memory, p->right, t->per_us));
	if (p->right > memory->end_us)
		flmem_buf_printf(out, "<path class=\"now\" d=\"M%ld 0V1000\"/>",
				 flmem_page_plot_x(p, memory->end_us));
}

static void put_memory_limit(struct flmem_buf *out, const struct memory_plot *memory)
{
	if (memory->limit_drawn)
		flmem_buf_printf(out, "<path class=\"limit\" d=\"M0 %ldH2000\"/>",
				 flmem_page_plot_y(&memory->plot, memory->limit_bytes));
}

static void put_memory_keys(struct flmem_buf *out, const struct memory_plot *memory)
{
	flmem_page_plot_key(out, "rss", "resident memory");
	if (memory->subject->series->round_count)
		flmem_page_plot_dot_key(out, "dots trough", "lowest after a round");
	if (has_memory_round_lines(memory))
		flmem_page_plot_key(out, "rounds", "end of a round");
	if (memory->has_trend) {
		flmem_page_plot_key(out, "trend", "trend");
		flmem_page_plot_area_key(out, "band", "its 95 % interval");
	}
	if (memory->plot.right > memory->end_us)
		flmem_page_plot_key(out, "now", "end of the watch; forecast right of it");
	if (memory->limit_drawn)
		flmem_page_plot_key(out, "limit", "limit reached at this level");
}

static void describe_figure(struct flmem_buf *text, const struct memory_plot *memory)
{
	const struct flmem_watch_result *r = memory->subject->result;

	flmem_buf_puts(text, "From ");
	flmem_page_put_bytes(text, r->first_bytes);
	flmem_buf_puts(text, " to ");
	flmem_page_put_bytes(text, r->last_bytes);
	flmem_buf_puts(text, ", lowest ");
	flmem_page_put_bytes(text, r->lowest_bytes);
	flmem_buf_puts(text, ", highest ");
	flmem_page_put_bytes(text, r->peak_bytes);
	flmem_buf_printf(text, ". The trend is %s.", flmem_trend_verdict_name(r->trend.verdict));
}

void flmem_page_put_memory(struct flmem_buf *out, const struct flmem_page_subject *subject)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct memory_plot memory;
	size_t trims;
	char id[32];

	if (!subject->series || !subject->series->span_count)
		return;
	set_memory_plot(subject, &memory);
	describe_figure(&text, &memory);
	snprintf(id, sizeof(id), "memory%zu", subject->number);
	flmem_page_plot_open(
		out, &memory.plot,
		&(struct flmem_page_caption){id, "Resident memory over time", text.data});
	put_round_lines(out, &memory);
	put_trend(out, &memory);
	put_memory_curve(out, &memory);
	put_troughs(out, &memory);
	trims = put_memory_trims(out, &memory);
	put_memory_limit(out, &memory);
	flmem_page_plot_end(out, &memory.plot);
	put_memory_keys(out, &memory);
	if (trims)
		flmem_page_plot_dot_key(out, "dots trim", "after a trim");
	flmem_page_plot_close(out);
}
