/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/metrics.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "serve/listen.h"

#define NO_VALUE FLMEM_UNKNOWN("not now")

static struct flmem_watch_result result_of(char *command, char *site)
{
	struct flmem_watch_result r = {
		.process = {.pid = 42,
			    .start_time = 7,
			    .command = command,
			    .site = site,
			    .framework = FLMEM_FRAMEWORK_NVFLARE,
			    .role = FLMEM_ROLE_CLIENT_JOB},
		.samples = 12,
		.last_bytes = FLMEM_KNOWN(UINT64_MAX),
		.peak_bytes = NO_VALUE,
		.gpu_bytes = FLMEM_KNOWN(0),
		.limit_bytes = FLMEM_KNOWN(100),
		.headroom_bytes = NO_VALUE,
		.trend = {.verdict = FLMEM_TREND_FALLING,
			  .confidence = 0.9876,
			  .growth_per_hour_bytes = {.value = INT64_MIN},
			  .growth_per_round_bytes = {.unknown = "no rounds"},
			  .low_bytes = {.value = -5},
			  .high_bytes = {.value = 5},
			  .basis = FLMEM_TREND_BY_HOUR},
		.forecast = {NO_VALUE, NO_VALUE, NO_VALUE},
		.pressure = {.oom_kill = FLMEM_KNOWN(3), .some_avg10_hundredths = FLMEM_KNOWN(105)},
		.actions = {.released_bytes = 4096, .stopped_us = 1500},
	};

	r.actions.count[FLMEM_WATCH_TRIMMED] = 2;
	return r;
}

static char *text_of(struct flmem_watch_result *results, size_t count,
		     enum flmem_exposition exposition)
{
	const struct flmem_watch_snapshot_data state = {
		.summary = {.results = results, .count = count, .missed = FLMEM_KNOWN(4)},
		.round = NO_VALUE,
		.alive = count,
		.at_us = 1700000000123456,
		.self_cpu_us = 1000001,
		.self_rss_bytes = NO_VALUE,
	};
	char *text = flmem_report_watch_metrics(&state, exposition);

	assert_non_null(text);
	return text;
}

static void assert_line(const char *text, const char *line)
{
	char wanted[512];

	snprintf(wanted, sizeof(wanted), "\n%s\n", line);
	if (!strstr(text, wanted))
		fail_msg("no line '%s' in:\n%s", line, text);
}

static void values_are_written_exactly(void **state)
{
	char command[] = "python3 train.py", site[] = "site-1";
	struct flmem_watch_result r = result_of(command, site);
	FLMEM_AUTO_FREE char *text = text_of(&r, 1, FLMEM_EXPOSITION_OPENMETRICS);
#define OF "pid=\"42\",role=\"client-job\",site=\"site-1\",framework=\"nvflare\""

	(void)state;
	assert_line(text, "flmem_memory_resident_bytes{" OF "} 18446744073709551615");
	assert_line(text, "flmem_memory_growth_per_hour_bytes{" OF "} -9223372036854775808");
	assert_line(text, "flmem_memory_growth_low_bytes{" OF ",per=\"hour\"} -5");
	assert_line(text, "flmem_memory_trend_confidence_ratio{" OF "} 0.988");
	assert_line(text, "flmem_memory_trend{" OF ",flmem_memory_trend=\"falling\"} 1");
	assert_line(text, "flmem_memory_trend{" OF ",flmem_memory_trend=\"flat\"} 0");
	assert_line(text, "flmem_memory_limit_bytes{" OF ",of=\"host\"} 100");
	assert_line(text, "flmem_cgroup_memory_events_total{" OF ",event=\"oom_kill\"} 3");
	assert_line(text, "flmem_memory_stalled_ratio{" OF ",tasks=\"some\"} 0.0105");
	assert_line(text, "flmem_actions_total{" OF ",action=\"trimmed\"} 2");
	assert_line(text, "flmem_released_bytes_total{" OF "} 4096");
	assert_line(text, "flmem_trim_stopped_seconds_total{" OF "} 0.001500");
	assert_line(text, "flmem_last_sample_timestamp_seconds 1700000000.123456");
	assert_line(text, "process_cpu_seconds_total 1.000001");
	assert_line(text, "flmem_intervals_missed_total 4");
	/* A value that is not known is absent, and never 0. */
	assert_null(strstr(text, "\nflmem_memory_headroom_bytes{"));
	assert_null(strstr(text, "\nflmem_memory_exhausted_in_seconds{"));
	assert_null(strstr(text, "\nflmem_round "));
	assert_null(strstr(text, "\nprocess_resident_memory_bytes "));
}

static void labels_keep_what_is_hostile_inside(void **state)
{
	char command[] = "a\"} 1\nx{y=\"\\\033[31m\xff\xc3\xa9";
	char site[4096];
	struct flmem_watch_result r;
	FLMEM_AUTO_FREE char *text = NULL;

	(void)state;
	memset(site, 's', sizeof(site) - 1);
	site[sizeof(site) - 1] = '\0';
	r = result_of(command, site);
	text = text_of(&r, 1, FLMEM_EXPOSITION_TEXT);
	assert_non_null(strstr(text, "command=\"a\\\"} 1\\\\x0ax{y=\\\"\\\\\\\\x1b[31m"));
	assert_null(strstr(text, "\nx{"));
	assert_null(strchr(text, '\033'));
	assert_true(flmem_text_is_utf8(text));
	assert_null(strstr(text,
			   "sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"
			   "ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"));
}

static void unknown_labels_are_left_out(void **state)
{
	char command[] = "x";
	struct flmem_watch_result r = result_of(command, NULL);
	FLMEM_AUTO_FREE char *text = NULL;

	(void)state;
	r.process.role = FLMEM_ROLE_NONE;
	r.process.framework = FLMEM_FRAMEWORK_NONE;
	text = text_of(&r, 1, FLMEM_EXPOSITION_TEXT);
	assert_line(text, "flmem_samples_total{pid=\"42\"} 12");
}

/*
 * The conventions are those of OpenMetrics 1.0, "Metric Family" and "Units", and of Prometheus's
 * naming guide.
 */
static void names_follow_the_conventions(void **state)
{
	const struct flmem_metric *m;
	size_t count = 0;

	(void)state;
	for (; (m = flmem_metric(count)); count++) {
		assert_true(flmem_text_starts(m->name, "flmem_") ||
			    flmem_text_starts(m->name, "process_"));
		assert_int_equal(strspn(m->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(m->name));
		assert_false(flmem_text_ends(m->name, "_total") ||
			     flmem_text_ends(m->name, "_info"));
		assert_true(flmem_text_ends(m->help, ".") && !strpbrk(m->help, "\\\n"));
		if (m->unit)
			assert_true(flmem_text_ends(m->name, m->unit));
		else
			assert_false(flmem_text_ends(m->name, "_bytes") ||
				     flmem_text_ends(m->name, "_seconds"));
		for (size_t k = 0; k < count; k++)
			assert_string_not_equal(flmem_metric(k)->name, m->name);
	}
	assert_true(count > 20);
}

static void each_format_has_its_own_heads(void **state)
{
	FLMEM_AUTO_FREE char *open = text_of(NULL, 0, FLMEM_EXPOSITION_OPENMETRICS);
	FLMEM_AUTO_FREE char *text = text_of(NULL, 0, FLMEM_EXPOSITION_TEXT);

	(void)state;
	assert_line(open, "# TYPE flmem_samples counter");
	assert_line(open, "# UNIT process_cpu_seconds seconds");
	assert_line(open, "# TYPE flmem_memory_trend stateset");
	assert_line(open, "# TYPE flmem_build info");
	assert_true(flmem_text_ends(open, "\n# EOF\n"));
	assert_line(text, "# TYPE flmem_samples_total counter");
	assert_line(text, "# TYPE flmem_memory_trend gauge");
	assert_line(text, "# TYPE flmem_build_info gauge");
	assert_null(strstr(text, "# UNIT"));
	assert_null(strstr(text, "# EOF"));
}

static void addresses_are_read_strictly(void **state)
{
	static const char *const bad[] = {
		"",
		":",
		"9477",
		":9477",
		"127.0.0.1",
		"127.1:1",
		"[::1]",
		"[::1:1",
		"::1:1",
		"[]:1",
		"x:1",
		"127.0.0.1:",
		"127.0.0.1:+1",
		"127.0.0.1:1 ",
		"127.0.0.1:65536",
		"[127.0.0.1]:1",
		"0x7f.0.0.1:1",
	};
	struct flmem_listener listener;
	struct flmem_error err;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(bad); i++)
		assert_int_equal(flmem_listen(bad[i], &listener, &err), FLMEM_EUSAGE);
}

static void a_free_port_is_taken_and_named(void **state)
{
	static const struct {
		const char *address, *begins;
		bool local;
	} rows[] = {{"127.0.0.1:0", "127.0.0.1:", true},
		    {"127.200.0.1:0", "127.200.0.1:", true},
		    {"localhost:0", "127.0.0.1:", true},
		    {"0.0.0.0:0", "0.0.0.0:", false}};
	struct flmem_listener listener, second;
	struct flmem_error err;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		assert_int_equal(flmem_listen(rows[i].address, &listener, &err), 0);
		assert_int_equal(listener.local, rows[i].local);
		assert_true(flmem_text_starts(listener.name, rows[i].begins));
		assert_false(flmem_text_ends(listener.name, ":0"));
		assert_int_equal(flmem_listen(listener.name, &second, &err), FLMEM_EUSAGE);
		assert_non_null(strstr(err.message, "in use by another program"));
		close(listener.fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_written_exactly),
		cmocka_unit_test(labels_keep_what_is_hostile_inside),
		cmocka_unit_test(unknown_labels_are_left_out),
		cmocka_unit_test(names_follow_the_conventions),
		cmocka_unit_test(each_format_has_its_own_heads),
		cmocka_unit_test(addresses_are_read_strictly),
		cmocka_unit_test(a_free_port_is_taken_and_named),
	};

	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
