/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_report.h>

#include <inttypes.h>
#include <string.h>

#include <flmem/text.h>
#include <flmem/version.h>
#include <flmem/watch_page.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "report/html/flame_page.h"
#include "report/html/markup.h"
#include "report/html/page.h"
#include "report/html/page_shell.h"

static void put_measure_totals(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		struct flmem_u64 bytes = flmem_heap_bytes(p, &p->totals, m);

		flmem_buf_printf(out, "%s%s ", m ? ", " : "", flmem_heap_measure_name(m));
		if (bytes.unknown)
			flmem_buf_puts(out, "&ndash;");
		else
			flmem_page_put_bytes(out, bytes);
	}
	if (p->by_round)
		flmem_buf_printf(out, " (rounds %" PRIu64 " to %" PRIu64 ")", p->first_round,
				 p->last_round);
}

static void put_damage(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	char cut[FLMEM_HEAP_CUT_TEXT_MAX];

	if (p->cut)
		flmem_buf_printf(out, "<p class=\"warning\">The file %s: %s.</p>\n",
				 flmem_heap_cut_name(p), flmem_heap_cut_text(p, cut, sizeof(cut)));
	if (p->skipped)
		flmem_buf_printf(out,
				 "<p class=\"warning\">The file is damaged; %" PRIu64
				 " records were left out.</p>\n",
				 p->skipped);
}

/* Reports lost samples; their bytes are those of both kinds of samples. */
static void put_lost_samples(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	uint64_t untaken =
		p->untaken_samples < p->lost_samples ? p->untaken_samples : p->lost_samples;
	uint64_t full = p->lost_samples - untaken;

	if (full)
		flmem_buf_printf(out,
				 "<p class=\"warning\">Samples that did not fit "
				 "in the file: %" PRIu64 ".</p>\n",
				 full);
	if (untaken)
		flmem_buf_printf(out,
				 "<p class=\"warning\">Samples that could not be taken: %" PRIu64
				 ".</p>\n",
				 untaken);
	if (p->lost_samples) {
		flmem_buf_puts(out, "<p class=\"warning\">These samples stand for ");
		flmem_page_put_bytes(out, FLMEM_KNOWN(p->lost_bytes));
		flmem_buf_puts(out, ".</p>\n");
	}
}

static void put_missing(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	if (p->began_late)
		flmem_buf_puts(out,
			       "<p class=\"warning\">The profile began after its process: what "
			       "was allocated before is not in it.</p>\n");
	put_lost_samples(out, p);
	if (p->unseen_calls)
		flmem_buf_printf(out,
				 "<p class=\"warning\">Calls of the allocator that bypassed the "
				 "sampler when attach ended: %" PRIu64 ".</p>\n",
				 p->unseen_calls);
}

static void put_warnings(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	if (p->no_python)
		flmem_buf_printf(out, "<p class=\"warning\">No Python frames: %s.</p>\n",
				 p->no_python);
	put_missing(out, p);
	if (p->full_stacks)
		flmem_buf_printf(out,
				 "<p class=\"warning\">Inner frames of %" PRIu64
				 " stacks did not fit in the file: what they allocated is "
				 "attributed to their callers.</p>\n",
				 p->full_stacks);
	if (p->lost_children) {
		flmem_buf_printf(out,
				 "<p class=\"warning\">Child processes that could not be "
				 "recorded: %" PRIu64 " (",
				 p->lost_children);
		flmem_markup_text(out, p->lost_children_reason);
		flmem_buf_puts(out, ").</p>\n");
	}
	put_damage(out, p);
}

static void put_interval_and_bytes(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	flmem_page_put_interval(out, p);
	flmem_buf_puts(out, "</dd><dt>Bytes</dt><dd>");
	put_measure_totals(out, p);
	flmem_buf_puts(out, "</dd></dl>\n");
}

static void put_process_facts(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	flmem_buf_puts(out, "<dl><dt>Command</dt><dd><code>");
	flmem_markup_text(out, p->command[0] ? p->command : p->program);
	flmem_buf_printf(out, "</code></dd><dt>Process</dt><dd>%" PRIu32 ", %s</dd>", p->pid,
			 flmem_heap_ending_name(p->ending));
	flmem_buf_puts(out, "<dt>Sampled</dt><dd>");
	flmem_markup_time(out, p->started_us);
	flmem_buf_puts(out, ", for ");
	flmem_page_put_span_us(out, p->duration_us);
	flmem_buf_printf(out, ", %" PRIu64 " samples, one per ", p->samples);
	put_interval_and_bytes(out, p);
}

/* A dump records nothing else about its process. */
static void put_dump_facts(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	flmem_buf_puts(out, "<dl><dt>Dump</dt><dd>written by ");
	flmem_markup_text(out, p->allocator);
	flmem_buf_puts(out, ", one sample per ");
	put_interval_and_bytes(out, p);
}

static void put_profile_facts(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	if (p->unrecorded)
		put_dump_facts(out, p);
	else
		put_process_facts(out, p);
	put_warnings(out, p);
}

static void put_profile_head(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	flmem_buf_puts(out, "<header><h1>Heap profile</h1>\n");
	for (size_t i = 0; i < page->count; i++) {
		if (page->count > 1) {
			flmem_buf_puts(out, i ? "<h2>Second: " : "<h2>First: ");
			flmem_markup_text(out, page->profiles[i]->path);
			flmem_buf_puts(out, "</h2>");
		}
		put_profile_facts(out, page->profiles[i]);
	}
	flmem_buf_puts(out, "</header>\n");
}

static void put_graph(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	flmem_buf_puts(
		out, "<section><h2>Flame graph</h2>\n"
		     "<noscript><p>The graph needs JavaScript; the tables do not.</p></noscript>\n"
		     "<div id=\"controls\" hidden><label>Measure <select id=\"measure\"></select>"
		     "</label><label><input type=\"checkbox\" id=\"inverted\"> Inverted: callees "
		     "first</label><label>Search <input type=\"search\" id=\"search\" "
		     "autocomplete=\"off\" spellcheck=\"false\"></label><button type=\"button\" "
		     "id=\"reset\">Reset zoom</button><span id=\"found\" role=\"status\"></span>"
		     "</div>\n"
		     "<div id=\"graph\" role=\"tree\" tabindex=\"0\" aria-label=\"Flame graph\">"
		     "</div>\n<div id=\"detail\" aria-live=\"polite\"></div>\n"
		     "<p><small>Click or <kbd>Enter</kbd> zooms, arrow keys move, <kbd>Esc</kbd> "
		     "resets, <kbd>/</kbd> searches. ");
	flmem_buf_puts(out, page->count > 1
				    ? "Orange: more in the second profile, blue: less; the width "
				      "is the larger of both."
				    : "Orange: Python, blue: native code. The width is the bytes "
				      "of the stack and of all that it calls.");
	flmem_buf_puts(out, "</small></p></section>\n");
}

static bool put_page(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	FLMEM_AUTO_BUF struct flmem_buf hash = FLMEM_BUF_INIT;

	flmem_flame_put_script_hash(&hash);
	flmem_page_shell_open(out, &(struct flmem_page_shell){.title = "flmem profile",
							      .style = flmem_page_style,
							      .more_style = flmem_flame_style,
							      .script_hash = hash.data});
	put_profile_head(out, page);
	put_graph(out, page);
	for (unsigned i = 0; i < page->count; i++)
		flmem_flame_put_timeline(out, page->profiles[i], i);
	if (!flmem_flame_put_functions(out, page))
		return false;
	flmem_buf_printf(out,
			 "<footer><p>Made by flmem %s. Bytes are estimates from samples.</p>"
			 "</footer>\n",
			 flmem_version());
	if (!flmem_flame_put_data(out, page))
		return false;
	flmem_flame_put_script(out);
	flmem_page_shell_close(out);
	return !hash.failed;
}

char *flmem_heap_page_html(const struct flmem_heap_profile *profile,
			   const struct flmem_heap_profile *second, enum flmem_heap_measure measure)
{
	const struct flmem_flame_page page = {
		.profiles = {profile, second},
		.count = second ? 2 : 1,
		.measure = measure,
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	return put_page(&out, &page) ? flmem_buf_take(&out) : NULL;
}

int flmem_heap_page_write(const struct flmem_heap_profile *profile,
			  const struct flmem_heap_profile *second, enum flmem_heap_measure measure,
			  const char *path, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *html = NULL;
	int rc = flmem_watch_page_place(path, err);

	if (rc)
		return rc;
	html = flmem_heap_page_html(profile, second, measure);
	if (!html)
		return flmem_error_nomem(err, "cannot write '%s'", path);
	return flmem_io_write_file(path, html, strlen(html), 0644, true, err);
}
