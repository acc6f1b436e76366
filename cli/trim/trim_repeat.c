/* SPDX-License-Identifier: Apache-2.0 */
#include "trim/trim_repeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <flmem/repeat.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "print/print_format.h"
#include "print/print_trim.h"
#include "signals.h"

#define COOL_DOWN_US_DEFAULT  60000000U /* microseconds; used with --when */
#define MAX_INEFFECTIVE_LIMIT 1000000U

bool repeat_wanted(const struct repeat_options *options)
{
	return options->every_us || options->when;
}

static int check_condition(const char *text, struct flmem_error *err)
{
	struct flmem_condition *condition = NULL;
	int rc = flmem_condition_parse(text, &condition, err);

	flmem_condition_free(condition);
	return rc;
}

int repeat_check(const struct repeat_options *options, bool dry_run, struct flmem_error *err)
{
	if (!repeat_wanted(options)) {
		if (options->cool_down_us || options->count || options->min_release_bytes ||
		    options->max_ineffective)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "--cool-down, --count, --min-release and "
					       "--max-ineffective need --every or --when");
		return 0;
	}
	if (dry_run)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--dry-run cannot be combined with --every or --when");
	if (options->max_ineffective > MAX_INEFFECTIVE_LIMIT)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--max-ineffective accepts at most %u",
				       MAX_INEFFECTIVE_LIMIT);
	return options->when ? check_condition(options->when, err) : 0;
}

static void print_repeat_time(uint64_t time_us, FILE *out)
{
	time_t seconds = (time_t)(time_us / 1000000U);
	char text[32];
	struct tm utc;

	if (gmtime_r(&seconds, &utc) && strftime(text, sizeof(text), "%FT%TZ", &utc))
		fputs(text, out);
}

static void print_repeat_trim(const struct flmem_trim_result *r, FILE *out)
{
	char text[RELEASE_MAX], device[FORMAT_MAX], stopped[FORMAT_MAX];

	fputs(format_release(r, text), out);
	if (r->device_bytes)
		fprintf(out, ", and %s of GPU memory", format_bytes(r->device_bytes, device));
	if (!r->stopped_us.unknown)
		fprintf(out, ", borrowed thread %d for %s", (int)r->thread,
			format_us(r->stopped_us.value, stopped));
}

static const char *event_sentence(enum flmem_repeat_event_kind kind)
{
	static const char *const texts[] = {
		[FLMEM_REPEAT_REFUSED] = "not trimmed now, will be tried again",
		[FLMEM_REPEAT_WAITING] = "waiting",
		[FLMEM_REPEAT_UNDECIDED] = "the condition cannot be decided",
		[FLMEM_REPEAT_DROPPED] = "not trimmed, no further attempts",
		[FLMEM_REPEAT_GIVEN_UP] = "no further trims",
		[FLMEM_REPEAT_DONE] = "done",
		[FLMEM_REPEAT_ENDED] = "ended",
	};

	return texts[kind];
}

/* Prints one line for each event at once, since it is the log of a process that runs for days. */
static void log_event(const struct flmem_repeat_event *event, void *data)
{
	char reason[ESCAPED_MESSAGE_MAX];

	(void)data;
	print_repeat_time(event->time_us, stderr);
	fprintf(stderr, " process %d: ", (int)event->pid);
	if (event->kind == FLMEM_REPEAT_TRIMMED)
		print_repeat_trim(event->result, stderr);
	else
		fputs(event_sentence(event->kind), stderr);
	if (event->reason)
		fprintf(stderr, ": %s", flmem_text_escape(event->reason, reason, sizeof(reason)));
	fputc('\n', stderr);
}

static void print_repeat_event(const struct flmem_repeat_event *event, void *data)
{
	char *text = flmem_report_repeat_event_json(event);

	(void)data;
	if (text)
		fputs(text, stdout);
	free(text);
	fflush(stdout);
}

int repeat_run(const struct cmd *cmd, const struct repeat_options *options, bool json,
	       const struct flmem_trim_options *trim, const struct flmem_targets *targets)
{
	struct flmem_condition *when = NULL;
	struct flmem_error err = {0};
	struct flmem_repeat_options how = {
		.trim = *trim,
		.every_us = options->every_us,
		.cool_down_us = options->cool_down_us,
		.count = options->count,
		.min_release_bytes = options->min_release_bytes,
		.max_ineffective = (unsigned)options->max_ineffective,
		.on_event = json ? print_repeat_event : log_event,
	};
	int rc = options->when ? flmem_condition_parse(options->when, &when, &err) : 0;

	if (rc)
		return cmd_fail(cmd, json, &err);
	how.when = when;
	if (when && !how.cool_down_us)
		how.cool_down_us = COOL_DOWN_US_DEFAULT;
	how.stop_fd = signals_catch_end();
	rc = flmem_repeat(targets->pids, targets->start_times, targets->count, &how, &err);
	if (how.stop_fd >= 0)
		close(how.stop_fd);
	flmem_condition_free(when);
	return rc ? cmd_fail(cmd, false, &err) : 0;
}
