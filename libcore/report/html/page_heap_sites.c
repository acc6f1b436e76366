/* SPDX-License-Identifier: Apache-2.0 */
/* The largest stacks of the heap profiles that belong to a watch. */
#include "report/html/page.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "report/html/markup.h"

#define SITES_SHOWN 15U
#define LEAKS_SHOWN 5U
#define DEPTH_SHOWN 64U
/*
 * If less than this share is live, the program has freed its memory: the stacks of the peak are
 * then more useful.
 */
#define LIVE_SHARE_MIN 10U /* one byte in so many of the peak */

struct sites_view {
	struct flmem_buf *out;
	const struct flmem_heap_profile *profile;
	struct flmem_heap_leaks leaks;
	size_t rows;
};

static void put_site_frame(struct flmem_buf *out, const struct flmem_heap_frame *frame)
{
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];

	flmem_buf_puts(out, "<bdi>");
	flmem_markup_text(out, flmem_heap_frame_text(frame, text, sizeof(text)));
	flmem_buf_puts(out, "</bdi>");
}

static const struct flmem_heap_frame *frame_of_node(const struct flmem_heap_profile *p,
						    uint32_t node)
{
	return node ? &p->frames[p->nodes[node].frame] : NULL;
}

/* Writes the program's own line, where a line of other code allocated. */
static void put_own_line(struct flmem_buf *out, const struct flmem_heap_profile *p, uint32_t node)
{
	uint32_t own = flmem_heap_own_frame(p, node);

	if (own == FLMEM_HEAP_NO_FRAME || own == p->nodes[node].frame)
		return;
	flmem_buf_puts(out, "<small>own line: <code>");
	put_site_frame(out, &p->frames[own]);
	flmem_buf_puts(out, "</code></small>");
}

/* Writes the line that allocated; the reader can open its callers below it. */
static void put_site_stack(struct flmem_buf *out, const struct flmem_heap_profile *p, uint32_t node)
{
	uint32_t caller = node ? p->nodes[node].parent : 0;
	size_t depth = 0;

	if (!caller) {
		flmem_buf_puts(out, "<code>");
		put_site_frame(out, frame_of_node(p, node));
		flmem_buf_puts(out, "</code>");
		return;
	}
	flmem_buf_puts(out, "<details><summary><code>");
	put_site_frame(out, frame_of_node(p, node));
	flmem_buf_puts(out, "</code></summary>");
	for (; caller && depth < DEPTH_SHOWN; caller = p->nodes[caller].parent, depth++) {
		flmem_buf_puts(out, "<code>");
		put_site_frame(out, frame_of_node(p, caller));
		flmem_buf_puts(out, "</code>");
	}
	flmem_buf_puts(out, caller ? "and more callers</details>" : "</details>");
}

static void put_site_bytes(struct flmem_buf *out, struct flmem_u64 bytes)
{
	flmem_buf_puts(out, "<td>");
	if (bytes.unknown)
		flmem_buf_puts(out, "–");
	else
		flmem_page_put_bytes(out, bytes);
	flmem_buf_puts(out, "</td>");
}

static const char *sites_growth_period(const struct flmem_heap_leaks *leaks)
{
	if (!leaks->by_round)
		return "hour";
	return leaks->round_span > leaks->periods ? "round with samples" : "round";
}

static void put_site_growth(struct sites_view *view, const struct flmem_heap_leak *leak)
{
	flmem_buf_puts(view->out, "<td class=\"wrap\">");
	if (!leak) {
		flmem_buf_puts(view->out, "–</td>");
		return;
	}
	flmem_page_put_growth(view->out, (struct flmem_i64){.value = (int64_t)leak->growth_bytes});
	flmem_buf_printf(view->out, " per %s, ", sites_growth_period(&view->leaks));
	if (leak->unconfirmed)
		flmem_buf_puts(view->out, "not confirmed by RSS");
	else
		flmem_buf_printf(view->out, "confidence %.1f %%", leak->confidence * 100);
	if (leak->live_bytes < leak->grown_bytes / 2) {
		flmem_buf_puts(view->out, ", freed at the end of the program: ");
		flmem_page_put_bytes(view->out, FLMEM_KNOWN(leak->grown_bytes));
	}
	flmem_buf_puts(view->out, "</td>");
}

static void put_site_row(struct sites_view *view, uint32_t site, const struct flmem_heap_leak *leak)
{
	const struct flmem_heap_profile *p = view->profile;
	const struct flmem_heap_site *s = &p->sites[site];

	flmem_buf_puts(view->out, "<tr>");
	put_site_bytes(view->out, flmem_heap_bytes(p, &s->amounts, FLMEM_HEAP_LIVE));
	put_site_bytes(view->out, flmem_heap_bytes(p, &s->amounts, FLMEM_HEAP_PEAK));
	put_site_growth(view, leak);
	flmem_buf_puts(view->out, "<td class=\"text\">");
	put_site_stack(view->out, p, s->node);
	put_own_line(view->out, p, s->node);
	if (s->arenas)
		flmem_buf_puts(view->out, "<small>arenas of Python's small objects</small>");
	flmem_buf_puts(view->out, "</td></tr>\n");
	view->rows++;
}

static bool is_growing(const struct sites_view *view, uint32_t site)
{
	for (size_t i = 0; i < view->leaks.count && i < LEAKS_SHOWN; i++)
		if (view->leaks.rows[i].site == site)
			return true;
	return false;
}

static enum flmem_heap_measure measure_of_sites(const struct flmem_heap_profile *p)
{
	uint64_t peak = p->totals.bytes[FLMEM_HEAP_PEAK];

	return p->totals.bytes[FLMEM_HEAP_LIVE] < peak / LIVE_SHARE_MIN ? FLMEM_HEAP_PEAK
									: FLMEM_HEAP_LIVE;
}

/* Writes the sites that grow, then the largest of the others. */
static void put_site_rows(struct sites_view *view, enum flmem_heap_measure measure)
{
	const struct flmem_heap_profile *p = view->profile;
	FLMEM_AUTO_FREE uint32_t *largest = flmem_heap_largest_sites(p, measure);

	view->out->failed |= !largest;
	for (size_t i = 0; i < view->leaks.count && i < LEAKS_SHOWN; i++)
		put_site_row(view, view->leaks.rows[i].site, &view->leaks.rows[i]);
	for (size_t i = 0; largest && i < p->site_count && view->rows < SITES_SHOWN; i++) {
		if (!p->sites[largest[i]].amounts.bytes[measure])
			break;
		if (!is_growing(view, largest[i]))
			put_site_row(view, largest[i], NULL);
	}
}

static void put_sites_table(struct sites_view *view)
{
	enum flmem_heap_measure measure = measure_of_sites(view->profile);

	flmem_buf_printf(
		view->out,
		"<div class=\"wide\"><table><thead><tr><th scope=\"col\">live</th>"
		"<th scope=\"col\">at the peak</th><th scope=\"col\">growth</th>"
		"<th scope=\"col\" class=\"text\">allocated by</th></tr></thead><tbody>\n");
	put_site_rows(view, measure);
	flmem_buf_puts(view->out, "</tbody></table></div>\n<p><small>");
	if (view->leaks.count)
		flmem_buf_puts(view->out, "Stacks whose live bytes keep growing come first, then ");
	else
		flmem_buf_puts(view->out, "No stack is known to grow");
	if (!view->leaks.count && view->leaks.too_few) {
		flmem_buf_puts(view->out, ": ");
		flmem_markup_text(view->out, view->leaks.too_few);
	}
	flmem_buf_printf(view->out, "%s. A line opens its callers.</small></p>\n",
			 !view->leaks.count	      ? ""
			 : measure == FLMEM_HEAP_LIVE ? "those with the most live bytes"
						      : "those with most of the peak");
}

/*
 * States the times of the profile: if the watch began or ended at another time, its rounds and
 * growth differ.
 */
static void put_sites_times(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	flmem_markup_time(out, p->started_us);
	flmem_buf_puts(out, " to ");
	flmem_markup_time(out, p->started_us + p->duration_us);
	flmem_buf_puts(out, " (");
	flmem_page_put_span_us(out, p->duration_us);
	flmem_buf_printf(out, "), %" PRIu64 " samples, ", p->samples);
}

/*
 * States the source of the rounds: the profile has those that were announced to it, the watch those
 * of the log.
 */
static void put_sites_rounds(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	size_t first = p->round_count && p->rounds[0].number.unknown ? 1 : 0;
	size_t count = p->round_count - first;

	if (!count)
		flmem_buf_puts(out, "none were announced to the profile");
	else if (count == 1)
		flmem_buf_printf(out, "1 (%" PRIu64 ")", p->rounds[first].number.value);
	else
		flmem_buf_printf(out, "%zu (%" PRIu64 " to %" PRIu64 ")", count,
				 p->rounds[first].number.value,
				 p->rounds[p->round_count - 1].number.value);
}

static void put_sites_facts(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	flmem_buf_puts(out, "<dl><dt>profile</dt><dd><code><bdi>");
	flmem_markup_text(out, p->path);
	flmem_buf_printf(out, "</bdi></code>, %s, %s frames</dd><dt>sampled</dt><dd>",
			 flmem_heap_ending_name(p->ending), flmem_heap_stacks_name(p->stacks));
	if (!p->unrecorded)
		put_sites_times(out, p);
	flmem_buf_puts(out, "one per ");
	flmem_page_put_interval(out, p);
	if (!p->unrecorded) {
		flmem_buf_puts(out, "</dd><dt>rounds</dt><dd>");
		put_sites_rounds(out, p);
	}
	flmem_buf_puts(out, "</dd><dt>heap</dt><dd>live ");
	flmem_page_put_bytes(out, flmem_heap_bytes(p, &p->totals, FLMEM_HEAP_LIVE));
	if (!p->unrecorded) {
		flmem_buf_puts(out, " at the end, peak ");
		flmem_page_put_bytes(out, FLMEM_KNOWN(p->peak_bytes));
	}
	flmem_buf_puts(out, "</dd></dl>\n");
	if (p->lost_samples || p->full_stacks || p->lost_rounds || p->restarted_rounds ||
	    p->unread_frames || p->lost_names || p->lost_modules || p->unseen_calls || p->cut ||
	    p->skipped)
		flmem_buf_puts(out, "<p class=\"warning\">The profile is not complete: flmem "
				    "profile stats shows what is missing.</p>\n");
}

static const struct flmem_watch_process *process_of_profile(const struct flmem_watch_summary *s,
							    const struct flmem_heap_profile *p)
{
	for (size_t i = 0; i < s->count; i++)
		if ((uint32_t)s->results[i].process.pid == p->pid &&
		    s->results[i].process.start_time == p->start_time)
			return &s->results[i].process;
	return NULL;
}

static void put_sites_title(struct flmem_buf *out, const struct flmem_watch_summary *summary,
			    const struct flmem_heap_profile *p)
{
	const struct flmem_watch_process *process = process_of_profile(summary, p);

	if (p->unrecorded) {
		flmem_buf_puts(out, "<section><h2>Heap snapshot</h2>\n"
				    "<p class=\"warning\">A dump of jemalloc does not record its "
				    "process: whether it belongs to this watch is not "
				    "known.</p>\n");
		return;
	}
	flmem_buf_printf(out, "<section><h2>Heap of process %" PRIu32 " ", p->pid);
	if (process)
		flmem_page_put_who(out, process);
	flmem_buf_puts(out, "</h2>\n");
	if (!process)
		flmem_buf_puts(out, "<p class=\"warning\">This profile does not belong to a "
				    "process of this watch (process ID and start time "
				    "differ).</p>\n");
}

static void put_heap_profile(struct flmem_buf *out, const struct flmem_watch_summary *summary,
			     const struct flmem_heap_profile *p)
{
	struct sites_view view = {.out = out, .profile = p};

	put_sites_title(out, summary, p);
	put_sites_facts(out, p);
	if (p->ending == FLMEM_HEAP_DUMPED)
		view.leaks.too_few = "the profile is a snapshot";
	else if (flmem_heap_leaks_find(p, &view.leaks, NULL)) {
		out->failed = true;
		return;
	}
	put_sites_table(&view);
	flmem_heap_leaks_clear(&view.leaks);
	flmem_buf_puts(out, "</section>\n");
}

static void put_unread_profile(struct flmem_buf *out, const struct flmem_watch_page_profile *row)
{
	flmem_buf_puts(out, "<section><h2>Heap profile <code><bdi>");
	flmem_markup_text(out, row->path);
	flmem_buf_puts(out, "</bdi></code></h2><p class=\"warning\">It could not be read: ");
	flmem_markup_text(out, row->reason);
	flmem_buf_puts(out, "</p></section>\n");
}

void flmem_page_put_profiles(struct flmem_buf *out, const struct flmem_watch_page *page,
			     const struct flmem_watch_summary *summary)
{
	for (size_t i = 0; i < page->profile_count; i++)
		if (page->profiles[i].profile)
			put_heap_profile(out, summary, page->profiles[i].profile);
		else
			put_unread_profile(out, &page->profiles[i]);
}
