/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings. The first byte decides: half of the inputs are put into a block with the right sum,
 * which mutation alone would hardly find.
 */
#include "base/buf.h"
#include "fuzz.h"
#include "ops/replay.h"
#include "series/recording_format.h"

static bool on_sample(void *context, const struct flmem_watch_sample *sample)
{
	uint64_t *count = context;

	if (!sample->process->command)
		abort();
	return ++*count < 100000;
}

static bool on_round(void *context, const struct flmem_watch_round *round)
{
	uint64_t *count = context;

	if (!round->process)
		abort();
	return ++*count < 100000;
}

static void replay(const char *bytes, size_t length)
{
	uint64_t count = 0;
	const struct flmem_watch_options options = {.stop_fd = -1, .fail_above_bytes = 1 << 20};
	const struct flmem_watch_callbacks callbacks = {
		.context = &count, .sample = on_sample, .round = on_round};
	struct flmem_watch_summary summary = {0};

	if (flmem_watch_replay_bytes(bytes, length, &options, &callbacks, &summary, NULL))
		return;
	for (size_t i = 0; i < summary.count; i++)
		if (summary.results[i].trend.confidence < 0 ||
		    summary.results[i].trend.confidence > 1)
			abort();
	flmem_watch_summary_clear(&summary);
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
	if (!block.failed)
		replay(block.data, block.length);
	flmem_buf_clear(&block);
	return 0;
}
