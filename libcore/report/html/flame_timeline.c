/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "report/html/flame_page.h"
#include "report/html/page_plot.h"

#define POINTS_MAX 1000U
#define LINES_MAX  400U

static uint64_t value_of(const struct flmem_heap_point *point, bool rss)
{
	return rss ? flmem_u64_or(point->rss_bytes, 0) : point->live_bytes;
}

/* Draws the highest point of each group, so that no peak is lost. */
static void put_curve(struct flmem_buf *out, const struct flmem_heap_profile *p,
		      const struct flmem_page_plot *plot, bool rss)
{
	size_t step = p->point_count / POINTS_MAX + 1;
	char sign = 'M';

	flmem_buf_printf(out, "<path class=\"%s\" d=\"", rss ? "line" : "live");
	for (size_t first = 0; first < p->point_count; first += step) {
		const struct flmem_heap_point *highest = NULL;

		for (size_t i = first; i < p->point_count && i < first + step; i++) {
			const struct flmem_heap_point *point = &p->points[i];

			if (rss && point->rss_bytes.unknown)
				continue;
			if (!highest || value_of(point, rss) > value_of(highest, rss))
				highest = point;
		}
		if (!highest)
			continue;
		flmem_buf_printf(out, "%c%ld %ld", sign,
				 flmem_page_plot_x(plot, (double)highest->at_us),
				 flmem_page_plot_y(plot, (double)value_of(highest, rss)));
		sign = 'L';
	}
	flmem_buf_puts(out, "\"/>");
}

static bool put_round_starts(struct flmem_buf *out, const struct flmem_heap_profile *p,
			     const struct flmem_page_plot *plot)
{
	size_t step = p->round_count / LINES_MAX + 1, count = 0;

	flmem_buf_puts(out, "<path class=\"rounds\" d=\"");
	for (size_t i = 0; i < p->round_count; i += step) {
		if (p->rounds[i].number.unknown)
			continue;
		count++;
		flmem_buf_printf(out, "M%ld 0V1000",
				 flmem_page_plot_x(plot, (double)p->rounds[i].started_us));
	}
	flmem_buf_puts(out, "\"/>");
	return count != 0;
}

static void fit_timeline(const struct flmem_heap_profile *p, struct flmem_page_plot *plot)
{
	uint64_t most = 0;

	for (size_t i = 0; i < p->point_count; i++) {
		uint64_t live = p->points[i].live_bytes;
		uint64_t rss = flmem_u64_or(p->points[i].rss_bytes, 0);

		most = live > most ? live : most;
		most = rss > most ? rss : most;
	}
	plot->axis = FLMEM_PAGE_TIME;
	flmem_page_plot_span(plot, 0, (double)p->duration_us);
	flmem_page_plot_fit(plot, 0, (double)most);
}

void flmem_flame_put_timeline(struct flmem_buf *out, const struct flmem_heap_profile *profile,
			      unsigned number)
{
	static const char *const titles[] = {"Memory over time",
					     "Memory over time, second profile"};
	struct flmem_page_plot plot;
	bool rounds;
	char id[32];

	if (!profile->point_count)
		return;
	fit_timeline(profile, &plot);
	snprintf(id, sizeof(id), "timeline%u", number);
	flmem_page_plot_open(out, &plot,
			     &(struct flmem_page_caption){
				     id, titles[number],
				     "Resident memory of the process and live bytes of its heap."});
	rounds = put_round_starts(out, profile, &plot);
	put_curve(out, profile, &plot, true);
	put_curve(out, profile, &plot, false);
	flmem_page_plot_end(out, &plot);
	flmem_page_plot_key(out, "line", "resident memory");
	flmem_page_plot_key(out, "live", "live heap, estimated");
	if (rounds)
		flmem_page_plot_key(out, "rounds", "start of a round");
	flmem_page_plot_close(out);
}
