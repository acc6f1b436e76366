/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/metrics.h>

#include <inttypes.h>
#include <string.h>

#include <flmem/text.h>
#include <flmem/version.h>

#include "base/text/buf.h"

/* Maximum length of a label value; longer ones are cut. */
#define LABEL_MAX   128
#define COMMAND_MAX 256

struct metrics_page {
	struct flmem_buf text;
	enum flmem_exposition exposition;
	const struct flmem_watch_snapshot_data *state;
};

/*
 * A metric and the source of its values: `put` adds the lines of one process, or, with a result of
 * NULL, those of the watch.
 */
struct metric_row {
	struct flmem_metric shown;
	void (*put)(struct metrics_page *page, const struct metric_row *row,
		    const struct flmem_watch_result *r);
	size_t offset;	   /* offset of the number in the result or the state */
	unsigned decimals; /* decimal places of the number */
};

static bool is_open(const struct metrics_page *page)
{
	return page->exposition == FLMEM_EXPOSITION_OPENMETRICS;
}

/* Returns the suffix of a metric's name, which is the same in both formats. */
const char *flmem_metric_suffix(const struct flmem_metric *metric)
{
	if (strcmp(metric->type, "counter") == 0)
		return "_total";
	return strcmp(metric->type, "info") == 0 ? "_info" : "";
}

/* Label values are untrusted: make them printable first, then escape them for the format. */
static void put_label(struct metrics_page *page, const char *name, const char *value)
{
	char shown[COMMAND_MAX];
	struct flmem_buf *b = &page->text;

	if (!value || !*value)
		return;
	if (b->length && b->data[b->length - 1] != '{')
		flmem_buf_putc(b, ',');
	flmem_buf_printf(b, "%s=\"", name);
	flmem_text_escape(value, shown, strcmp(name, "command") == 0 ? COMMAND_MAX : LABEL_MAX);
	for (const char *p = shown; *p; p++) {
		if (*p == '\\' || *p == '"')
			flmem_buf_putc(b, '\\');
		flmem_buf_putc(b, *p);
	}
	flmem_buf_putc(b, '"');
}

static void begin_line(struct metrics_page *page, const struct metric_row *row,
		       const struct flmem_watch_result *r)
{
	char pid[16];

	flmem_buf_printf(&page->text, "%s%s{", row->shown.name, flmem_metric_suffix(&row->shown));
	if (!r)
		return;
	snprintf(pid, sizeof(pid), "%d", (int)r->process.pid);
	put_label(page, "pid", pid);
	put_label(page, "role", flmem_role_name(r->process.role));
	put_label(page, "site", r->process.site);
	put_label(page, "framework", flmem_framework_name(r->process.framework));
}

static void end_metric_line(struct metrics_page *page, const struct metric_row *row, uint64_t value,
			    bool negative)
{
	struct flmem_buf *b = &page->text;
	uint64_t one = 1;

	for (unsigned i = 0; i < row->decimals; i++)
		one *= 10;
	if (b->length && b->data[b->length - 1] == '{')
		b->data[--b->length] = '\0';
	else
		flmem_buf_putc(b, '}');
	flmem_buf_printf(b, " %s%" PRIu64, negative ? "-" : "", value / one);
	if (row->decimals)
		flmem_buf_printf(b, ".%0*" PRIu64, (int)row->decimals, value % one);
	flmem_buf_putc(b, '\n');
}

static const void *field_address(const struct metrics_page *page, const struct metric_row *row,
				 const struct flmem_watch_result *r)
{
	return (r ? (const char *)r : (const char *)page->state) + row->offset;
}

static void put_plain_lines(struct metrics_page *page, const struct metric_row *row,
			    const struct flmem_watch_result *r)
{
	const uint64_t *value = field_address(page, row, r);

	begin_line(page, row, r);
	end_metric_line(page, row, *value, false);
}

static void put_u64_lines(struct metrics_page *page, const struct metric_row *row,
			  const struct flmem_watch_result *r)
{
	const struct flmem_u64 *value = field_address(page, row, r);

	if (value->unknown)
		return;
	begin_line(page, row, r);
	end_metric_line(page, row, value->value, false);
}

static void put_i64(struct metrics_page *page, const struct metric_row *row, struct flmem_i64 value)
{
	bool negative = value.value < 0;

	end_metric_line(page, row, negative ? -(uint64_t)value.value : (uint64_t)value.value,
			negative);
}

static void put_i64_lines(struct metrics_page *page, const struct metric_row *row,
			  const struct flmem_watch_result *r)
{
	const struct flmem_i64 *value = field_address(page, row, r);

	if (value->unknown)
		return;
	begin_line(page, row, r);
	put_i64(page, row, *value);
}

static void put_interval_lines(struct metrics_page *page, const struct metric_row *row,
			       const struct flmem_watch_result *r)
{
	const struct flmem_i64 *value = field_address(page, row, r);

	if (value->unknown)
		return;
	begin_line(page, row, r);
	put_label(page, "per", r->trend.basis == FLMEM_TREND_BY_ROUND ? "round" : "hour");
	put_i64(page, row, *value);
}

static void put_limit_lines(struct metrics_page *page, const struct metric_row *row,
			    const struct flmem_watch_result *r)
{
	const struct flmem_u64 *value = field_address(page, row, r);

	if (value->unknown)
		return;
	begin_line(page, row, r);
	put_label(page, "of", r->limit_is_cgroup ? "cgroup" : "host");
	end_metric_line(page, row, value->value, false);
}

static void put_confidence_lines(struct metrics_page *page, const struct metric_row *row,
				 const struct flmem_watch_result *r)
{
	begin_line(page, row, r);
	end_metric_line(page, row, (uint64_t)(r->trend.confidence * 1000 + 0.5), false);
}

static void put_verdict_lines(struct metrics_page *page, const struct metric_row *row,
			      const struct flmem_watch_result *r)
{
#define STATE(name, text) FLMEM_TREND_##name,
	static const enum flmem_trend_verdict states[] = {FLMEM_TREND_VERDICTS(STATE)};
#undef STATE

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(states); i++) {
		begin_line(page, row, r);
		put_label(page, row->shown.name, flmem_trend_verdict_name(states[i]));
		end_metric_line(page, row, r->trend.verdict == states[i], false);
	}
}

static void put_actions_lines(struct metrics_page *page, const struct metric_row *row,
			      const struct flmem_watch_result *r)
{
	for (unsigned i = 0; i < FLMEM_WATCH_ACTION_KINDS; i++) {
		begin_line(page, row, r);
		put_label(page, "action", flmem_watch_action_name((enum flmem_watch_action_kind)i));
		end_metric_line(page, row, r->actions.count[i], false);
	}
}

/* Writes one of several values of a metric, distinguished by a label. */
static void put_part_lines(struct metrics_page *page, const struct metric_row *row,
			   const struct flmem_watch_result *r, const char *part,
			   struct flmem_u64 value)
{
	if (value.unknown)
		return;
	begin_line(page, row, r);
	put_label(page, row->shown.labels, part);
	end_metric_line(page, row, value.value, false);
}

static void put_events_lines(struct metrics_page *page, const struct metric_row *row,
			     const struct flmem_watch_result *r)
{
	put_part_lines(page, row, r, "high", r->pressure.high);
	put_part_lines(page, row, r, "max", r->pressure.max);
	put_part_lines(page, row, r, "oom", r->pressure.oom);
	put_part_lines(page, row, r, "oom_kill", r->pressure.oom_kill);
}

static void put_stalls_lines(struct metrics_page *page, const struct metric_row *row,
			     const struct flmem_watch_result *r)
{
	put_part_lines(page, row, r, "some", r->pressure.some_avg10_hundredths);
	put_part_lines(page, row, r, "full", r->pressure.full_avg10_hundredths);
}

static void put_process_lines(struct metrics_page *page, const struct metric_row *row,
			      const struct flmem_watch_result *r)
{
	char start[24];

	snprintf(start, sizeof(start), "%" PRIu64, r->process.start_time);
	begin_line(page, row, r);
	put_label(page, "start_time_ticks", start);
	put_label(page, "command", r->process.command);
	end_metric_line(page, row, 1, false);
}

static void put_build_lines(struct metrics_page *page, const struct metric_row *row,
			    const struct flmem_watch_result *r)
{
	begin_line(page, row, r);
	put_label(page, "version", flmem_version());
	end_metric_line(page, row, 1, false);
}

#define OF_PROCESS(field) .offset = offsetof(struct flmem_watch_result, field)
#define OF_WATCH(field)	  .offset = offsetof(struct flmem_watch_snapshot_data, field)
#define GAUGE(n, u, h, ...)                                                   \
	{                                                                     \
		.name = n, .type = "gauge", .unit = u, .help = h, __VA_ARGS__ \
	}
#define COUNTER(n, u, h, ...)                                                   \
	{                                                                       \
		.name = n, .type = "counter", .unit = u, .help = h, __VA_ARGS__ \
	}
#define INFO(n, h, ...)                                           \
	{                                                         \
		.name = n, .type = "info", .help = h, __VA_ARGS__ \
	}
#define STATESET(n, h, ...)                                           \
	{                                                             \
		.name = n, .type = "stateset", .help = h, __VA_ARGS__ \
	}

static const struct metric_row metrics_rows[] = {
	{INFO("flmem_process", "A watched process and its redacted command line.",
	      .per_process = true, .labels = "start_time_ticks command"),
	 .put = put_process_lines},
	{GAUGE("flmem_memory_resident_bytes", "bytes", "Resident memory at the last sample.",
	       .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(last_bytes)},
	{GAUGE("flmem_memory_resident_peak_bytes", "bytes",
	       "Highest resident memory since the watch began.", .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(peak_bytes)},
	{GAUGE("flmem_memory_anon_bytes", "bytes",
	       "Anonymous resident memory: heaps and stacks; read less often.",
	       .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(split.anon_bytes)},
	{GAUGE("flmem_memory_file_bytes", "bytes",
	       "Resident pages of mapped files; read less often.", .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(split.file_bytes)},
	{GAUGE("flmem_memory_shmem_bytes", "bytes",
	       "Resident shared memory and tmpfs; read less often.", .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(split.shmem_bytes)},
	{GAUGE("flmem_memory_swap_bytes", "bytes", "Memory swapped out; read less often.",
	       .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(split.swap_bytes)},
	{GAUGE("flmem_memory_limit_bytes", "bytes",
	       "The lower of the limits of the control group and of the host.", .per_process = true,
	       .labels = "of"),
	 .put = put_limit_lines, OF_PROCESS(limit_bytes)},
	{GAUGE("flmem_memory_headroom_bytes", "bytes", "Memory left below that limit.",
	       .per_process = true, .labels = "of"),
	 .put = put_limit_lines, OF_PROCESS(headroom_bytes)},
	{STATESET("flmem_memory_trend", "The verdict on the process's memory.", .per_process = true,
		  .labels = "flmem_memory_trend"),
	 .put = put_verdict_lines},
	{GAUGE("flmem_memory_trend_confidence_ratio", "ratio",
	       "Confidence of the verdict, 0 to 1; 0 while there are too few samples.",
	       .per_process = true),
	 .put = put_confidence_lines, .decimals = 3},
	{GAUGE("flmem_memory_growth_per_hour_bytes", "bytes",
	       "Growth of memory per hour, at comparable points; negative if it falls.",
	       .per_process = true),
	 .put = put_i64_lines, OF_PROCESS(trend.growth_per_hour_bytes)},
	{GAUGE("flmem_memory_growth_per_round_bytes", "bytes",
	       "Growth of memory per round, at the ends of rounds; negative if it falls.",
	       .per_process = true),
	 .put = put_i64_lines, OF_PROCESS(trend.growth_per_round_bytes)},
	{GAUGE("flmem_memory_growth_low_bytes", "bytes",
	       "Lower end of the 95 % interval of the growth, per round or per hour.",
	       .per_process = true, .labels = "per"),
	 .put = put_interval_lines, OF_PROCESS(trend.low_bytes)},
	{GAUGE("flmem_memory_growth_high_bytes", "bytes",
	       "Upper end of the 95 % interval of the growth, per round or per hour.",
	       .per_process = true, .labels = "per"),
	 .put = put_interval_lines, OF_PROCESS(trend.high_bytes)},
	{GAUGE("flmem_memory_exhausted_in_seconds", "seconds",
	       "Time until the limit is reached at this growth; only while memory climbs.",
	       .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(forecast.exhausted_in_s)},
	{GAUGE("flmem_memory_exhausted_earliest_seconds", "seconds",
	       "The same at the upper end of the growth interval.", .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(forecast.exhausted_earliest_s)},
	{GAUGE("flmem_memory_exhausted_in_rounds", NULL,
	       "Rounds until the limit is reached at this growth; only while memory climbs.",
	       .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(forecast.exhausted_in_rounds)},
	{GAUGE("flmem_gpu_memory_bytes", "bytes",
	       "Memory in use by the process, on all GPUs together.", .per_process = true),
	 .put = put_u64_lines, OF_PROCESS(gpu_bytes)},
	{COUNTER("flmem_cgroup_memory_events", NULL,
		 "Counters of memory.events of the control group.", .per_process = true,
		 .labels = "event"),
	 .put = put_events_lines},
	{GAUGE("flmem_memory_stalled_ratio", "ratio",
	       "Share of the last 10 s in which tasks of the control group, or else of the host, "
	       "waited for memory.",
	       .per_process = true, .labels = "tasks"),
	 .put = put_stalls_lines, .decimals = 4},
	{COUNTER("flmem_actions", NULL, "Decisions and actions of --auto.", .per_process = true,
		 .labels = "action"),
	 .put = put_actions_lines},
	{COUNTER("flmem_released_bytes", "bytes", "Fall of RSS over automatic trims.",
		 .per_process = true),
	 .put = put_plain_lines, OF_PROCESS(actions.released_bytes)},
	{COUNTER("flmem_trim_stopped_seconds", "seconds",
		 "Time for which automatic trims borrowed a thread.", .per_process = true),
	 .put = put_plain_lines, OF_PROCESS(actions.stopped_us), .decimals = 6},
	{COUNTER("flmem_rounds", NULL, "Complete rounds of the process.", .per_process = true),
	 .put = put_plain_lines, OF_PROCESS(rounds)},
	{COUNTER("flmem_samples", NULL, "Samples taken of the process.", .per_process = true),
	 .put = put_plain_lines, OF_PROCESS(samples)},
	{GAUGE("flmem_processes", NULL, "Processes watched now."), .put = put_plain_lines,
	 OF_WATCH(alive)},
	{GAUGE("flmem_round", NULL, "Number of the current round."), .put = put_u64_lines,
	 OF_WATCH(round)},
	{GAUGE("flmem_last_sample_timestamp_seconds", "seconds",
	       "Time of the latest samples, since 1970-01-01 UTC."),
	 .put = put_plain_lines, OF_WATCH(at_us), .decimals = 6},
	{COUNTER("flmem_intervals_missed", NULL,
		 "Intervals without samples, because the host was too busy or suspended."),
	 .put = put_u64_lines, OF_WATCH(summary.missed)},
	{COUNTER("flmem_recording_blocks_lost", NULL,
		 "Blocks of the recording that could not be written."),
	 .put = put_plain_lines, OF_WATCH(summary.record_lost)},
	{INFO("flmem_build", "Version of flmem.", .labels = "version"), .put = put_build_lines},
	{COUNTER("process_cpu_seconds", "seconds", "CPU time used by flmem itself."),
	 .put = put_plain_lines, OF_WATCH(self_cpu_us), .decimals = 6},
	{GAUGE("process_resident_memory_bytes", "bytes", "Resident memory of flmem itself."),
	 .put = put_u64_lines, OF_WATCH(self_rss_bytes)},
	{GAUGE("process_start_time_seconds", "seconds",
	       "Start of this watch, since 1970-01-01 UTC."),
	 .put = put_plain_lines, OF_WATCH(self_began_at_us), .decimals = 6},
};

const struct flmem_metric *flmem_metric(size_t index)
{
	return index < FLMEM_ARRAY_SIZE(metrics_rows) ? &metrics_rows[index].shown : NULL;
}

/*
 * Writes the head of a metric. The older format has sample names here, no units, and fewer types.
 */
static void put_head(struct metrics_page *page, const struct metric_row *row)
{
	const struct flmem_metric *m = &row->shown;
	const char *suffix = is_open(page) ? "" : flmem_metric_suffix(m), *type = m->type;

	if (!is_open(page) && strcmp(type, "counter") != 0)
		type = "gauge";
	flmem_buf_printf(&page->text, "# HELP %s%s %s\n", m->name, suffix, m->help);
	flmem_buf_printf(&page->text, "# TYPE %s%s %s\n", m->name, suffix, type);
	if (is_open(page) && m->unit)
		flmem_buf_printf(&page->text, "# UNIT %s %s\n", m->name, m->unit);
}

char *flmem_report_watch_metrics(const struct flmem_watch_snapshot_data *state,
				 enum flmem_exposition exposition)
{
	struct metrics_page page = {
		.text = FLMEM_BUF_INIT, .exposition = exposition, .state = state};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(metrics_rows); i++) {
		put_head(&page, &metrics_rows[i]);
		if (!metrics_rows[i].shown.per_process)
			metrics_rows[i].put(&page, &metrics_rows[i], NULL);
		for (size_t k = 0; metrics_rows[i].shown.per_process && k < state->summary.count;
		     k++)
			metrics_rows[i].put(&page, &metrics_rows[i], &state->summary.results[k]);
	}
	if (is_open(&page))
		flmem_buf_puts(&page.text, "# EOF\n");
	return flmem_buf_take(&page.text);
}
