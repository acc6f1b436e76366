/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings, and the pages that are made of them. The first byte decides: half of the inputs are
 * put into a block with the right sum, which mutation alone would hardly find. What was read is
 * thinned, too, and must then be whole.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <flmem/watch.h>
#include <flmem/watch_page.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "file.h"
#include "fuzz.h"
#include "series/downsample.h"
#include "series/recording_format.h"

#define PATH_SIZE 32

struct reader {
	uint64_t count;
	struct flmem_watch_page *page;
};

static bool on_sample(void *context, const struct flmem_watch_sample *sample)
{
	struct reader *reader = context;

	if (!sample->process->command)
		abort();
	flmem_watch_page_sample(reader->page, sample);
	return ++reader->count < 100000;
}

static bool on_round(void *context, const struct flmem_watch_round *round)
{
	struct reader *reader = context;

	if (!round->process)
		abort();
	flmem_watch_page_round(reader->page, round);
	return ++reader->count < 100000;
}

static bool on_action(void *context, const struct flmem_watch_action *action)
{
	struct reader *reader = context;

	flmem_watch_page_action(reader->page, action);
	return ++reader->count < 100000;
}

/*
 * Checks that the page has neither invalid numbers nor markup of names; quotes of names are
 * escaped.
 */
static void check_page(const struct flmem_watch_page *page,
		       const struct flmem_watch_summary *summary)
{
	static const char *const never[] = {"=\"left:nan",  "=\"left:-nan", "=\"left:inf",
					    "=\"left:-inf", "=\"top:nan",   "=\"top:-nan",
					    "=\"top:inf",   "=\"top:-inf",  "<script"};
	const struct flmem_watch_advice none = {0};
	char *html = flmem_watch_page_html(page, summary, &none);

	if (!html)
		abort();
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (strstr(html, never[i]))
			abort();
	free(html);
}

static void check(const struct flmem_watch_summary *summary)
{
	for (size_t i = 0; i < summary->count; i++)
		if (summary->results[i].trend.confidence < 0 ||
		    summary->results[i].trend.confidence > 1)
			abort();
}

static void replay(const char *path)
{
	struct reader reader = {0};
	const struct flmem_watch_options options = {.stop_fd = -1, .fail_above_bytes = 1 << 20};
	const struct flmem_watch_callbacks callbacks = {
		.context = &reader,
		.sample = on_sample,
		.round = on_round,
		.action = on_action,
	};
	struct flmem_watch_summary summary = {0};

	if (flmem_watch_page_new(&reader.page, NULL))
		return;
	if (!flmem_watch_replay(path, &options, &callbacks, &summary, NULL)) {
		check(&summary);
		check_page(reader.page, &summary);
		flmem_watch_summary_clear(&summary);
	}
	flmem_watch_page_free(reader.page);
}

/* Returns a path, as recordings are opened by path. */
static const char *path_of(int fd, char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "/proc/self/fd/%d", fd);
	return path;
}

static void count_samples(struct flmem_recording *recording, uint64_t *ret_samples)
{
	struct flmem_record record;

	*ret_samples = 0;
	while (flmem_recording_next(recording, &record))
		*ret_samples += record.kind == FLMEM_RECORD_SAMPLE;
}

static void check_thinned(struct flmem_recorder *thinned, uint64_t samples)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r = FLMEM_RECORDING_INIT;
	char path[PATH_SIZE];
	uint64_t left;

	if (flmem_recording_open(path_of(thinned->fd, path), &r, NULL))
		abort();
	count_samples(&r, &left);
	if (r.skipped || left > samples)
		abort();
}

static void thin(const char *path)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r = FLMEM_RECORDING_INIT;
	struct flmem_recorder thinned = {.fd = memfd_create("thinned", MFD_CLOEXEC),
					 .introduced = true,
					 .block = FLMEM_BUF_INIT,
					 .intro = FLMEM_BUF_INIT};
	struct flmem_recording_extent extent;
	uint64_t samples;

	if (flmem_recording_open(path, &r, NULL) == 0) {
		count_samples(&r, &samples);
		flmem_recording_close(&r);
		if (flmem_recording_open(path, &r, NULL))
			abort();
		flmem_recording_measure(&r, NULL, &extent);
		flmem_recording_close(&r);
		if (flmem_recording_open(path, &r, NULL) ||
		    !flmem_recording_downsample(&r, extent.span_us, extent.span_us / 2, NULL,
						&thinned))
			abort();
		check_thinned(&thinned, samples);
	}
	flmem_recorder_close(&thinned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_buf block = FLMEM_BUF_INIT;
	char header[FLMEM_BLOCK_HEADER] = FLMEM_BLOCK_MAGIC;

	if (size < 2)
		return 0;
	if (data[0] & 1) {
		flmem_block_put_u32(header + 4, (uint32_t)(size - 1));
		flmem_block_put_u32(header + 8, flmem_block_sum((const char *)data + 1, size - 1));
		flmem_buf_append(&block, header, sizeof(header));
	}
	flmem_buf_append(&block, data + 1, size - 1);
	if (!block.failed) {
		char path[PATH_SIZE];
		int fd = fuzz_file(block.data, block.length);

		replay(path_of(fd, path));
		thin(path);
		close(fd);
	}
	flmem_buf_clear(&block);
	return 0;
}
