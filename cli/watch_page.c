/* SPDX-License-Identifier: Apache-2.0 */
/* A watch as a page: --report. */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/text.h>
#include <flmem/watch_page.h>

#include "watch_output.h"

#define PATH_SHOWN 256

struct report {
	const char *path;
	struct flmem_watch_page *page;
};

static bool take_sample(void *state, const struct flmem_watch_sample *sample)
{
	const struct report *report = state;

	flmem_watch_page_sample(report->page, sample);
	return true;
}

static bool take_round(void *state, const struct flmem_watch_round *round)
{
	const struct report *report = state;

	flmem_watch_page_round(report->page, round);
	return true;
}

static bool take_action(void *state, const struct flmem_watch_action *action)
{
	const struct report *report = state;

	flmem_watch_page_action(report->page, action);
	return true;
}

static int finish(void *state, const struct flmem_watch_summary *summary, struct flmem_error *err)
{
	const struct report *report = state;

	return flmem_watch_page_write(report->page, summary, report->path, err);
}

static void close_report(void *state)
{
	struct report *report = state;

	flmem_watch_page_free(report->page);
	free(report);
}

/* A watch of days must not end in a page that has no place. */
static int check_place(const char *path, struct flmem_error *err)
{
	char shown[PATH_SHOWN], *copy = strdup(path);
	int error = copy ? 0 : ENOMEM;

	if (copy && access(dirname(copy), W_OK | X_OK) < 0)
		error = errno;
	free(copy);
	if (!error)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, error,
			       "--report: cannot write to the directory of '%s'",
			       flmem_text_escape(path, shown, sizeof(shown)));
}

int watch_output_page(const char *path, struct watch_output *ret_output, struct flmem_error *err)
{
	int rc = check_place(path, err);
	struct report *report;

	if (rc)
		return rc;
	report = calloc(1, sizeof(*report));
	if (!report)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory");
	report->path = path;
	rc = flmem_watch_page_new(&report->page, err);
	if (rc) {
		free(report);
		return rc;
	}
	*ret_output = (struct watch_output){
		.state = report,
		.sample = take_sample,
		.round = take_round,
		.action = take_action,
		.finish = finish,
		.close = close_report,
	};
	return 0;
}
