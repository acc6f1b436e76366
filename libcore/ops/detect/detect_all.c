/* SPDX-License-Identifier: Apache-2.0 */
/* Reads many processes. If one does not answer, the others are still reported. */
#include <flmem/detect.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attempt.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ops/detect/detect_session.h"
#include "ops/detect/verdict.h"
#include "settings/observed.h"

/* If many processes do not answer, each later one gets less time. */
#define PATIENCE_MS_MIN 200U

struct detect_run {
	struct flmem_detect_options options;
	uint64_t ends_us;
	struct flmem_detect_session
		*session; /* NULL: none yet, or abandoned with a process that did not answer */
	unsigned patience_ms;
};

/* The state of reading one process; abandoned if the process does not answer. */
struct detect_reading {
	struct flmem_detect_session *session;
	pid_t pid;
	bool last; /* owns the session */
	struct flmem_process_report report;
};

static int read_in_thread(void *context, struct flmem_error *err)
{
	struct detect_reading *reading = context;
	int rc = flmem_detect_session_read(reading->session, reading->pid, &reading->report, err);

	if (reading->last)
		flmem_detect_session_free(FLMEM_TAKE(reading->session));
	return rc;
}

static void free_reading(void *context)
{
	struct detect_reading *reading = context;

	flmem_process_report_clear(&reading->report);
	flmem_detect_session_free(reading->session);
	free(reading);
}

static int close_in_thread(void *context, struct flmem_error *err)
{
	(void)err;
	flmem_detect_session_free(context);
	return 0;
}

static void release_nothing(void *context)
{
	(void)context;
}

static void close_session(struct detect_run *run)
{
	const struct flmem_attempt attempt = {.run = close_in_thread, .release = release_nothing};
	bool lost;

	/* If no thread can be started, leak the session: closing it here could block forever. */
	if (run->session)
		(void)flmem_attempt_run(&attempt, run->session, &lost, NULL);
	run->session = NULL;
}

static void init_run(const struct flmem_detect_options *options, struct detect_run *run)
{
	*run = (struct detect_run){.patience_ms = FLMEM_ATTEMPT_PATIENCE_MS};
	if (options)
		run->options = *options;
	if (run->options.total_budget_us)
		run->ends_us = flmem_clock_us() + run->options.total_budget_us;
}

static struct detect_reading *new_reading(struct detect_run *run, pid_t pid, bool last,
					  struct flmem_error *err)
{
	struct detect_reading *reading;

	if (!run->session)
		run->session = flmem_detect_session_new(&run->options, run->ends_us, err);
	if (!run->session)
		return NULL;
	reading = calloc(1, sizeof(*reading));
	if (!reading) {
		flmem_error_nomem(err, "cannot store the report");
		return NULL;
	}
	reading->session = run->session;
	reading->pid = pid;
	reading->last = last;
	return reading;
}

static int detect_one(struct detect_run *run, pid_t pid, bool last,
		      struct flmem_process_report *ret_report, struct flmem_error *err)
{
	const struct flmem_attempt attempt = {
		.run = read_in_thread,
		.release = free_reading,
		.patience_ms = run->patience_ms,
		.subject = pid,
	};
	FLMEM_AUTO_FREE struct detect_reading *reading = new_reading(run, pid, last, err);
	bool lost = false;
	int rc;

	if (!reading)
		return FLMEM_EFAILED;
	rc = flmem_attempt_run(&attempt, reading, &lost, err);
	if (lost) {
		(void)FLMEM_TAKE(reading);
		run->session = NULL;
		if (run->patience_ms / 2 >= PATIENCE_MS_MIN)
			run->patience_ms /= 2;
		return flmem_error_prefix(err, rc, "process %d is not read", (int)pid);
	}
	run->session = reading->session;
	if (!rc)
		*ret_report = reading->report;
	return rc;
}

int flmem_detect_process(pid_t pid, const struct flmem_detect_options *options,
			 struct flmem_process_report *ret_report, struct flmem_error *err)
{
	FLMEM_AUTO(close_session) struct detect_run run;

	init_run(options, &run);
	return detect_one(&run, pid, true, ret_report, err);
}

void flmem_process_report_clear(struct flmem_process_report *report)
{
	for (size_t i = 0; i < report->allocator_count; i++) {
		free(report->allocators[i].version);
		free(report->allocators[i].path);
		free(report->allocators[i].prefix);
	}
	for (size_t i = 0; i < report->backing_count; i++)
		free(report->backings[i].name);
	free(report->backings);
	free(report->allocators);
	flmem_settings_free(report->settings, report->setting_count);
	free(report->command);
	free(report->trim_refused);
	free(report->sampled_into);
	free(report->site);
	free(report->python.version);
	flmem_verdict_clear(&report->verdict);
	*report = (struct flmem_process_report){0};
}

int flmem_detect(const pid_t *pids, size_t count, const struct flmem_detect_options *options,
		 struct flmem_detect_report *ret_report, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_detect_report_clear) struct flmem_detect_report report = {0};
	FLMEM_AUTO(close_session) struct detect_run run;

	init_run(options, &run);
	run.session = flmem_detect_session_new(&run.options, run.ends_us, err);
	if (!run.session)
		return err ? err->code : FLMEM_EFAILED;
	report.processes = calloc(count ? count : 1, sizeof(*report.processes));
	report.skipped = calloc(count ? count : 1, sizeof(*report.skipped));
	if (!report.processes || !report.skipped)
		return flmem_error_nomem(err, "cannot store the report");
	for (size_t i = 0; i < count; i++) {
		struct flmem_error why = {0};
		int rc = detect_one(&run, pids[i], i + 1 == count,
				    &report.processes[report.process_count], &why);

		if (!rc) {
			report.process_count++;
			continue;
		}
		if (why.sys_errno == ENOMEM)
			return flmem_error_nomem(err, "cannot store the report");
		report.skipped[report.skipped_count] =
			(struct flmem_skipped){.pid = pids[i], .code = rc};
		memcpy(report.skipped[report.skipped_count++].message, why.message,
		       sizeof(why.message));
	}
	*ret_report = report;
	report = (struct flmem_detect_report){0};
	return 0;
}

void flmem_detect_report_clear(struct flmem_detect_report *report)
{
	for (size_t i = 0; i < report->process_count; i++)
		flmem_process_report_clear(&report->processes[i]);
	free(report->processes);
	free(report->skipped);
	*report = (struct flmem_detect_report){0};
}
