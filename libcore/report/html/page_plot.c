/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/page_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define WIDTH	  2000.0
#define HEIGHT	  1000.0
#define PLOT_FAR  100000.0
#define ROWS	  5 /* approximate number of horizontal lines */
#define COLUMNS	  7
#define LABEL_MAX 40

/* The axis starts above 0 if changes would otherwise fill less than this share of it. */
#define CHANGE_SHARE 0.5

static long scale_position(double value, double from, double to, double length)
{
	double at = to > from ? (value - from) / (to - from) * length : 0;

	if (!(at > -PLOT_FAR))
		at = -PLOT_FAR;
	return lrint(at < PLOT_FAR ? at : PLOT_FAR);
}

long flmem_page_plot_x(const struct flmem_page_plot *plot, double value)
{
	return scale_position(value, plot->left, plot->right, WIDTH);
}

long flmem_page_plot_y(const struct flmem_page_plot *plot, double bytes)
{
	return lrint(HEIGHT) - scale_position(bytes, plot->bottom, plot->top, HEIGHT);
}

void flmem_page_plot_span(struct flmem_page_plot *plot, double left, double right)
{
	double least = fmax(1, fabs(left) * 1e-9);

	plot->left = left;
	plot->right = right > left + least ? right : left + least;
}

void flmem_page_plot_fit(struct flmem_page_plot *plot, double low, double high)
{
	double room, floor_bytes;

	if (high < 4096)
		high = 4096;
	if (high - low > high * CHANGE_SHARE)
		low = 0;
	room = high - low > high / 4096 ? high - low : high / 4096;
	plot->step = exp2(ceil(log2(room / ROWS)));
	floor_bytes = floor((low - room * 0.05) / plot->step) * plot->step;
	plot->bottom = low > 0 && floor_bytes > 0 ? floor_bytes : 0;
	plot->top = ceil((high + room * 0.04) / plot->step) * plot->step;
}

/* Prints "1.25 GiB", with as many decimals as neighbours need to differ. */
static void label_bytes(double bytes, const struct flmem_page_plot *plot, char *out)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double unit = 1, step;
	size_t i = 0;
	int decimals = 0;

	while (plot->top / unit >= 1024 && i + 1 < FLMEM_ARRAY_SIZE(units)) {
		unit *= 1024;
		i++;
	}
	for (step = plot->step / unit; decimals < 4 && step - floor(step) > 1e-4; decimals++)
		step *= 10;
	snprintf(out, LABEL_MAX, "%.*f %s", bytes > 0 ? decimals : 0, bytes / unit, units[i]);
}

static double nice_time(double room_us)
{
	static const double seconds[] = {0.1, 0.2, 0.5, 1,   2,	   5,	 10,   15,    30,    60,
					 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(seconds); i++)
		if (seconds[i] * 1e6 * COLUMNS >= room_us)
			return seconds[i] * 1e6;
	return ceil(room_us / COLUMNS / 86400e6) * 86400e6;
}

static double nice_number(double room)
{
	static const double steps[] = {1, 2, 5, 10};
	double power = pow(10, floor(log10(room > COLUMNS ? room / COLUMNS : 1)));

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(steps); i++)
		if (steps[i] * power * COLUMNS >= room)
			return steps[i] * power;
	return power * 10;
}

static void label_time(double us, double step, const struct flmem_page_plot *plot, char *out)
{
	unsigned long long s = (unsigned long long)(us / 1e6 + 0.05);

	if (step < 1e6)
		snprintf(out, LABEL_MAX, "%.1f s", us / 1e6);
	else if (plot->right <= 180e6)
		snprintf(out, LABEL_MAX, "%llu s", s);
	else if (step < 60e6)
		snprintf(out, LABEL_MAX, "%llu:%02llu min", s / 60, s % 60);
	else if (plot->right <= 7200e6)
		snprintf(out, LABEL_MAX, "%llu min", s / 60);
	else if (step < 3600e6)
		snprintf(out, LABEL_MAX, "%llu:%02llu h", s / 3600, s / 60 % 60);
	else if (step < 86400e6)
		snprintf(out, LABEL_MAX, "%llu h", s / 3600);
	else
		snprintf(out, LABEL_MAX, "%llu d", s / 86400);
}

static double column_step(const struct flmem_page_plot *plot)
{
	double room = plot->right - plot->left;

	return plot->axis == FLMEM_PAGE_TIME ? nice_time(room) : nice_number(room);
}

/* Counts the horizontal lines, including the bottom one. */
static size_t row_count(const struct flmem_page_plot *plot)
{
	return (size_t)lrint((plot->top - plot->bottom) / plot->step) + 1;
}

static void put_rows(struct flmem_buf *out, const struct flmem_page_plot *plot)
{
	char label[LABEL_MAX];

	flmem_buf_puts(out, "<div class=\"y\" aria-hidden=\"true\">");
	for (size_t i = 0; i < row_count(plot); i++) {
		double at = plot->bottom + (double)i * plot->step;

		label_bytes(at, plot, label);
		flmem_buf_printf(out, "<span style=\"top:%.1f%%\">%s</span>",
				 (double)flmem_page_plot_y(plot, at) / HEIGHT * 100, label);
	}
	flmem_buf_puts(out, "</div>");
}

static void put_grid(struct flmem_buf *out, const struct flmem_page_plot *plot)
{
	flmem_buf_puts(out, "<path class=\"grid\" d=\"");
	for (size_t i = 0; i < row_count(plot); i++)
		flmem_buf_printf(out, "M0 %ldH2000",
				 flmem_page_plot_y(plot, plot->bottom + (double)i * plot->step));
	flmem_buf_puts(out, "\"/>");
}

void flmem_page_plot_open(struct flmem_buf *out, const struct flmem_page_plot *plot,
			  const struct flmem_page_caption *caption)
{
	flmem_buf_printf(out, "<figure><figcaption>%s%s</figcaption><div class=\"plot\">",
			 caption->title,
			 plot->bottom > 0 ? " <small>(the axis does not begin at 0)</small>" : "");
	put_rows(out, plot);
	flmem_buf_printf(out,
			 "<svg viewBox=\"0 0 2000 1000\" preserveAspectRatio=\"none\" role=\"img\" "
			 "aria-labelledby=\"%s-t %s-d\"><title id=\"%s-t\">%s</title>"
			 "<desc id=\"%s-d\">%s</desc>",
			 caption->id, caption->id, caption->id, caption->title, caption->id,
			 caption->text);
	put_grid(out, plot);
}

/*
 * Writes the vertical lines with labels. Near the right edge labels would overflow and are left
 * out; narrow screens hide every second one.
 */
static void put_columns(struct flmem_buf *out, const struct flmem_page_plot *plot)
{
	double step = column_step(plot), first = ceil(plot->left / step) * step;
	double room = plot->right - plot->left;
	char label[LABEL_MAX];

	flmem_buf_puts(out, "<div class=\"x\" aria-hidden=\"true\">");
	for (unsigned i = 0; i < 3 * COLUMNS; i++) {
		double at = first + i * step;

		if (at > plot->right - room * 0.02)
			break;
		if (plot->axis == FLMEM_PAGE_TIME)
			label_time(at, step, plot, label);
		else
			snprintf(label, sizeof(label), "%.0f", at);
		flmem_buf_printf(out, "<span%s style=\"left:%.2f%%\">%s</span>",
				 i % 2 ? " class=\"odd\"" : "", (at - plot->left) / room * 100,
				 label);
	}
	flmem_buf_puts(out, "</div>");
}

void flmem_page_plot_end(struct flmem_buf *out, const struct flmem_page_plot *plot)
{
	flmem_buf_puts(out, "</svg>");
	put_columns(out, plot);
	flmem_buf_puts(out, "</div><ul class=\"keys\">");
}

static void put_key(struct flmem_buf *out, const char *style, const char *shape, const char *text)
{
	flmem_buf_printf(out,
			 "<li><svg class=\"key\" viewBox=\"0 0 28 12\" aria-hidden=\"true\">"
			 "<path class=\"%s\" d=\"%s\"/></svg>%s</li>",
			 style, shape, text);
}

void flmem_page_plot_key(struct flmem_buf *out, const char *style, const char *text)
{
	put_key(out, style, "M2 6H26", text);
}

void flmem_page_plot_dot_key(struct flmem_buf *out, const char *style, const char *text)
{
	put_key(out, style, "M14 6h0", text);
}

void flmem_page_plot_area_key(struct flmem_buf *out, const char *style, const char *text)
{
	put_key(out, style, "M1 1H27V11H1Z", text);
}

void flmem_page_plot_close(struct flmem_buf *out)
{
	flmem_buf_puts(out, "</ul></figure>");
}
