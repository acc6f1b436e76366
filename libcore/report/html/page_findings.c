/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: exceeded limits of the options, and the rules of `flmem recommend`. */
#include "report/html/page.h"

#include <inttypes.h>

#include <flmem/text.h>

#include "report/html/markup.h"

#define FINDINGS_MAX 500U
#define PROBLEMS_MAX 50U

/* List items of findings; the heading of a process is written before its first finding. */
struct findings_list {
	struct flmem_buf *out;
	const struct flmem_watch_process *process;
	size_t shown, left_out;
	bool open; /* the heading was written */
};

static void begin_item(struct findings_list *list, const char *class)
{
	if (!list->open) {
		flmem_buf_printf(list->out, "<h3>Process %d ", (int)list->process->pid);
		flmem_page_put_who(list->out, list->process);
		flmem_buf_puts(list->out, "</h3><ul>\n");
	}
	list->open = true;
	list->shown++;
	flmem_buf_printf(list->out, "<li><strong class=\"%s\">%s</strong> ", class, class);
}

static void put_page_change(struct flmem_buf *out, const struct flmem_finding *finding)
{
	char shown[FLMEM_TEXT_BYTES_MAX];

	flmem_buf_puts(out, " <code><bdi>");
	flmem_markup_text(out, finding->path);
	flmem_buf_puts(out, ": ");
	flmem_markup_text(out, flmem_finding_current(finding, shown));
	if (finding->proposed) {
		flmem_buf_puts(out, " → ");
		flmem_markup_text(out, finding->proposed);
	}
	flmem_buf_puts(out, "</bdi></code>");
}

static void put_page_finding(struct findings_list *list, const struct flmem_finding *finding)
{
	begin_item(list, flmem_severity_name(finding->severity));
	flmem_buf_puts(list->out, finding->rule->id);
	flmem_buf_puts(list->out, ": <bdi>");
	flmem_markup_text(list->out, finding->message);
	flmem_buf_puts(list->out, "</bdi>");
	put_page_change(list->out, finding);
	flmem_buf_puts(list->out, " <small>");
	flmem_markup_text(list->out, finding->rule->source);
	flmem_buf_puts(list->out, "</small></li>\n");
}

static void put_finding_limit(struct findings_list *list, const char *limit)
{
	begin_item(list, "limit");
	flmem_markup_text(list->out, limit);
	flmem_buf_puts(list->out, "</li>\n");
}

/* Writes the findings of one process. If no rules were checked, `found` and `span` are NULL. */
static void put_finding_process(struct findings_list *list, const struct flmem_watch_result *r,
				const struct flmem_finding *found,
				const struct flmem_watch_span *span)
{
	list->process = &r->process;
	list->open = false;
	for (size_t k = 0; k < sizeof(r->findings) / sizeof(r->findings[0]); k++)
		if (r->findings[k])
			put_finding_limit(list, r->findings[k]);
	for (size_t k = 0; span && k < span->count; k++) {
		if (list->shown < FINDINGS_MAX)
			put_page_finding(list, &found[span->first + k]);
		else
			list->left_out++;
	}
	if (list->open)
		flmem_buf_puts(list->out, "</ul>\n");
}

static void put_problems(struct flmem_buf *out, const struct flmem_recommendations *found)
{
	size_t shown = found->problem_count < PROBLEMS_MAX ? found->problem_count : PROBLEMS_MAX;

	if (!shown)
		return;
	flmem_buf_puts(out, "<h3>Not checked, or not completely</h3><ul>\n");
	for (size_t i = 0; i < shown; i++) {
		flmem_buf_puts(out, "<li><strong>");
		flmem_markup_text(out, found->problems[i].file);
		flmem_buf_puts(out, "</strong> <bdi>");
		flmem_markup_text(out, found->problems[i].message);
		flmem_buf_puts(out, "</bdi></li>\n");
	}
	flmem_buf_puts(out, "</ul>\n");
	if (found->problem_count > shown)
		flmem_buf_printf(out, "<p>And %zu more.</p>\n", found->problem_count - shown);
}

static uint64_t count_ended(const struct flmem_watch_summary *summary)
{
	uint64_t ended = 0;

	for (size_t i = 0; i < summary->count; i++)
		ended += summary->results[i].ended;
	return ended;
}

/* Names the set of rules that were checked: "none" is meaningful only with it. */
static void put_scope(struct flmem_buf *out, const struct flmem_watch_summary *summary, bool live)
{
	uint64_t ended = count_ended(summary);
	char count[FLMEM_TEXT_COUNTED_MAX];

	flmem_buf_puts(
		out, "<p><small>Checked with the rules of flmem recommend about memory over time");
	if (!live)
		flmem_buf_puts(
			out,
			"; rules about allocators, their settings and retained memory need live "
			"processes, which a recording does not contain (flmem recommend --pid)");
	else
		flmem_buf_puts(
			out,
			", and about allocators, their settings and retained memory at the end");
	if (live && ended)
		flmem_buf_printf(out, ", except for %s",
				 flmem_text_counted(ended, "exited process", count, sizeof(count)));
	flmem_buf_puts(out, ".</small></p>\n");
}

void flmem_page_put_findings(struct flmem_buf *out, const struct flmem_watch_summary *summary,
			     const struct flmem_watch_advice *advice)
{
	bool advised = advice->rules != FLMEM_WATCH_RULES_NONE;
	struct findings_list list = {.out = out};
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (!summary->limit_passed && !advised)
		return;
	flmem_buf_printf(out, "<section class=\"findings%s\"><h2>Findings</h2>\n",
			 summary->limit_passed ? " passed" : "");
	for (size_t i = 0; i < summary->count; i++)
		put_finding_process(&list, &summary->results[i], advice->found.findings,
				    advice->spans ? &advice->spans[i] : NULL);
	list.left_out += advice->found.left_out_count;
	if (list.left_out)
		flmem_buf_printf(
			out, "<p>And %s.</p>\n",
			flmem_text_counted(list.left_out, "more finding", count, sizeof(count)));
	if (!list.shown)
		flmem_buf_puts(out, "<p>None.</p>\n");
	put_problems(out, &advice->found);
	if (advised)
		put_scope(out, summary, advice->rules == FLMEM_WATCH_RULES_LIVE);
	flmem_buf_puts(out, "</section>\n");
}
