/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_PAGE_PLOT_H
#define FLMEM_REPORT_HTML_PAGE_PLOT_H

/*
 * A frame with two axes as HTML and SVG. The SVG is stretched to the width of the screen while
 * lines keep their width; the labels are text beside it, so they keep their size on any screen.
 */

#include <stdint.h>

#include "base/text/buf.h"

enum flmem_page_axis {
	FLMEM_PAGE_TIME,   /* values are microseconds */
	FLMEM_PAGE_NUMBER, /* values are numbers of rounds */
};

struct flmem_page_plot {
	enum flmem_page_axis axis;
	double left, right; /* values at the edges */
	double bottom, top; /* bytes */
	double step;	    /* bytes between two lines */
};

/* Caption, title and description for screen readers; our own plain text. */
struct flmem_page_caption {
	const char *id; /* unique in the page */
	const char *title;
	const char *text;
};

/* Sets the left and right edges; they never coincide. */
void flmem_page_plot_span(struct flmem_page_plot *plot, double left, double right);

/* Chooses rounded limits around the values; the axis starts at 0 unless that would hide changes. */
void flmem_page_plot_fit(struct flmem_page_plot *plot, double low, double high);

/* Returns a position in units of the SVG, which has 2000 x 1000. */
long flmem_page_plot_x(const struct flmem_page_plot *plot, double value);
long flmem_page_plot_y(const struct flmem_page_plot *plot, double bytes);

/* Opens a figure, its axes and the SVG. */
void flmem_page_plot_open(struct flmem_buf *out, const struct flmem_page_plot *plot,
			  const struct flmem_page_caption *caption);

/* Ends the SVG; a legend may follow, then flmem_page_plot_close(). */
void flmem_page_plot_end(struct flmem_buf *out, const struct flmem_page_plot *plot);

/*
 * One entry of the legend: a line, a dot or an area, as `style` (a class of the style sheet) draws
 * it.
 */
void flmem_page_plot_key(struct flmem_buf *out, const char *style, const char *text);
void flmem_page_plot_dot_key(struct flmem_buf *out, const char *style, const char *text);
void flmem_page_plot_area_key(struct flmem_buf *out, const char *style, const char *text);

void flmem_page_plot_close(struct flmem_buf *out);

#endif
