/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/watch_page.h>

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "report/html/page.h"

/*
 * Largest number of spans of all processes together, 32 bytes each, and smallest number per
 * process.
 */
#define SPANS_OF_ALL  65536U
#define SPANS_OF_EACH 64U

#define HEAD_BYTES 1024U
#define PATH_SHOWN 256

int flmem_watch_page_new(struct flmem_watch_page **ret_page, struct flmem_error *err)
{
	struct flmem_watch_page *page = calloc(1, sizeof(*page));

	if (!page)
		return flmem_error_nomem(err, "cannot allocate the page");
	*ret_page = page;
	return 0;
}

void flmem_watch_page_free(struct flmem_watch_page *page)
{
	if (!page)
		return;
	for (size_t i = 0; i < page->count; i++)
		flmem_page_series_clear(&page->series[i]);
	free(page->series);
	free(page->actions);
	free(page);
}

static bool is_of(const struct flmem_page_series *series, const struct flmem_watch_process *process)
{
	return series->pid == process->pid && series->start_time == process->start_time;
}

/*
 * Finds the series of a process. Samples arrive in the same order at each tick, so the next series
 * is tried first.
 */
static struct flmem_page_series *find_series(const struct flmem_watch_page *page,
					     const struct flmem_watch_process *process)
{
	for (size_t i = 0; i < page->count; i++) {
		size_t at = (page->last + 1 + i) % page->count;

		if (is_of(&page->series[at], process))
			return &page->series[at];
	}
	return NULL;
}

static struct flmem_page_series *add_series(struct flmem_watch_page *page,
					    const struct flmem_watch_process *process)
{
	size_t room = page->room ? page->room * 2 : 16;
	struct flmem_page_series *grown = page->series;

	if (page->count == page->room) {
		grown = reallocarray(page->series, room, sizeof(*grown));
		if (!grown)
			return NULL;
		page->series = grown;
		page->room = room;
	}
	page->series[page->count] = (struct flmem_page_series){
		.pid = process->pid,
		.start_time = process->start_time,
	};
	return &page->series[page->count++];
}

static struct flmem_page_series *find_or_add_series(struct flmem_watch_page *page,
						    const struct flmem_watch_process *process)
{
	struct flmem_page_series *series = find_series(page, process);

	if (!series)
		series = add_series(page, process);
	if (series)
		page->last = (size_t)(series - page->series);
	else
		page->failed = true;
	return series;
}

const struct flmem_page_series *flmem_page_find(const struct flmem_watch_page *page,
						const struct flmem_watch_process *process)
{
	return find_series(page, process);
}

static size_t spans_of_each(const struct flmem_watch_page *page)
{
	size_t most = SPANS_OF_ALL / page->count;

	if (most > FLMEM_PAGE_SPANS)
		return FLMEM_PAGE_SPANS;
	return most < SPANS_OF_EACH ? SPANS_OF_EACH : most;
}

void flmem_watch_page_sample(struct flmem_watch_page *page, const struct flmem_watch_sample *sample)
{
	struct flmem_page_series *series = find_or_add_series(page, sample->process);

	if (!series)
		return;
	if (!page->samples++)
		page->first_at_us = sample->at_us;
	page->last_at_us = sample->at_us;
	if (sample->elapsed_us > page->elapsed_us)
		page->elapsed_us = sample->elapsed_us;
	if (!flmem_page_series_sample(series, sample->elapsed_us, sample->rss_bytes,
				      spans_of_each(page)) ||
	    (sample->split && !flmem_page_series_split(series, sample->elapsed_us, sample->split)))
		page->failed = true;
}

void flmem_watch_page_round(struct flmem_watch_page *page, const struct flmem_watch_round *round)
{
	struct flmem_page_series *series = find_or_add_series(page, round->process);

	if (series && !flmem_page_series_round(series, round))
		page->failed = true;
}

void flmem_watch_page_profiles(struct flmem_watch_page *page,
			       const struct flmem_watch_page_profile *profiles, size_t count)
{
	page->profiles = profiles;
	page->profile_count = count;
}

char *flmem_watch_page_html(const struct flmem_watch_page *page,
			    const struct flmem_watch_summary *summary,
			    const struct flmem_watch_advice *advice)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	if (page->failed)
		return NULL;
	flmem_page_put(&out, page, summary, advice);
	return flmem_buf_take(&out);
}

/* True if the file begins like the output of page.c. */
static bool is_page(const char *path)
{
	static const char generator[] = "<meta name=\"generator\" content=\"flmem ";
	struct stat status;
	FLMEM_AUTO_CLOSE int fd = flmem_file_place_open_regular(AT_FDCWD, path, O_RDONLY, &status);
	char head[HEAD_BYTES];
	ssize_t got = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);

	return got > 0 && memmem(head, (size_t)got, generator, sizeof(generator) - 1);
}

static int check_page_folder(const char *path, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *copy = strdup(path);
	char shown[PATH_SHOWN];

	if (copy && access(dirname(copy), W_OK | X_OK) == 0)
		return 0;
	return flmem_error_set(err, flmem_code_of_open(errno), errno,
			       "cannot write to the directory of '%s'",
			       flmem_text_escape(path, shown, sizeof(shown)));
}

int flmem_watch_page_place(const char *path, struct flmem_error *err)
{
	char shown[PATH_SHOWN];
	struct stat status;
	int rc = check_page_folder(path, err);

	if (rc || stat(path, &status) < 0)
		return rc;
	if (S_ISREG(status.st_mode) && (!status.st_size || is_page(path)))
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' exists and is not a page of flmem; give another file",
			       flmem_text_escape(path, shown, sizeof(shown)));
}

int flmem_watch_page_write(const struct flmem_watch_page *page,
			   const struct flmem_watch_summary *summary,
			   const struct flmem_watch_advice *advice, const char *path,
			   struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *html = NULL;
	int rc = flmem_watch_page_place(path, err);

	if (rc)
		return rc;
	html = flmem_watch_page_html(page, summary, advice);
	if (!html)
		return flmem_error_nomem(err, "cannot write '%s'", path);
	return flmem_io_write_file(path, html, strlen(html), 0644, true, err);
}
