/* SPDX-License-Identifier: Apache-2.0 */
/* Actions: collection and table. */
#include "report/html/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/html/markup.h"

void flmem_watch_page_action(struct flmem_watch_page *page, const struct flmem_watch_action *action)
{
	struct flmem_page_action *kept;

	if (!page->actions)
		page->actions = calloc(FLMEM_PAGE_ACTIONS, sizeof(*page->actions));
	if (!page->actions) {
		page->failed = true;
		return;
	}
	kept = &page->actions[page->action_count++ % FLMEM_PAGE_ACTIONS];
	*kept = (struct flmem_page_action){
		.pid = action->process->pid,
		.start_time = action->process->start_time,
		.kind = action->kind,
		.elapsed_us = action->elapsed_us,
		.round = action->round,
		.rss_after_bytes = action->rss_after_bytes,
		.released_bytes = action->released_bytes,
	};
	snprintf(kept->reason, sizeof(kept->reason), "%s", action->reason);
}

const struct flmem_page_action *flmem_page_action_at(const struct flmem_watch_page *page, size_t i)
{
	uint64_t first = page->action_count > FLMEM_PAGE_ACTIONS
				 ? page->action_count - FLMEM_PAGE_ACTIONS
				 : 0;

	if (i >= page->action_count - first)
		return NULL;
	return &page->actions[(first + i) % FLMEM_PAGE_ACTIONS];
}

static void put_action_row(struct flmem_buf *out, const struct flmem_page_action *action)
{
	flmem_buf_puts(out, "<tr><td>");
	flmem_page_put_span_us(out, action->elapsed_us);
	flmem_buf_printf(out, "</td><td>%d</td><td>", (int)action->pid);
	if (action->round.unknown)
		flmem_buf_puts(out, "–");
	else
		flmem_buf_printf(out, "%" PRIu64, action->round.value);
	flmem_buf_printf(out, "</td><th scope=\"row\" class=\"text\">%s</th><td>",
			 flmem_watch_action_name(action->kind));
	if (action->released_bytes.unknown)
		flmem_buf_puts(out, "–");
	else
		flmem_page_put_bytes(out, action->released_bytes);
	flmem_buf_puts(out, "</td><td class=\"text\"><bdi>");
	flmem_markup_text(out, action->reason);
	flmem_buf_puts(out, "</bdi></td></tr>\n");
}

static void put_sum(struct flmem_buf *out, const struct flmem_watch_result *r)
{
	const struct flmem_watch_actions *a = &r->actions;

	if (!a->every_rounds)
		return;
	flmem_buf_printf(out, "<tr><th scope=\"row\">%d</th><td class=\"text\">",
			 (int)r->process.pid);
	flmem_page_put_who(out, &r->process);
	flmem_buf_printf(out, "</td><td>%" PRIu64 "</td><td>", a->count[FLMEM_WATCH_TRIMMED]);
	flmem_page_put_bytes(out, FLMEM_KNOWN(a->released_bytes));
	flmem_buf_puts(out, "</td><td>");
	flmem_page_put_span_us(out, a->stopped_us);
	flmem_buf_printf(out, "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td></tr>\n",
			 a->count[FLMEM_WATCH_REFUSED], a->every_rounds);
}

static void put_sums(struct flmem_buf *out, const struct flmem_watch_summary *summary)
{
	flmem_buf_puts(out, "<div class=\"wide\"><table><thead><tr><th scope=\"col\">process</th>"
			    "<th scope=\"col\" class=\"text\">role</th>"
			    "<th scope=\"col\">trims</th><th scope=\"col\">RSS lowered by</th>"
			    "<th scope=\"col\">threads borrowed</th>"
			    "<th scope=\"col\">refusals</th><th scope=\"col\">every rounds</th>"
			    "</tr></thead><tbody>\n");
	for (size_t i = 0; i < summary->count; i++)
		put_sum(out, &summary->results[i]);
	flmem_buf_puts(out, "</tbody></table></div>");
}

static void put_list(struct flmem_buf *out, const struct flmem_watch_page *page)
{
	const struct flmem_page_action *action;

	flmem_buf_printf(out, "<details><summary>All actions (%" PRIu64 ")</summary>",
			 page->action_count);
	if (page->action_count > FLMEM_PAGE_ACTIONS)
		flmem_buf_printf(out, "<p>The last %u of %" PRIu64 ".</p>", FLMEM_PAGE_ACTIONS,
				 page->action_count);
	flmem_buf_puts(
		out,
		"<div class=\"wide\"><table><thead><tr><th scope=\"col\">at</th>"
		"<th scope=\"col\">process</th><th scope=\"col\">round</th>"
		"<th scope=\"col\" class=\"text\">action</th>"
		"<th scope=\"col\">RSS lowered by</th><th scope=\"col\" class=\"text\">reason</th>"
		"</tr></thead><tbody>\n");
	for (size_t i = 0; (action = flmem_page_action_at(page, i)); i++)
		put_action_row(out, action);
	flmem_buf_puts(out, "</tbody></table></div></details>");
}

void flmem_page_put_actions(struct flmem_buf *out, const struct flmem_watch_page *page,
			    const struct flmem_watch_summary *summary)
{
	if (!page->action_count)
		return;
	flmem_buf_puts(out, "<section><h2>Actions</h2>");
	put_sums(out, summary);
	put_list(out, page);
	flmem_buf_puts(out, "</section>\n");
}
