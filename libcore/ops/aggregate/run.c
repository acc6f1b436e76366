/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/crc32c.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "base/portable.h"
#include "base/text/text.h"
#include "base/thread.h"

#define TICK_US		 200000
#define BUFFER_ALIGNMENT 4096U
/* Chunks of output that a thread may have in flight to the disk before it waits for the oldest. */
#define WRITES_PENDING 4U
/* Bytes of all inputs that are read ahead into the page cache. */
#define AHEAD_BYTES (256ULL << 20)

struct run_worker {
	struct flmem_run *run;
	struct flmem_run_buffers buffers;
	uint64_t written[WRITES_PENDING][2];
	size_t writes;
};

void flmem_run_locks_init(struct flmem_run *run)
{
	pthread_mutex_init(&run->writing, NULL);
	pthread_mutex_init(&run->lock, NULL);
	flmem_cond_init_monotonic(&run->changed);
}

void flmem_run_locks_clear(struct flmem_run *run)
{
	pthread_cond_destroy(&run->changed);
	pthread_mutex_destroy(&run->writing);
	pthread_mutex_destroy(&run->lock);
}

static void clear_buffers(struct flmem_run_buffers *buffers)
{
	flmem_combine_rows_clear(&buffers->rows);
	flmem_direct_windows_clear(&buffers->direct);
	flmem_mapped_windows_clear(&buffers->mapped);
	free(buffers->inputs);
	free(buffers->memory);
	free(buffers->sums);
	free(buffers->state_memory);
}

/*
 * Allocates buffers for the state: one of its elements has at most four times the bytes of one of
 * the model.
 */
static bool make_state(struct flmem_run_buffers *buffers, const struct flmem_run *run)
{
	size_t slots = run->state ? run->state->slots : 0, bytes = 4 * run->block_bytes;

	if (!slots)
		return true;
	buffers->state_memory = aligned_alloc(BUFFER_ALIGNMENT, slots * bytes);
	for (size_t i = 0; buffers->state_memory && i < slots; i++)
		buffers->state.slots[i] = buffers->state_memory + i * bytes;
	return buffers->state_memory;
}

/*
 * Allocates the windows. After a failed page the block is computed again from its beginning, so
 * mappings are used only if nothing is kept in between: no state, no sums.
 */
static bool make_windows(struct flmem_run_buffers *buffers, const struct flmem_run *run)
{
	size_t sources = flmem_run_sources(run);

	if (!flmem_direct_windows_init(&buffers->direct, sources, run->window_bytes))
		return false;
	return run->kind != FLMEM_RUN_COMBINE || run->state || run->verifies ||
	       flmem_mapped_windows_init(&buffers->mapped, run->threads, sources, run->block_bytes);
}

size_t flmem_run_measured(const struct flmem_run *run)
{
	size_t count = run->input_count;

	switch (run->combination.algorithm->measures) {
	case FLMEM_MEASURE_NOTHING:
		break;
	case FLMEM_MEASURE_NORMS:
		return count;
	case FLMEM_MEASURE_DISTANCES:
		return count * (count - 1) / 2;
	}
	return 0;
}

static bool make_buffers(struct flmem_run_buffers *buffers, const struct flmem_run *run)
{
	size_t count = flmem_run_sources(run) + 1, slots = run->state ? run->state->slots : 0;

	buffers->inputs = calloc(count, sizeof(*buffers->inputs));
	buffers->memory = aligned_alloc(BUFFER_ALIGNMENT, count * run->block_bytes);
	if (run->kind == FLMEM_RUN_MEASURE)
		buffers->sums = calloc(flmem_run_measured(run) + 1, sizeof(*buffers->sums));
	if (!buffers->inputs || !buffers->memory ||
	    (run->kind == FLMEM_RUN_MEASURE && !buffers->sums) || !make_state(buffers, run) ||
	    !make_windows(buffers, run) ||
	    !flmem_combine_rows_init(&buffers->rows, count - 1 + slots)) {
		clear_buffers(buffers);
		return false;
	}
	for (size_t i = 0; i < count; i++)
		buffers->inputs[i] = buffers->memory + i * run->block_bytes;
	return true;
}

static uint64_t chunk_begin(const struct flmem_run *run, size_t chunk)
{
	uint64_t begin = chunk * run->chunk_bytes;

	return begin > run->begin ? begin : run->begin;
}

void flmem_run_limit(struct flmem_run *run, uint64_t begin, uint64_t end)
{
	uint64_t chunk = run->chunk_bytes;

	run->begin = begin;
	run->end = end;
	run->first_chunk = (size_t)(begin / chunk);
	run->chunk_limit = begin < end ? (size_t)((end + chunk - 1) / chunk) : run->first_chunk;
}

uint32_t flmem_run_crc32c(const struct flmem_run *run)
{
	uint32_t crc = 0;

	for (size_t i = run->first_chunk; i < run->chunk_limit; i++)
		crc = flmem_crc32c_join(crc, run->chunks[i].crc32c,
					flmem_run_chunk_end(run, i) - chunk_begin(run, i));
	return crc;
}

/*
 * Returns how many chunks to read ahead: more than the threads work on, because a shared device
 * answers late; within bounds, because they stay in the page cache.
 */
static size_t chunks_ahead(const struct flmem_run *run)
{
	uint64_t step = run->chunk_bytes * flmem_run_sources(run);
	size_t fit = step ? AHEAD_BYTES / step : 0;
	size_t most = 3 * (size_t)run->threads;

	most = most < FLMEM_RUN_AHEAD - run->threads ? most : FLMEM_RUN_AHEAD - run->threads;
	fit = fit < most ? fit : most;
	return fit > run->threads ? fit : run->threads;
}

/*
 * Lets the kernel read a chunk of all inputs in the background, and records which pages were cached
 * before.
 */
static void read_soon(struct flmem_run *run, size_t chunk)
{
	size_t sources = flmem_run_sources(run);
	atomic_bool *cached = flmem_run_cached(run, chunk);

	for (size_t i = 0; i < sources; i++) {
		uint64_t begin = chunk_begin(run, chunk), end = flmem_run_chunk_end(run, chunk);

		cached[i] = flmem_input_is_cached(run->inputs[i], run->layout, begin, end);
		flmem_input_expect(run->inputs[i], run->layout, begin, end, cached[i]);
	}
}

/* Reads ahead, except chunks of an earlier run: it is not known yet whether they are needed. */
static void read_ahead(struct flmem_run *run, size_t chunk)
{
	if (chunk >= run->resumed_limit && chunk < run->chunk_limit)
		read_soon(run, chunk);
}

/* Drops the inputs' pages of a chunk from the page cache, unless they were cached before. */
static void drop_inputs(struct flmem_run *run, size_t chunk)
{
	size_t sources = flmem_run_sources(run);
	atomic_bool *cached = flmem_run_cached(run, chunk);

	for (size_t i = 0; i < sources; i++)
		if (!cached[i])
			flmem_input_drop(run->inputs[i], run->layout, chunk_begin(run, chunk),
					 flmem_run_chunk_end(run, chunk));
}

/* Returns true if the page cache had these bytes of all inputs before the run. */
static bool had_inputs(const struct flmem_run *run, size_t chunk)
{
	size_t sources = flmem_run_sources(run);
	const atomic_bool *cached = flmem_run_cached(run, chunk);

	for (size_t i = 0; i < sources; i++)
		if (!cached[i] || !flmem_input_has_pages(run->inputs[i]))
			return false;
	return true;
}

/*
 * Starts to write a chunk to the disk, then waits for an earlier one and drops its pages. Otherwise
 * the disk would start late, and the output would fill the page cache. If the inputs were cached,
 * there is room for the output, which is a fraction of their size and often read next.
 */
static int write_behind(struct run_worker *worker, size_t chunk, struct flmem_error *err)
{
	const struct flmem_run *run = worker->run;
	uint64_t begin = chunk_begin(run, chunk), end = flmem_run_chunk_end(run, chunk);
	uint64_t *oldest;
	int rc = 0;

	flmem_output_push(run->output, begin, end);
	if (had_inputs(run, chunk))
		return 0;
	oldest = worker->written[worker->writes++ % WRITES_PENDING];
	if (oldest[1])
		rc = flmem_output_drop(run->output, oldest[0], oldest[1], err);
	oldest[0] = begin;
	oldest[1] = end;
	return rc;
}

/* Returns true if a chunk that the journal lists is in the file as it was written. */
static bool is_intact(const struct run_worker *worker, size_t chunk)
{
	const struct flmem_run *run = worker->run;
	uint64_t at = chunk_begin(run, chunk), end = flmem_run_chunk_end(run, chunk);
	char *buffer = worker->buffers.memory;
	uint32_t crc = 0;

	while (at < end) {
		size_t bytes = end - at < run->block_bytes ? (size_t)(end - at) : run->block_bytes;

		if (!flmem_output_read(run->output, at, at + bytes, buffer))
			return false;
		crc = flmem_crc32c(crc, buffer, bytes);
		at += bytes;
	}
	return crc == run->chunks[chunk].crc32c;
}

static bool is_done(const struct flmem_run *run, size_t chunk)
{
	return run->chunks[chunk].done && (!run->state || run->state->chunks[chunk].done);
}

static bool is_state_intact(struct run_worker *worker, size_t chunk)
{
	struct flmem_run *run = worker->run;
	uint64_t begin = chunk_begin(run, chunk), end = flmem_run_chunk_end(run, chunk);

	return !run->state || (!flmem_run_verify_state(run, &worker->buffers, begin, end, NULL) &&
			       worker->buffers.state_crc32c == run->state->chunks[chunk].crc32c);
}

static int append_record(const struct flmem_run *run, const struct flmem_part_file *part,
			 size_t chunk, uint32_t crc32c, struct flmem_error *err)
{
	/* Of several processes only the first one has the journal open. */
	int rc = part->journal >= 0 ? flmem_journal_append(part->journal, chunk, crc32c) : 0;

	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write the journal of '%s'",
				       run->request->output);
	return 0;
}

static int write_chunk(struct run_worker *worker, size_t chunk, struct flmem_error *err)
{
	struct flmem_run *run = worker->run;
	uint64_t begin = chunk_begin(run, chunk), end = flmem_run_chunk_end(run, chunk);
	uint32_t crc;
	int rc = flmem_run_combine(run, &worker->buffers, begin, end, &crc, err);

	if (rc || run->stop)
		return rc; /* the chunk may be incomplete */
	run->chunks[chunk].crc32c = crc;
	if (run->verifies)
		return 0;
	if (run->state)
		rc = append_record(run, &run->state->part, chunk, worker->buffers.state_crc32c,
				   err);
	if (!rc)
		rc = append_record(run, run->output->part, chunk, crc, err);
	if (rc)
		return rc;
	run->chunks[chunk] = (struct flmem_journal_chunk){.crc32c = crc, .done = true};
	return write_behind(worker, chunk, err);
}

static int process_chunk(struct run_worker *worker, size_t chunk, struct flmem_error *err)
{
	struct flmem_run *run = worker->run;
	uint64_t begin = chunk_begin(run, chunk), end = flmem_run_chunk_end(run, chunk);
	int rc = 0;

	read_ahead(run, chunk + chunks_ahead(run));
	if (run->kind == FLMEM_RUN_COMBINE && is_done(run, chunk)) {
		if (is_intact(worker, chunk) && is_state_intact(worker, chunk)) {
			run->resumed_bytes += end - begin;
			run->done_bytes += (end - begin) * flmem_run_sources(run);
			return 0;
		}
		run->chunks[chunk].done = false;
	}
	if (chunk < run->resumed_limit)
		read_soon(run, chunk);
	switch (run->kind) {
	case FLMEM_RUN_COMBINE:
		rc = write_chunk(worker, chunk, err);
		break;
	case FLMEM_RUN_SCAN:
		rc = flmem_run_scan(run, &worker->buffers, begin, end, err);
		break;
	case FLMEM_RUN_MEASURE:
		rc = flmem_run_measure(run, &worker->buffers, begin, end, err);
		break;
	}
	drop_inputs(run, chunk);
	return rc;
}

static void fail_run(struct flmem_run *run, int rc, const struct flmem_error *error)
{
	pthread_mutex_lock(&run->lock);
	if (!run->rc) {
		run->rc = rc;
		run->error = *error;
	}
	run->stop = true;
	pthread_mutex_unlock(&run->lock);
}

static void *run_worker(void *context)
{
	struct run_worker *worker = context;
	struct flmem_run *run = worker->run;
	size_t chunk;

	flmem_mapped_attach(&worker->buffers.mapped);
	while (!run->stop && (chunk = run->next++) < run->chunk_limit) {
		struct flmem_error error = {0};
		int rc = process_chunk(worker, chunk, &error);

		/*
		 * After a special value no error is kept: the next pass reads all again, and a pass
		 * that waited for a server was stopped.
		 */
		if (rc && !run->found_special)
			fail_run(run, rc, &error);
	}
	flmem_mapped_attach(NULL);
	pthread_mutex_lock(&run->lock);
	run->running--;
	pthread_cond_signal(&run->changed);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

/* Samples resident memory without pages of files (proc(5), statm). */
static void sample_memory(struct flmem_run *run)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	uint64_t pages[3];
	const char *at;

	if (flmem_io_read_file_at(AT_FDCWD, "/proc/self/statm", 4096, &text))
		return;
	at = text.data;
	for (size_t i = 0; i < 3; i++, at++)
		if (!flmem_text_read_digits(&at, &pages[i]))
			return;
	if (pages[1] < pages[2])
		return;
	pages[0] = (pages[1] - pages[2]) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (pages[0] > run->peak_anon_bytes)
		run->peak_anon_bytes = pages[0];
}

static void report_progress(struct flmem_run *run, uint64_t started_us)
{
	const struct flmem_aggregate_progress progress = {
		.done_bytes = run->earlier_bytes + run->done_bytes,
		.total_bytes = (run->end - run->begin) * flmem_run_sources(run) *
				       (run->passes - run->pass) +
			       run->earlier_bytes,
		.elapsed_us = flmem_clock_us() - started_us,
	};
	struct flmem_error error = {0};

	if (!run->request->progress || run->request->progress(run->request->context, &progress))
		return;
	if (run->verifies)
		flmem_error_set(&error, FLMEM_EFAILED, 0, "stopped before all of '%s' was compared",
				run->request->output);
	else
		flmem_error_set(&error, FLMEM_EFAILED, 0, "stopped before '%s' was complete%s",
				run->request->output,
				run->request->mpi ? "" : "; continue with --resume");
	fail_run(run, FLMEM_EFAILED, &error);
}

static void wait_for_workers(struct flmem_run *run, uint64_t started_us)
{
	struct timespec until;

	pthread_mutex_lock(&run->lock);
	while (run->running) {
		until = flmem_clock_after_us(TICK_US);
		if (pthread_cond_timedwait(&run->changed, &run->lock, &until) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&run->lock);
		sample_memory(run);
		report_progress(run, started_us);
		pthread_mutex_lock(&run->lock);
	}
	pthread_mutex_unlock(&run->lock);
}

static int start_workers(struct flmem_run *run, struct run_worker *workers, pthread_t *threads,
			 unsigned *ret_started, struct flmem_error *err)
{
	unsigned i = 0;

	for (; i < run->threads; i++) {
		workers[i].run = run;
		if (!make_buffers(&workers[i].buffers, run))
			break;
		pthread_mutex_lock(&run->lock);
		run->running++;
		pthread_mutex_unlock(&run->lock);
		if (flmem_thread_start(&threads[i], run_worker, &workers[i])) {
			clear_buffers(&workers[i].buffers);
			pthread_mutex_lock(&run->lock);
			run->running--;
			pthread_mutex_unlock(&run->lock);
			break;
		}
	}
	*ret_started = i;
	return i ? 0 : flmem_error_nomem(err, "cannot start a thread");
}

/* Returns the index after the last chunk that an earlier run has written. */
static size_t find_resumed_limit(const struct flmem_run *run)
{
	size_t limit = run->chunk_limit;

	if (run->kind != FLMEM_RUN_COMBINE)
		return run->first_chunk;
	while (limit > run->first_chunk && !is_done(run, limit - 1))
		limit--;
	return limit;
}

static void prepare_inputs(struct flmem_run *run)
{
	size_t sources = flmem_run_sources(run);

	run->window_bytes = flmem_direct_window_bytes(run->threads, sources);
	for (size_t i = 0; i < sources; i++) {
		flmem_input_read_exactly(run->inputs[i]);
		if (run->window_bytes)
			flmem_direct_open(run->inputs[i]);
	}
}

int flmem_run_pass(struct flmem_run *run, uint64_t started_us, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct run_worker *workers = calloc(run->threads, sizeof(*workers));
	FLMEM_AUTO_FREE pthread_t *threads = calloc(run->threads, sizeof(*threads));
	unsigned started;
	int rc;

	if (!workers || !threads)
		return flmem_error_nomem(err, "cannot start a thread");
	run->next = run->first_chunk;
	run->resumed_limit = find_resumed_limit(run);
	run->stop = run->found_special = false;
	run->done_bytes = run->resumed_bytes = 0;
	prepare_inputs(run);
	for (size_t i = 0; i < chunks_ahead(run); i++)
		read_ahead(run, run->first_chunk + i);
	rc = start_workers(run, workers, threads, &started, err);
	if (rc)
		return rc;
	wait_for_workers(run, started_us);
	sample_memory(run);
	for (unsigned i = 0; i < started; i++) {
		pthread_join(threads[i], NULL);
		for (size_t s = 0; run->kind == FLMEM_RUN_MEASURE && s < flmem_run_measured(run);
		     s++)
			flmem_exact_sum_merge(&run->sums[s], &workers[i].buffers.sums[s]);
		clear_buffers(&workers[i].buffers);
	}
	run->earlier_bytes += run->done_bytes;
	run->pass++;
	if (run->rc && err)
		*err = run->error;
	return run->rc;
}
