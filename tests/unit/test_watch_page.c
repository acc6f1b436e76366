/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the page of a watch: it is whole, bounded, and harmless whatever names it contains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <flmem/watch_page.h>

#include "base/cleanup.h"
#include "report/html/page_series.h"

#include "profile_maker.h"

#define MIB ((uint64_t)1 << 20)

static const char hostile[] =
	"</title><script>alert(1)</script>\"'&<img src=x onerror=alert(1)>\033[2J\n\xff";

static bool take_sample(void *context, const struct flmem_watch_sample *sample)
{
	flmem_watch_page_sample(context, sample);
	return true;
}

static bool take_round(void *context, const struct flmem_watch_round *round)
{
	flmem_watch_page_round(context, round);
	return true;
}

/* Returns the page of a recording of a real process. */
static char *page_of(const char *name)
{
	const struct flmem_watch_options options = {.stop_fd = -1};
	struct flmem_watch_callbacks callbacks = {.sample = take_sample, .round = take_round};
	const struct flmem_watch_advice none = {0};
	struct flmem_watch_summary summary;
	struct flmem_watch_page *page;
	char path[512], *html;

	assert_int_equal(flmem_watch_page_new(&page, NULL), 0);
	callbacks.context = page;
	snprintf(path, sizeof(path), RECORDINGS "/%s", name);
	assert_int_equal(flmem_watch_replay(path, &options, &callbacks, &summary, NULL), 0);
	html = flmem_watch_page_html(page, &summary, &none);
	flmem_watch_summary_clear(&summary);
	flmem_watch_page_free(page);
	assert_non_null(html);
	return html;
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		count++;
	return count;
}

static void a_leak_is_drawn_with_its_trend_and_rounds(void **state)
{
	FLMEM_AUTO_FREE char *html = page_of("leak20-glibc-1.rec");

	(void)state;
	assert_non_null(strstr(html, "Resident memory over time"));
	assert_non_null(strstr(html, "Resident memory by round"));
	assert_non_null(strstr(html, "<path class=\"trend\""));
	assert_non_null(strstr(html, "<path class=\"now\"")); /* the forecast is right of it */
	assert_non_null(strstr(html, "climbing"));
	/* One row of the process, 20 of rounds. */
	assert_int_equal(count_of(html, "<tr><th scope=\"row\">"), 1 + 20);
	assert_int_equal(count_of(html, "<figure>"), count_of(html, "</figure>"));
	assert_int_equal(count_of(html, "<svg"), count_of(html, "</svg>"));
	assert_non_null(strstr(html, "</html>\n"));
}

static void the_picture_of_all_comes_first(void **state)
{
	FLMEM_AUTO_FREE char *html = page_of("leak20-glibc-1.rec");
	const char *all = strstr(html, "Memory of all processes over time"), *curve, *table;

	(void)state;
	assert_non_null(all);
	curve = strstr(all, "<path class=\"of c0\"");
	table = strstr(all, "<h2>Processes</h2>");
	assert_non_null(curve);
	assert_non_null(table);
	assert_null(memmem(html, (size_t)(all - html), "<h2>", 4));
	assert_non_null(memmem(all, (size_t)(table - all), "<path class=\"rounds\"", 20));
	assert_true(curve < table);
}

static void a_flat_one_has_no_forecast(void **state)
{
	FLMEM_AUTO_FREE char *html = page_of("saw-glibc-1.rec");

	(void)state;
	assert_non_null(strstr(html, "flat"));
	assert_null(strstr(html, "<path class=\"now\""));
}

/* A made-up watch of one process. */
struct stage {
	struct flmem_watch_page *page;
	struct flmem_watch_process process;
	struct flmem_watch_result result;
	struct flmem_watch_summary summary;
	struct flmem_watch_advice advice;
};

static void set(struct stage *s, const char *command)
{
	static const char why[] = "nobody looked";

	*s = (struct stage){.process = {.pid = 42, .start_time = 7, .command = strdup(command)}};
	s->result = (struct flmem_watch_result){
		.process = s->process,
		.trend = {.reason = "<it>",
			  .low_bytes = {.unknown = why},
			  .high_bytes = {.unknown = why}},
		.forecast = {FLMEM_UNKNOWN(why), FLMEM_UNKNOWN(why), FLMEM_UNKNOWN(why)},
		.limit_bytes = FLMEM_UNKNOWN(why),
		.headroom_bytes = FLMEM_UNKNOWN(why),
	};
	s->summary = (struct flmem_watch_summary){.results = &s->result, .count = 1};
	assert_int_equal(flmem_watch_page_new(&s->page, NULL), 0);
}

static void strike(struct stage *s)
{
	flmem_watch_page_free(s->page);
	free(s->process.command);
	free(s->process.site);
}

static void sample(struct stage *s, uint64_t at_us, uint64_t bytes)
{
	const struct flmem_watch_split split = {
		.anon_bytes = FLMEM_KNOWN(bytes / 2),
		.file_bytes = FLMEM_KNOWN(bytes / 2),
		.shmem_bytes = FLMEM_UNKNOWN("an old kernel"),
		.swap_bytes = FLMEM_KNOWN(0),
	};

	flmem_watch_page_sample(s->page, &(struct flmem_watch_sample){
						 .process = &s->process,
						 .at_us = at_us,
						 .elapsed_us = at_us,
						 .rss_bytes = bytes,
						 .round = FLMEM_UNKNOWN("none"),
						 .split = &split,
					 });
}

static void names_stay_text(void **state)
{
	FLMEM_AUTO_FREE char *html = NULL;
	struct stage s;

	(void)state;
	set(&s, hostile);
	s.process.site = s.result.process.site = strdup("\"><iframe src=//x>");
	s.result.findings[0] = "<b>";
	s.summary.limit_passed = true;
	for (uint64_t i = 0; i < 10; i++)
		sample(&s, i * 1000000, (i + 1) * MIB);
	html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_non_null(html);
	assert_null(strstr(html, "<script"));
	assert_null(strstr(html, "<img"));
	assert_null(strstr(html, "<iframe"));
	assert_null(strstr(html, "<it>"));
	assert_null(strstr(html, "<b>"));
	assert_null(strchr(html, '\033'));
	assert_null(strstr(html, "://"));
	/* The name is in the table, folded, and in full. */
	assert_int_equal(count_of(html, "&#60;script&#62;alert(1)"), 3);
	assert_int_equal(count_of(html, "\\x1b[2J\\x0a\\xff"), 3);
	strike(&s);
}

static const struct flmem_rule rule = {.id = "A-RULE", .source = "<source>"};

static struct flmem_finding finding_of(char *text)
{
	return (struct flmem_finding){
		.rule = &rule,
		.severity = FLMEM_SEVERITY_ERROR,
		.message = text,
		.file = text,
		.path = text,
		.current = text,
		.proposed = text,
	};
}

/* From the environment of a process the page has only the values that a finding shows. */
static void findings_are_listed_by_process_and_stay_text(void **state)
{
	FLMEM_AUTO_FREE char *html = NULL;
	char text[sizeof(hostile)];
	struct flmem_finding findings[2];
	struct flmem_input_problem problem = {.file = text, .message = text};
	struct flmem_watch_span span = {.first = 1, .count = 1};
	struct stage s;

	(void)state;
	memcpy(text, hostile, sizeof(hostile));
	findings[0] = findings[1] = finding_of(text);
	set(&s, "job");
	s.advice.rules = FLMEM_WATCH_RULES_LIVE;
	s.advice.found = (struct flmem_recommendations){
		.findings = findings, .finding_count = 2, .problems = &problem, .problem_count = 1};
	s.advice.spans = &span;
	s.result.ended = true;
	html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_non_null(html);
	assert_null(strstr(html, "<script"));
	assert_null(strstr(html, "<img"));
	assert_null(strstr(html, "<source>"));
	assert_null(strchr(html, '\033'));
	/*
	 * The texts are message, path, current and proposed of one finding; file and message of the
	 * problem.
	 */
	assert_int_equal(count_of(html, "&#60;script&#62;alert(1)"), 4 + 2);
	assert_int_equal(count_of(html, "A-RULE"), 1);
	assert_int_equal(count_of(html, "<h3>Process 42 "), 1);
	assert_non_null(strstr(html, "except for 1 exited process"));
	strike(&s);
}

static void no_findings_are_said_to_be_none(void **state)
{
	FLMEM_AUTO_FREE char *unasked = NULL, *none = NULL;
	struct stage s;

	(void)state;
	set(&s, "job");
	unasked = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	s.advice.rules = FLMEM_WATCH_RULES_TRENDS;
	none = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_null(strstr(unasked, "Findings"));
	assert_non_null(strstr(none, "<h2>Findings</h2>\n<p>None.</p>"));
	assert_non_null(strstr(none, "which a recording does not contain"));
	strike(&s);
}

/* Neither time nor rounds without end make the page larger than a screen can show. */
static void it_is_bounded(void **state)
{
	FLMEM_AUTO_FREE char *html = NULL;
	struct flmem_watch_round round = {.peak_bytes = FLMEM_KNOWN(9 * MIB)};
	struct stage s;

	(void)state;
	set(&s, "job");
	round.process = &s.process;
	round.trough_bytes = FLMEM_KNOWN(2 * MIB);
	for (uint64_t i = 0; i < 100000; i++)
		sample(&s, i * 1000000, (i % 7 + 1) * MIB);
	for (uint64_t i = 0; i < 5000; i++) {
		round.number = i + 1;
		round.started_us = i * 20000000;
		round.elapsed_us = round.started_us + 19000000;
		round.growth_bytes.value = i == 4000 ? INT64_MAX : 1;
		flmem_watch_page_round(s.page, &round);
	}
	html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_non_null(html);
	assert_in_range(strlen(html), 10000, 150000);
	assert_in_range(count_of(html, "<tr><th scope=\"row\">"), 100, 257);
	assert_non_null(strstr(html, "–5000</th>"));
	strike(&s);
}

/* Several rounds share a row with the highest peak, the lowest trough and all of the growth. */
static void joined_rounds_keep_their_extremes(void **state)
{
	struct flmem_page_series s = {0};

	(void)state;
	for (uint64_t i = 0; i <= FLMEM_PAGE_ROUNDS; i++) {
		const struct flmem_watch_round round = {
			.number = i,
			.peak_bytes = FLMEM_KNOWN((i == 1 ? 9 : 7) * MIB),
			.trough_bytes = FLMEM_KNOWN((i == 3 ? 1 : 2) * MIB),
			.growth_bytes = {.value = 5},
		};

		assert_true(flmem_page_series_round(&s, &round));
	}
	assert_int_equal(s.round_count, FLMEM_PAGE_ROUNDS / 2 + 1);
	assert_int_equal(s.rounds[1].first, 2);
	assert_int_equal(s.rounds[1].last, 3);
	assert_true(s.rounds[0].peak_bytes.value == 9 * MIB);
	assert_true(s.rounds[1].peak_bytes.value == 7 * MIB);
	assert_true(s.rounds[0].trough_bytes.value == 2 * MIB);
	assert_true(s.rounds[1].trough_bytes.value == MIB);
	assert_true(s.rounds[1].growth_bytes.value == 10);
	flmem_page_series_clear(&s);
}

static void kinds_that_are_unknown_are_not_drawn_as_none(void **state)
{
	const struct flmem_u64 ended = FLMEM_UNKNOWN("the process has ended");
	struct flmem_page_series s = {0};

	(void)state;
	assert_true(flmem_page_series_split(
		&s, 1,
		&(struct flmem_watch_split){FLMEM_KNOWN(MIB), FLMEM_KNOWN(0), ended, ended}));
	assert_true(flmem_page_series_split(
		&s, 2, &(struct flmem_watch_split){ended, ended, ended, ended}));
	assert_int_equal(s.split_count, 1);
	flmem_page_series_clear(&s);
}

static void act(struct stage *s, enum flmem_watch_action_kind kind, uint64_t at_us)
{
	static const char none[] = "not tried";

	flmem_watch_page_action(s->page, &(struct flmem_watch_action){
						 .process = &s->process,
						 .kind = kind,
						 .elapsed_us = at_us,
						 .round = FLMEM_KNOWN(3),
						 .reason = "<its round> has ended",
						 .rss_after_bytes = kind == FLMEM_WATCH_TRIMMED
									    ? FLMEM_KNOWN(MIB)
									    : FLMEM_UNKNOWN(none),
						 .released_bytes = kind == FLMEM_WATCH_TRIMMED
									   ? FLMEM_KNOWN(3 * MIB)
									   : FLMEM_UNKNOWN(none),
					 });
}

static void actions_are_listed_and_trims_drawn(void **state)
{
	FLMEM_AUTO_FREE char *html = NULL, *long_one = NULL;
	struct stage s;

	(void)state;
	set(&s, "job");
	for (uint64_t i = 0; i < 10; i++)
		sample(&s, i * 1000000, (i + 1) * MIB);
	act(&s, FLMEM_WATCH_TRIMMED, 3000000);
	act(&s, FLMEM_WATCH_PAUSED, 4000000);
	s.result.actions =
		(struct flmem_watch_actions){.count[FLMEM_WATCH_TRIMMED] = 2, .every_rounds = 1};
	html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_non_null(html);
	assert_int_equal(count_of(html, "&#60;its round&#62; has ended"), 2);
	assert_int_equal(count_of(html, ">trimmed</th><td>3 MiB</td>"), 1);
	assert_int_equal(count_of(html, ">paused</th><td>–</td>"), 1);
	/* The trim is marked in the picture of all processes and in that of this one. */
	assert_int_equal(count_of(html, "<path class=\"dots trim\" d=\"M667 "), 2);
	assert_true(strstr(html, ">trimmed</th>") > strstr(html, "<summary>All actions (2)"));
	assert_non_null(strstr(html, "<tr><th scope=\"row\">42</th><td class=\"text\"></td>"
				     "<td>2</td>"));
	for (uint64_t i = 0; i < 1000; i++)
		act(&s, FLMEM_WATCH_REFUSED, 5000000 + i);
	long_one = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_non_null(strstr(long_one, "The last 256 of 1002."));
	assert_int_equal(count_of(long_one, ">refused</th>"), 256);
	strike(&s);
}

/* A limit that is near is a line, and the forecast reaches it; one far away is only text. */
static void a_near_limit_is_drawn(void **state)
{
	FLMEM_AUTO_FREE char *near_html = NULL, *far_html = NULL;
	struct stage s;

	(void)state;
	set(&s, "job");
	for (uint64_t i = 0; i < 48; i++)
		sample(&s, i * 1000000, (100 + i) * MIB);
	s.result.last_bytes = FLMEM_KNOWN(147 * MIB);
	s.result.limit_bytes = FLMEM_KNOWN(200 * MIB);
	s.result.headroom_bytes = FLMEM_KNOWN(20 * MIB);
	s.result.trend = (struct flmem_trend){
		.verdict = FLMEM_TREND_CLIMBING,
		.basis = FLMEM_TREND_BY_HOUR,
		.reason = "it does",
		.growth_per_hour_bytes.value = 3600 * (int64_t)MIB,
		.low_bytes.value = 3500 * (int64_t)MIB,
		.high_bytes.value = 3700 * (int64_t)MIB,
	};
	s.result.forecast.exhausted_in_s = FLMEM_KNOWN(20);
	near_html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_int_equal(count_of(near_html, "<path class=\"limit\""), 2); /* and in the legend */
	assert_int_equal(count_of(near_html, "<path class=\"band\""), 2);
	assert_non_null(strstr(near_html, "in 20 s"));
	s.result.headroom_bytes = FLMEM_KNOWN(20000 * MIB);
	far_html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_int_equal(count_of(far_html, "<path class=\"limit\""), 0);
	assert_non_null(strstr(far_html, "19.5 GiB of it left"));
	strike(&s);
}

/* Makes a profile whose names are hostile, and writes it to `path`. */
static struct flmem_heap_profile *hostile_profile(const char *path)
{
	const struct flmem_heap_request request = {.path = path, .choose_stacks = true};
	struct flmem_heap_profile *profile;
	struct profile_maker maker;
	uint32_t node = 0, frame;

	maker_init(&maker);
	maker.header->pid = 42;
	maker.header->start_time_ticks = 7;
	frame = maker_python(&maker, hostile, "f.py", 1);
	/* The stack is deeper than the page shows. */
	for (size_t depth = 0; depth < 100; depth++)
		node = maker_node(&maker, node, frame);
	maker_site(&maker, node, 9 * MIB, 2 * MIB);
	maker_write(&maker, path, maker.size);
	maker_clear(&maker);
	assert_int_equal(flmem_heap_profile_read(&request, &profile, NULL), 0);
	return profile;
}

static void heap_profiles_are_shown_by_process_and_stay_text(void **state)
{
	FLMEM_AUTO_FREE char *html = NULL, *other = NULL;
	char path[] = "/tmp/flmem-page.XXXXXX";
	int fd = mkstemp(path);
	struct flmem_heap_profile *profile = hostile_profile(path);
	const struct flmem_watch_page_profile rows[] = {
		{.path = path, .profile = profile},
		{.path = hostile, .reason = hostile},
	};
	struct stage s;

	(void)state;
	set(&s, "job");
	flmem_watch_page_profiles(s.page, rows, FLMEM_ARRAY_SIZE(rows));
	html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_non_null(html);
	assert_null(strstr(html, "<script"));
	assert_null(strstr(html, "<img"));
	assert_null(strchr(html, '\033'));
	assert_non_null(strstr(html, "<h2>Heap of process 42 </h2>"));
	assert_null(strstr(html, "does not belong to a process"));
	assert_non_null(strstr(html, "<tr><td>7 MiB</td>"));
	/* The texts are the site, 64 callers, path and reason. */
	assert_int_equal(count_of(html, "&#60;script&#62;alert(1)"), 1 + 64 + 2);
	assert_int_equal(count_of(html, "and more callers"), 1);
	assert_int_equal(count_of(html, "It could not be read"), 1);
	/* The PID alone does not identify the process: it may have been used again. */
	profile->start_time = 8;
	other = flmem_watch_page_html(s.page, &s.summary, &s.advice);
	assert_int_equal(count_of(other, "does not belong to a process"), 1);
	flmem_heap_profile_free(profile);
	close(fd);
	assert_int_equal(unlink(path), 0);
	strike(&s);
}

/* No low and no high is lost where spans become one. */
static void spans_keep_the_extremes(void **state)
{
	struct flmem_page_series s = {.pid = 1};
	uint64_t low = UINT64_MAX, high = 0, last = 0;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		assert_true(flmem_page_series_sample(
			&s, i * 1000, i == 1234 ? 5 : (i == 4321 ? 5000 : 1000), 64));
	assert_in_range(s.span_count, 32, 64);
	for (size_t i = 0; i < s.span_count; i++) {
		low = s.spans[i].low_bytes < low ? s.spans[i].low_bytes : low;
		high = s.spans[i].high_bytes > high ? s.spans[i].high_bytes : high;
		assert_true(i == 0 || s.spans[i].first_us > last);
		last = s.spans[i].last_us;
	}
	assert_int_equal(low, 5);
	assert_int_equal(high, 5000);
	assert_int_equal(last, 4999000);
	flmem_page_series_clear(&s);
}

/* One sample, or none, makes a page too; so do values that no axis was made for. */
static void little_and_absurd_data_make_a_page(void **state)
{
	static const uint64_t absurd[] = {0, 1, UINT64_MAX, 4096};
	struct stage s;

	(void)state;
	for (size_t samples = 0; samples <= FLMEM_ARRAY_SIZE(absurd); samples++) {
		FLMEM_AUTO_FREE char *html = NULL;

		set(&s, "job");
		for (size_t i = 0; i < samples; i++)
			sample(&s, i == 3 ? UINT64_MAX / 2 : i, absurd[i]);
		html = flmem_watch_page_html(s.page, &s.summary, &s.advice);
		assert_non_null(html);
		assert_null(strstr(html, "nan"));
		assert_null(strstr(html, "inf"));
		assert_true(strlen(html) < 100000);
		strike(&s);
	}
}

static void a_page_replaces_the_old_one_whole(void **state)
{
	char directory[] = "/tmp/flmem-page.XXXXXX", path[64];
	struct flmem_error err = {0};
	struct stat before, after;
	struct stage s;

	(void)state;
	set(&s, "job");
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/page.html", directory);
	assert_int_equal(flmem_watch_page_write(s.page, &s.summary, &s.advice, path, &err), 0);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(flmem_watch_page_write(s.page, &s.summary, &s.advice, path, &err), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_not_equal(before.st_ino, after.st_ino);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(directory), 0); /* the directory is empty */
	assert_true(flmem_watch_page_write(s.page, &s.summary, &s.advice, path, &err) < 0);
	strike(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leak_is_drawn_with_its_trend_and_rounds),
		cmocka_unit_test(the_picture_of_all_comes_first),
		cmocka_unit_test(a_flat_one_has_no_forecast),
		cmocka_unit_test(names_stay_text),
		cmocka_unit_test(findings_are_listed_by_process_and_stay_text),
		cmocka_unit_test(no_findings_are_said_to_be_none),
		cmocka_unit_test(it_is_bounded),
		cmocka_unit_test(joined_rounds_keep_their_extremes),
		cmocka_unit_test(kinds_that_are_unknown_are_not_drawn_as_none),
		cmocka_unit_test(a_near_limit_is_drawn),
		cmocka_unit_test(actions_are_listed_and_trims_drawn),
		cmocka_unit_test(heap_profiles_are_shown_by_process_and_stay_text),
		cmocka_unit_test(spans_keep_the_extremes),
		cmocka_unit_test(little_and_absurd_data_make_a_page),
		cmocka_unit_test(a_page_replaces_the_old_one_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
