/* SPDX-License-Identifier: Apache-2.0 */
/* The figure of the kinds of memory over time, stacked. */
#include "report/html/page.h"
#include "report/html/page_plot.h"

#include <stdio.h>

#include "base/cleanup.h"

/* One row per kind, from the bottom up; areas differ in hue and in pattern. */
static const struct {
	const char *style, *name;
} page_kinds[FLMEM_PAGE_KINDS] = {
	[FLMEM_PAGE_ANON] = {"anon", "anonymous"},
	[FLMEM_PAGE_SHMEM] = {"shmem", "shared"},
	[FLMEM_PAGE_FILE] = {"file", "pages of files"},
	[FLMEM_PAGE_SWAP] = {"swap", "swapped out"},
};

static double sum_kinds(const struct flmem_page_split *split, size_t upto)
{
	double bytes = 0;

	for (size_t i = 0; i < upto; i++)
		bytes += (double)split->bytes[i];
	return bytes;
}

static bool kind_occurs(const struct flmem_page_series *s, size_t kind)
{
	for (size_t i = 0; i < s->split_count; i++)
		if (s->splits[i].bytes[kind])
			return true;
	return false;
}

static void put_kind(struct flmem_buf *out, const struct flmem_page_plot *plot,
		     const struct flmem_page_series *s, size_t kind)
{
	char sign = 'M';

	flmem_buf_printf(out, "<path class=\"%s\" d=\"", page_kinds[kind].style);
	for (size_t i = 0; i < s->split_count; i++, sign = 'L')
		flmem_buf_printf(out, "%c%ld %ld", sign,
				 flmem_page_plot_x(plot, (double)s->splits[i].at_us),
				 flmem_page_plot_y(plot, sum_kinds(&s->splits[i], kind + 1)));
	for (size_t i = s->split_count; i-- > 0;)
		flmem_buf_printf(out, "L%ld %ld",
				 flmem_page_plot_x(plot, (double)s->splits[i].at_us),
				 flmem_page_plot_y(plot, sum_kinds(&s->splits[i], kind)));
	flmem_buf_puts(out, "Z\"/>");
}

static void describe_kind_figure(struct flmem_buf *text, const struct flmem_page_series *s)
{
	const struct flmem_page_split *last = &s->splits[s->split_count - 1];

	flmem_buf_puts(text, "At the end ");
	for (size_t i = 0; i < FLMEM_PAGE_KINDS; i++) {
		flmem_buf_printf(text, "%s%s ", i ? ", " : "", page_kinds[i].name);
		flmem_page_put_bytes(text, FLMEM_KNOWN(last->bytes[i]));
	}
	flmem_buf_putc(text, '.');
}

void flmem_page_put_kinds(struct flmem_buf *out, const struct flmem_page_subject *subject)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_page_series *s = subject->series;
	struct flmem_page_plot plot = {.axis = FLMEM_PAGE_TIME};
	double high = 0;
	char id[32];

	if (!s || s->split_count < 2)
		return;
	flmem_page_plot_span(&plot, (double)s->splits[0].at_us,
			     (double)s->splits[s->split_count - 1].at_us);
	for (size_t i = 0; i < s->split_count; i++)
		high = sum_kinds(&s->splits[i], FLMEM_PAGE_KINDS) > high
			       ? sum_kinds(&s->splits[i], FLMEM_PAGE_KINDS)
			       : high;
	flmem_page_plot_fit(&plot, 0, high);
	describe_kind_figure(&text, s);
	snprintf(id, sizeof(id), "kinds%zu", subject->number);
	flmem_page_plot_open(out, &plot,
			     &(struct flmem_page_caption){id, "Kinds of memory", text.data});
	for (size_t i = 0; i < FLMEM_PAGE_KINDS; i++)
		if (kind_occurs(s, i))
			put_kind(out, &plot, s, i);
	flmem_page_plot_end(out, &plot);
	for (size_t i = FLMEM_PAGE_KINDS; i-- > 0;)
		if (kind_occurs(s, i))
			flmem_page_plot_area_key(out, page_kinds[i].style, page_kinds[i].name);
	flmem_page_plot_close(out);
}
