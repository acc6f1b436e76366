/* SPDX-License-Identifier: Apache-2.0 */
/* Logs: the first byte says how the rest is cut into reads, and whether by an expression. */
#include "frameworks/round_markers.h"
#include "fuzz.h"
#include "ops/watch/log_tail.h"

struct reader {
	struct flmem_rounds rounds;
	size_t log;
};

static void visit(void *context, char *line, size_t length)
{
	struct reader *reader = context;
	struct flmem_round_change change;
	bool running = reader->rounds.running;

	if (length > FLMEM_LOG_LINE_MAX)
		abort();
	if (flmem_rounds_read(&reader->rounds, reader->log, line, length, &change) !=
	    (change.finished || change.started))
		abort();
	if ((change.finished && !running) || (change.started && !reader->rounds.running))
		abort();
	if (length % 5 == 0 && flmem_rounds_pause(&reader->rounds, &change) &&
	    (!change.finished || change.started || reader->rounds.running))
		abort();
	/* Marks of another log in between must not matter to memory either. */
	reader->log ^= length % 3 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_log log = {.fd = -1, .line = malloc(FLMEM_LOG_LINE_MAX + 1)};
	struct reader reader = {0};
	size_t step = size ? data[0] % 64U + 1 : 1;

	if (!log.line || flmem_rounds_init(&reader.rounds,
					   size && data[0] & 0x80 ? "epoch ([0-9]+)" : NULL, NULL))
		abort();
	for (size_t at = 1; at < size; at += step) {
		size_t length = size - at < step ? size - at : step;
		char *piece = malloc(length);

		if (!piece)
			abort();
		memcpy(piece, data + at, length);
		flmem_log_feed(&log, piece, length, visit, &reader);
		free(piece);
	}
	flmem_rounds_clear(&reader.rounds);
	flmem_log_close(&log);
	return 0;
}
