/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_PAGE_H
#define FLMEM_REPORT_HTML_PAGE_H

/* The parts of the HTML page of a watch. Each appends to `out`. */

#include <flmem/heap_profile.h>
#include <flmem/watch_page.h>

#include "base/text/buf.h"
#include "report/html/page_series.h"

#define FLMEM_PAGE_ACTIONS 256U
#define FLMEM_PAGE_REASON  256U

/* A decision of the policy. */
struct flmem_page_action {
	pid_t pid;
	uint64_t start_time;
	enum flmem_watch_action_kind kind;
	uint64_t elapsed_us;
	struct flmem_u64 round, rss_after_bytes, released_bytes;
	char reason[FLMEM_PAGE_REASON]; /* untrusted */
};

struct flmem_watch_page {
	struct flmem_page_series *series;
	size_t count, room;
	size_t last; /* index of the series that received the latest sample */
	uint64_t samples;
	uint64_t first_at_us, last_at_us; /* since 1970-01-01 UTC */
	uint64_t elapsed_us;
	struct flmem_page_action *actions; /* ring of the latest actions; NULL: none yet */
	uint64_t action_count;
	const struct flmem_watch_page_profile *profiles; /* owned by the caller */
	size_t profile_count;
	bool failed; /* memory was out */
};

/* Input for the part of one process. */
struct flmem_page_subject {
	size_t number; /* number of the process in the page, for ids */
	const struct flmem_watch_result *result;
	const struct flmem_page_series *series;
	const struct flmem_watch_page *page;
};

/* Finds the data of a process; NULL: there are none. */
const struct flmem_page_series *flmem_page_find(const struct flmem_watch_page *page,
						const struct flmem_watch_process *process);

/* Appends the memory of all processes in one figure; `sorted` by importance. */
void flmem_page_put_all(struct flmem_buf *out, const struct flmem_watch_page *page,
			const struct flmem_watch_result *const *sorted, size_t count);

/* Appends the whole page. */
void flmem_page_put(struct flmem_buf *out, const struct flmem_watch_page *page,
		    const struct flmem_watch_summary *summary,
		    const struct flmem_watch_advice *advice);

extern const char flmem_page_style[]; /* CSS besides that of report/html/page_shell.h */

/* Appends exceeded limits, and findings of the rules of `flmem recommend`. */
void flmem_page_put_findings(struct flmem_buf *out, const struct flmem_watch_summary *summary,
			     const struct flmem_watch_advice *advice);

/* Appends a table of all processes, each with a small curve. */
void flmem_page_put_overview(struct flmem_buf *out, const struct flmem_watch_page *page,
			     const struct flmem_watch_summary *summary);

/* Appends resident memory over time, with rounds, trend, forecast and limit. */
void flmem_page_put_memory(struct flmem_buf *out, const struct flmem_page_subject *subject);

/* Appends peak and trough by round, and the table of rounds. */
void flmem_page_put_rounds(struct flmem_buf *out, const struct flmem_page_subject *subject);

/* Appends the actions of the policy, newest last. */
void flmem_page_put_actions(struct flmem_buf *out, const struct flmem_watch_page *page,
			    const struct flmem_watch_summary *summary);

/* Appends the largest sites of the heap profiles that were given. */
void flmem_page_put_profiles(struct flmem_buf *out, const struct flmem_watch_page *page,
			     const struct flmem_watch_summary *summary);

/* Returns the i-th kept action, NULL after the last. */
const struct flmem_page_action *flmem_page_action_at(const struct flmem_watch_page *page, size_t i);

/* Appends the kinds of memory over time. */
void flmem_page_put_kinds(struct flmem_buf *out, const struct flmem_page_subject *subject);

/* Returns the style of the dots of rounds: small if there are many. */
const char *flmem_page_dots(const struct flmem_page_series *series);

/* The following functions append texts that several parts share. */
void flmem_page_put_bytes(struct flmem_buf *out, struct flmem_u64 bytes);
/*
 * Appends "512 KiB on average, later one per 1 MiB because the file filled, at times one per 8
 * MiB".
 */
void flmem_page_put_interval(struct flmem_buf *out, const struct flmem_heap_profile *profile);
void flmem_page_put_growth(struct flmem_buf *out, struct flmem_i64 bytes);
void flmem_page_put_span_us(struct flmem_buf *out, uint64_t us);
void flmem_page_put_forecast(struct flmem_buf *out, const struct flmem_watch_result *result);
void flmem_page_put_verdict(struct flmem_buf *out, const struct flmem_trend *trend);
void flmem_page_put_who(struct flmem_buf *out, const struct flmem_watch_process *process);

#endif
