/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a watch as a page: --report. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/output_place.h>
#include <flmem/watch_page.h>

#include "watch/watch_output.h"
#include "watch/watch_profiles.h"

struct page_report {
	const char *path;
	const struct opt_texts *profiles;
	struct flmem_watch_page *page;
};

static bool on_page_sample(void *state, const struct flmem_watch_sample *sample)
{
	const struct page_report *report = state;

	flmem_watch_page_sample(report->page, sample);
	return true;
}

static bool on_round(void *state, const struct flmem_watch_round *round)
{
	const struct page_report *report = state;

	flmem_watch_page_round(report->page, round);
	return true;
}

static bool on_page_action(void *state, const struct flmem_watch_action *action)
{
	const struct page_report *report = state;

	flmem_watch_page_action(report->page, action);
	return true;
}

bool watch_page_is_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

static int print_page(const struct page_report *report, const struct flmem_watch_summary *summary,
		      const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	char *html = flmem_watch_page_html(report->page, summary, advice);
	int rc = 0;

	if (!html)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot write the page: out of memory");
	if (fputs(html, stdout) < 0 || fflush(stdout))
		rc = flmem_error_set(err, FLMEM_EFAILED, errno, "cannot write the page");
	free(html);
	return rc;
}

static int put_watch_page(const struct page_report *report,
			  const struct flmem_watch_summary *summary,
			  const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	if (watch_page_is_stdout(report->path))
		return print_page(report, summary, advice, err);
	return flmem_watch_page_write(report->page, summary, advice, report->path, err);
}

/*
 * Writes the page. Profiles are read now: those of running programs are of the same moment as the
 * last sample.
 */
static int finish_page(void *state, const struct flmem_watch_summary *summary,
		       const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	const struct page_report *report = state;
	struct watch_profiles profiles;
	int rc = watch_profiles_read(report->profiles, &profiles, err);

	if (rc)
		return rc;
	flmem_watch_page_profiles(report->page, profiles.rows, profiles.count);
	rc = put_watch_page(report, summary, advice, err);
	flmem_watch_page_profiles(report->page, NULL, 0);
	watch_profiles_clear(&profiles);
	return rc;
}

static void close_report(void *state)
{
	struct page_report *report = state;

	flmem_watch_page_free(report->page);
	free(report);
}

int watch_output_page(const char *path, const struct opt_texts *profiles,
		      struct watch_output *ret_output, struct flmem_error *err)
{
	const bool is_file = !watch_page_is_stdout(path);
	int rc = is_file ? flmem_output_place_check(path, err) : 0;
	struct page_report *report;

	/* The place is checked now: a watch of days must not end with an unwritable page. */
	if (!rc && is_file)
		rc = flmem_watch_page_place(path, err);
	if (rc)
		return flmem_error_prefix(err, rc, "--report");
	rc = watch_profiles_check(profiles, err);
	if (rc)
		return rc;
	report = calloc(1, sizeof(*report));
	if (!report)
		return flmem_error_nomem(err, "cannot prepare the page '%s'", path);
	report->path = path;
	report->profiles = profiles;
	rc = flmem_watch_page_new(&report->page, err);
	if (rc) {
		free(report);
		return rc;
	}
	*ret_output = (struct watch_output){
		.state = report,
		.sample = on_page_sample,
		.round = on_round,
		.action = on_page_action,
		.finish = finish_page,
		.close = close_report,
	};
	return 0;
}
