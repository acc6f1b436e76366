/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include <flmem/text.h>
#include <flmem/version.h>

#include "report/html/markup.h"
#include "report/html/page_shell.h"

/* Maximum number of processes with figures. */
#define FIGURES_MAX 24U

/* Kinds of memory that are shown by patterns besides colours. */
static void put_patterns(struct flmem_buf *out)
{
	flmem_buf_puts(
		out,
		"<svg class=\"patterns\" aria-hidden=\"true\"><defs>"
		"<pattern id=\"across\" width=\"24\" height=\"24\" patternUnits=\"userSpaceOnUse\">"
		"<rect class=\"of-file\" width=\"24\" height=\"24\"/><path d=\"M0 24L24 0M-6 6L6 "
		"-6M18 30L30 18\"/></pattern>"
		"<pattern id=\"lines\" width=\"24\" height=\"24\" patternUnits=\"userSpaceOnUse\">"
		"<rect class=\"of-shmem\" width=\"24\" height=\"24\"/><path d=\"M0 "
		"12H24\"/></pattern>"
		"<pattern id=\"bars\" width=\"24\" height=\"24\" patternUnits=\"userSpaceOnUse\">"
		"<rect class=\"of-swap\" width=\"24\" height=\"24\"/><path d=\"M12 "
		"0V24\"/></pattern></defs></svg>\n");
}

static void put_title(struct flmem_buf *out, const struct flmem_watch_page *page,
		      const struct flmem_watch_summary *summary)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	flmem_buf_printf(out, "<header><h1>Memory of %s</h1><p>",
			 flmem_text_counted(summary->count, "process", count, sizeof(count)));
	if (page->samples) {
		flmem_markup_time(out, page->first_at_us);
		flmem_buf_puts(out, " to ");
		flmem_markup_time(out, page->last_at_us);
		flmem_buf_puts(out, " (");
		flmem_page_put_span_us(out, page->elapsed_us);
		flmem_buf_puts(out, "), ");
	}
	flmem_buf_printf(out, "%s, ",
			 flmem_text_counted(page->samples, "sample", count, sizeof(count)));
	flmem_buf_printf(out, "%s</p></header>\n",
			 flmem_text_counted(summary->rounds, "round", count, sizeof(count)));
}

static void put_page_limit(struct flmem_buf *out, const struct flmem_watch_result *r)
{
	flmem_buf_puts(out, "<dt>limit</dt><dd>");
	if (r->limit_bytes.unknown) {
		flmem_buf_puts(out, "unknown: ");
		flmem_markup_text(out, r->limit_bytes.unknown);
	} else {
		flmem_page_put_bytes(out, r->limit_bytes);
		flmem_buf_printf(out, " of its %s, ",
				 r->limit_is_cgroup ? "control group" : "host");
		flmem_page_put_bytes(out, r->headroom_bytes);
		flmem_buf_puts(out, " of it left");
	}
	flmem_buf_puts(out, "</dd>");
}

static void put_refresh_interval(struct flmem_buf *out, const struct flmem_trend *t)
{
	bool by_round = t->basis == FLMEM_TREND_BY_ROUND;

	if (t->low_bytes.unknown)
		return;
	flmem_buf_puts(out, "<dt>growth</dt><dd>");
	flmem_page_put_growth(out, by_round ? t->growth_per_round_bytes : t->growth_per_hour_bytes);
	flmem_buf_printf(out, " per %s (95 %%: ", by_round ? "round" : "hour");
	flmem_page_put_growth(out, t->low_bytes);
	flmem_buf_puts(out, " to ");
	flmem_page_put_growth(out, t->high_bytes);
	flmem_buf_puts(out, ")</dd>");
}

static void put_facts(struct flmem_buf *out, const struct flmem_watch_result *r)
{
	flmem_buf_puts(out, "<dl><dt>trend</dt><dd>");
	flmem_page_put_verdict(out, &r->trend);
	if (r->trend.verdict != FLMEM_TREND_TOO_EARLY)
		flmem_buf_printf(out, ", confidence %.3g %%", r->trend.confidence * 100);
	flmem_buf_puts(out, ": ");
	flmem_markup_text(out, r->trend.reason);
	flmem_buf_puts(out, "</dd>");
	put_refresh_interval(out, &r->trend);
	flmem_buf_puts(out, "<dt>resident</dt><dd>");
	flmem_page_put_bytes(out, r->first_bytes);
	flmem_buf_puts(out, " at first, ");
	flmem_page_put_bytes(out, r->last_bytes);
	flmem_buf_puts(out, " at last, peak ");
	flmem_page_put_bytes(out, r->peak_bytes);
	flmem_buf_puts(out, "</dd>");
	put_page_limit(out, r);
	flmem_buf_puts(out, "<dt>limit reached</dt><dd>");
	if (r->forecast.exhausted_in_s.unknown)
		flmem_markup_text(out, r->forecast.exhausted_in_s.unknown);
	else
		flmem_page_put_forecast(out, r);
	flmem_buf_puts(out, "</dd></dl>\n");
}

/* Writes a line that the reader can open: commands of trainers have hundreds of characters. */
static void put_command(struct flmem_buf *out, const char *command)
{
	flmem_buf_puts(out, "<details class=\"command\"><summary><code class=\"one\"><bdi>");
	flmem_markup_text(out, command);
	flmem_buf_puts(out, "</bdi></code></summary><code><bdi>");
	flmem_markup_text(out, command);
	flmem_buf_puts(out, "</bdi></code></details>\n");
}

static void put_page_process(struct flmem_buf *out, const struct flmem_page_subject *subject)
{
	const struct flmem_watch_result *r = subject->result;

	flmem_buf_printf(out, "<section><h2>Process %d ", (int)r->process.pid);
	flmem_page_put_who(out, &r->process);
	flmem_buf_puts(out, "</h2>");
	put_command(out, r->process.command);
	put_facts(out, r);
	flmem_page_put_memory(out, subject);
	flmem_page_put_rounds(out, subject);
	flmem_page_put_kinds(out, subject);
	flmem_buf_puts(out, "</section>\n");
}

/* Orders processes: exceeded limits first, then climbing memory, then size. */
static int compare_importance(const void *a, const void *b)
{
	const struct flmem_watch_result *x = *(const struct flmem_watch_result *const *)a;
	const struct flmem_watch_result *y = *(const struct flmem_watch_result *const *)b;
	bool climbs_x = x->trend.verdict == FLMEM_TREND_CLIMBING;
	bool climbs_y = y->trend.verdict == FLMEM_TREND_CLIMBING;

	if (!x->findings[0] != !y->findings[0])
		return x->findings[0] ? -1 : 1;
	if (climbs_x != climbs_y)
		return climbs_x ? -1 : 1;
	return (x->peak_bytes.value < y->peak_bytes.value) -
	       (x->peak_bytes.value > y->peak_bytes.value);
}

static void put_processes(struct flmem_buf *out, const struct flmem_watch_page *page,
			  const struct flmem_watch_result **sorted, size_t count)
{
	size_t shown = count < FIGURES_MAX ? count : FIGURES_MAX;
	char counted[FLMEM_TEXT_COUNTED_MAX];

	for (size_t i = 0; i < shown; i++)
		put_page_process(out, &(struct flmem_page_subject){
					      .number = i,
					      .result = sorted[i],
					      .series = flmem_page_find(page, &sorted[i]->process),
					      .page = page,
				      });
	if (count > shown)
		flmem_buf_printf(out,
				 "<p>Figures are drawn for %s: those that exceeded a limit, those "
				 "whose memory climbs, the largest.</p>\n",
				 flmem_text_counted(shown, "process", counted, sizeof(counted)));
}

static void put_footer(struct flmem_buf *out, const struct flmem_watch_summary *summary)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	flmem_buf_puts(out, "<footer>");
	if (flmem_u64_or(summary->missed, 0))
		flmem_buf_printf(
			out, "<p>%s passed without samples: the host was busy or suspended.</p>",
			flmem_text_counted(summary->missed.value, "interval", count,
					   sizeof(count)));
	if (summary->record_skipped_bytes)
		flmem_buf_printf(out, "<p>Of the recording, %s %s %s and skipped.</p>",
				 flmem_text_counted(summary->record_skipped_bytes, "byte", count,
						    sizeof(count)),
				 summary->record_skipped_bytes == 1 ? "is" : "are",
				 summary->record_skipped_why);
	if (summary->record_overlaps)
		flmem_buf_printf(
			out,
			"<p>The recording has %s that %s before the end of the one before, and is "
			"shown after it; the trend of a process counts from there.</p>",
			flmem_text_counted(summary->record_overlaps, "watch", count, sizeof(count)),
			summary->record_overlaps == 1 ? "begins" : "begin");
	flmem_buf_printf(out,
			 "<p>Times count from the start of the watch. Resident memory that does "
			 "not fall is not a leak; memory that is higher after each round is. "
			 "Generated by flmem %s.</p></footer>\n",
			 flmem_version());
}

void flmem_page_put(struct flmem_buf *out, const struct flmem_watch_page *page,
		    const struct flmem_watch_summary *summary,
		    const struct flmem_watch_advice *advice)
{
	FLMEM_AUTO_FREE const struct flmem_watch_result **sorted =
		calloc(summary->count ? summary->count : 1, sizeof(*sorted));

	if (!sorted) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < summary->count; i++)
		sorted[i] = &summary->results[i];
	qsort(sorted, summary->count, sizeof(*sorted), compare_importance);
	flmem_page_shell_open(
		out, &(struct flmem_page_shell){.title = "flmem watch", .style = flmem_page_style});
	put_patterns(out);
	put_title(out, page, summary);
	flmem_page_put_all(out, page, sorted, summary->count);
	flmem_page_put_findings(out, summary, advice);
	flmem_page_put_overview(out, page, summary);
	flmem_page_put_actions(out, page, summary);
	flmem_page_put_profiles(out, page, summary);
	put_processes(out, page, sorted, summary->count);
	put_footer(out, summary);
	flmem_page_shell_close(out);
}
