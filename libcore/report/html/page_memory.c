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

/* A limit is drawn if the axis grows by at most this factor. */
#define LIMIT_ROOM 1.6

#define ROUND_LINES 40U

struct memory_plot {
	const struct flmem_page_subject *subject;
	struct flmem_page_plot plot;
	bool has_trend;
	struct flmem_page_trend trend;
	bool has_limit, limit_drawn;
	double limit_bytes; /* resident memory of this process at which it is reached */
	double first_us, end_us;
};

static double trend_at(const struct memory_plot *scene, double us)
{
	return scene->trend.mid_bytes + scene->trend.per_us * (us - scene->trend.mid_us);
}

static double forecast_end(const struct memory_plot *scene)
{
	const struct flmem_watch_result *r = scene->subject->result;
	double watched = scene->end_us - scene->first_us, left;

	if (!scene->has_trend || r->trend.verdict != FLMEM_TREND_CLIMBING)
		return scene->end_us;
	if (r->forecast.exhausted_in_s.unknown)
		return scene->end_us + watched * AHEAD;
	left = (double)r->forecast.exhausted_in_s.value * 1e6 * 1.1;
	return scene->end_us + (left < watched * AHEAD_MAX ? left : watched * AHEAD);
}

static void find_page_limit(struct memory_plot *scene)
{
	const struct flmem_watch_result *r = scene->subject->result;

	scene->has_limit =
		!r->limit_bytes.unknown && !r->headroom_bytes.unknown && !r->last_bytes.unknown;
	if (scene->has_limit)
		scene->limit_bytes = (double)r->last_bytes.value + (double)r->headroom_bytes.value;
}

static void fit_memory_axes(struct memory_plot *scene)
{
	const struct flmem_page_series *s = scene->subject->series;
	double low = (double)s->spans[0].low_bytes, high = (double)s->spans[0].high_bytes, ahead;

	for (size_t i = 0; i < s->span_count; i++) {
		if ((double)s->spans[i].low_bytes < low)
			low = (double)s->spans[i].low_bytes;
		if ((double)s->spans[i].high_bytes > high)
			high = (double)s->spans[i].high_bytes;
	}
	if (scene->has_trend) {
		ahead = trend_at(scene, scene->plot.right);
		high = ahead > high ? ahead : high;
	}
	scene->limit_drawn = scene->has_limit && scene->limit_bytes <= high * LIMIT_ROOM;
	if (scene->limit_drawn && scene->limit_bytes > high)
		high = scene->limit_bytes;
	flmem_page_plot_fit(&scene->plot, low, high);
}

static void set_scene(const struct flmem_page_subject *subject, struct memory_plot *scene)
{
	const struct flmem_page_series *s = subject->series;

	*scene = (struct memory_plot){
		.subject = subject,
		.first_us = (double)s->spans[0].first_us,
		.end_us = (double)s->spans[s->span_count - 1].last_us,
	};
	scene->has_trend = flmem_page_trend_fit(subject, &scene->trend);
	find_page_limit(scene);
	flmem_page_plot_span(&scene->plot, scene->first_us, forecast_end(scene));
	fit_memory_axes(scene);
}

static bool has_memory_round_lines(const struct memory_plot *scene)
{
	const struct flmem_page_series *s = scene->subject->series;

	return s->round_count && s->round_count <= ROUND_LINES;
}

static void put_round_lines(struct flmem_buf *out, const struct memory_plot *scene)
{
	const struct flmem_page_series *s = scene->subject->series;

	if (!has_memory_round_lines(scene))
		return;
	flmem_buf_puts(out, "<path class=\"rounds\" d=\"");
	for (size_t i = 0; i < s->round_count; i++)
		flmem_buf_printf(out, "M%ld 0V1000",
				 flmem_page_plot_x(&scene->plot, (double)s->rounds[i].ended_us));
	flmem_buf_puts(out, "\"/>");
}

/* Area between low and high of every span; a line where they are equal. */
static void put_memory_curve(struct flmem_buf *out, const struct memory_plot *scene)
{
	const struct flmem_page_series *s = scene->subject->series;
	char sign = 'M';

	flmem_buf_puts(out, "<path class=\"rss\" d=\"");
	for (size_t i = 0; i < s->span_count; i++, sign = 'L')
		flmem_buf_printf(out, "%c%ld %ld", sign,
				 flmem_page_plot_x(&scene->plot, (double)s->spans[i].first_us),
				 flmem_page_plot_y(&scene->plot, (double)s->spans[i].high_bytes));
	for (size_t i = s->span_count; i-- > 0;)
		flmem_buf_printf(out, "L%ld %ld",
				 flmem_page_plot_x(&scene->plot, (double)s->spans[i].last_us),
				 flmem_page_plot_y(&scene->plot, (double)s->spans[i].low_bytes));
	flmem_buf_puts(out, "Z\"/>");
}

static void put_troughs(struct flmem_buf *out, const struct memory_plot *scene)
{
	const struct flmem_page_series *s = scene->subject->series;

	if (!s->round_count)
		return;
	flmem_buf_printf(out, "<path class=\"%s trough\" d=\"", flmem_page_dots(s));
	for (size_t i = 0; i < s->round_count; i++)
		if (!s->rounds[i].trough_bytes.unknown)
			flmem_buf_printf(
				out, "M%ld %ldh0",
				flmem_page_plot_x(&scene->plot, (double)s->rounds[i].ended_us),
				flmem_page_plot_y(&scene->plot,
						  (double)s->rounds[i].trough_bytes.value));
	flmem_buf_puts(out, "\"/>");
}

/* Dots for memory after trims. Returns their count. */
static size_t put_memory_trims(struct flmem_buf *out, const struct memory_plot *scene)
{
	const struct flmem_page_series *s = scene->subject->series;
	const struct flmem_page_action *a;
	size_t count = 0;

	for (size_t i = 0; (a = flmem_page_action_at(scene->subject->page, i)); i++) {
		if (a->kind != FLMEM_WATCH_TRIMMED || a->pid != s->pid ||
		    a->start_time != s->start_time || a->rss_after_bytes.unknown)
			continue;
		flmem_buf_puts(out, count++ ? "" : "<path class=\"dots trim\" d=\"");
		flmem_buf_printf(out, "M%ld %ldh0",
				 flmem_page_plot_x(&scene->plot, (double)a->elapsed_us),
				 flmem_page_plot_y(&scene->plot, (double)a->rss_after_bytes.value));
	}
	flmem_buf_puts(out, count ? "\"/>" : "");
	return count;
}

static long trend_y(const struct memory_plot *scene, double us, double per_us)
{
	return flmem_page_plot_y(&scene->plot,
				 scene->trend.mid_bytes + per_us * (us - scene->trend.mid_us));
}

/* The band widens from the middle of the watched time in both directions. */
static void put_trend(struct flmem_buf *out, const struct memory_plot *scene)
{
	const struct flmem_page_plot *p = &scene->plot;
	const struct flmem_page_trend *t = &scene->trend;
	long left = flmem_page_plot_x(p, p->left), right = flmem_page_plot_x(p, p->right);

	if (!scene->has_trend)
		return;
	flmem_buf_printf(out, "<path class=\"band\" d=\"M%ld %ldL%ld %ldL%ld %ldL%ld %ldZ\"/>",
			 left, trend_y(scene, p->left, t->low_per_us), right,
			 trend_y(scene, p->right, t->high_per_us), right,
			 trend_y(scene, p->right, t->low_per_us), left,
			 trend_y(scene, p->left, t->high_per_us));
	flmem_buf_printf(out, "<path class=\"trend\" d=\"M%ld %ldL%ld %ld\"/>", left,
			 trend_y(scene, p->left, t->per_us), right,
			 trend_y(scene, p->right, t->per_us));
	if (p->right > scene->end_us)
		flmem_buf_printf(out, "<path class=\"now\" d=\"M%ld 0V1000\"/>",
				 flmem_page_plot_x(p, scene->end_us));
}

static void put_memory_limit(struct flmem_buf *out, const struct memory_plot *scene)
{
	if (scene->limit_drawn)
		flmem_buf_printf(out, "<path class=\"limit\" d=\"M0 %ldH2000\"/>",
				 flmem_page_plot_y(&scene->plot, scene->limit_bytes));
}

static void put_memory_keys(struct flmem_buf *out, const struct memory_plot *scene)
{
	flmem_page_plot_key(out, "rss", "resident memory");
	if (scene->subject->series->round_count)
		flmem_page_plot_dot_key(out, "dots trough", "lowest after a round");
	if (has_memory_round_lines(scene))
		flmem_page_plot_key(out, "rounds", "end of a round");
	if (scene->has_trend) {
		flmem_page_plot_key(out, "trend", "trend");
		flmem_page_plot_area_key(out, "band", "its 95 % interval");
	}
	if (scene->plot.right > scene->end_us)
		flmem_page_plot_key(out, "now", "end of the watch; forecast right of it");
	if (scene->limit_drawn)
		flmem_page_plot_key(out, "limit", "limit reached at this level");
}

static void describe_figure(struct flmem_buf *text, const struct memory_plot *scene)
{
	const struct flmem_watch_result *r = scene->subject->result;

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
	struct memory_plot scene;
	size_t trims;
	char id[32];

	if (!subject->series || !subject->series->span_count)
		return;
	set_scene(subject, &scene);
	describe_figure(&text, &scene);
	snprintf(id, sizeof(id), "memory%zu", subject->number);
	flmem_page_plot_open(
		out, &scene.plot,
		&(struct flmem_page_caption){id, "Resident memory over time", text.data});
	put_round_lines(out, &scene);
	put_trend(out, &scene);
	put_memory_curve(out, &scene);
	put_troughs(out, &scene);
	trims = put_memory_trims(out, &scene);
	put_memory_limit(out, &scene);
	flmem_page_plot_end(out, &scene.plot);
	put_memory_keys(out, &scene);
	if (trims)
		flmem_page_plot_dot_key(out, "dots trim", "after a trim");
	flmem_page_plot_close(out);
}
