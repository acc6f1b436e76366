/* SPDX-License-Identifier: Apache-2.0 */
#include "series/downsample.h"

#include <string.h>

#include "base/cleanup.h"
#include "series/recording_format.h"

#define NARROWER   4U
#define WIDEST_US  UINT64_C(3600000000)
#define SHORTEST   10000U /* us; lower limit for the interval that a session states */
#define LONGEST_US WIDEST_US

/* The time across several sessions of a recording; it never decreases. */
struct recording_timeline {
	bool any; /* a session has begun */
	uint64_t session_at_us, base_us, now_us, at_us;
};

/* Begins a session; false for a repeated one. A clock that was set back adds no time. */
static bool begin_thin_session(struct recording_timeline *t, const struct flmem_record *record)
{
	uint64_t gap = record->at_us > t->at_us ? record->at_us - t->at_us : 0;

	if (t->any && record->at_us == t->session_at_us)
		return false;
	if (!t->any || __builtin_add_overflow(t->now_us, gap, &t->base_us))
		t->base_us = t->now_us;
	t->any = true;
	t->session_at_us = t->at_us = record->at_us;
	t->now_us = t->base_us;
	return true;
}

static void advance_timeline(struct recording_timeline *t, const struct flmem_record *tick)
{
	uint64_t now_us;

	if (!__builtin_add_overflow(t->base_us, tick->elapsed_us, &now_us) && now_us > t->now_us)
		t->now_us = now_us;
	t->at_us = tick->at_us;
}

static bool is_cancelled(const atomic_bool *cancelled)
{
	return cancelled && atomic_load_explicit(cancelled, memory_order_relaxed);
}

void flmem_recording_measure(struct flmem_recording *recording, const atomic_bool *cancelled,
			     struct flmem_recording_extent *ret_extent)
{
	struct recording_timeline time = {0};
	struct flmem_record record;
	size_t most = 0;

	while (!is_cancelled(cancelled) && flmem_recording_next(recording, &record)) {
		if (record.kind == FLMEM_RECORD_SESSION)
			begin_thin_session(&time, &record);
		else if (record.kind == FLMEM_RECORD_TICK)
			advance_timeline(&time, &record);
		else if (record.kind == FLMEM_RECORD_PROCESS && record.process >= most)
			most = (size_t)record.process + 1;
	}
	*ret_extent = (struct flmem_recording_extent){.span_us = time.now_us, .processes = most};
}

/* A sample that is kept. */
struct kept_sample {
	uint64_t process, bytes, elapsed_us, at_us;
};

/* The state of one process of the session. */
struct process_track {
	bool known;	   /* the process has been written */
	uint32_t checksum; /* of the record that was written */
	bool begun;	   /* its first sample has been written */
	bool any;	   /* the process has samples in this span */
	/* Written with the next sample of the process: */
	bool split_new, pressure_new, of_host;
	uint64_t kinds[FLMEM_RECORD_KINDS], numbers[FLMEM_RECORD_NUMBERS];
	struct kept_sample low, high;
};

struct downsampler {
	struct flmem_recorder *to;
	struct recording_timeline time;
	uint64_t end_us, keep_us, interval_us;
	struct flmem_record tick; /* the last tick */
	bool tick_written;
	bool open; /* a span is open */
	uint64_t closes_us;
	struct process_track *tracks;
	size_t track_count;
	uint64_t *active; /* processes with samples in the span */
	size_t active_count;
	struct kept_sample *sorted; /* room for two of each process */
};

static void clear_thinner(struct downsampler *t)
{
	free(t->tracks);
	free(t->active);
	free(t->sorted);
}

static struct process_track *track_of(struct downsampler *t, uint64_t process)
{
	size_t count = t->track_count ? t->track_count : 16;
	struct process_track *tracks;
	uint64_t *active;
	struct kept_sample *sorted;

	if (process < t->track_count)
		return &t->tracks[process];
	while (count <= process)
		count *= 2;
	tracks = reallocarray(t->tracks, count, sizeof(*tracks));
	if (tracks)
		t->tracks = tracks;
	active = reallocarray(t->active, count, sizeof(*active));
	if (active)
		t->active = active;
	sorted = reallocarray(t->sorted, count * 2, sizeof(*sorted));
	if (sorted)
		t->sorted = sorted;
	if (!tracks || !active || !sorted)
		return NULL;
	for (; t->track_count < count; t->track_count++)
		t->tracks[t->track_count] = (struct process_track){0};
	return &t->tracks[process];
}

static void write_tick(struct downsampler *t, uint64_t elapsed_us, uint64_t at_us)
{
	const struct flmem_record tick = {
		.kind = FLMEM_RECORD_TICK, .elapsed_us = elapsed_us, .at_us = at_us};

	flmem_recorder_add(t->to, &tick);
}

static void write_sample(struct downsampler *t, const struct kept_sample *sample)
{
	struct process_track *track = &t->tracks[sample->process];
	struct flmem_record r = {.process = sample->process, .bytes = sample->bytes};

	if (track->split_new) {
		r.kind = FLMEM_RECORD_SPLIT;
		memcpy(r.kinds, track->kinds, sizeof(r.kinds));
		flmem_recorder_add(t->to, &r);
	}
	if (track->pressure_new) {
		r.kind = FLMEM_RECORD_PRESSURE;
		r.of_host = track->of_host;
		memcpy(r.numbers, track->numbers, sizeof(r.numbers));
		flmem_recorder_add(t->to, &r);
	}
	track->split_new = track->pressure_new = false;
	r.kind = FLMEM_RECORD_SAMPLE;
	flmem_recorder_add(t->to, &r);
}

static int by_time(const void *left, const void *right)
{
	const struct kept_sample *a = left, *b = right;

	if (a->elapsed_us != b->elapsed_us)
		return a->elapsed_us < b->elapsed_us ? -1 : 1;
	return a->process < b->process ? -1 : a->process > b->process;
}

static void close_span(struct downsampler *t)
{
	size_t count = 0;

	t->open = false;
	for (size_t i = 0; i < t->active_count; i++) {
		struct process_track *track = &t->tracks[t->active[i]];

		t->sorted[count++] = track->low;
		if (track->high.elapsed_us != track->low.elapsed_us)
			t->sorted[count++] = track->high;
		track->any = false;
	}
	t->active_count = 0;
	if (count)
		qsort(t->sorted, count, sizeof(*t->sorted), by_time);
	for (size_t i = 0; i < count; i++) {
		if (!i || t->sorted[i].elapsed_us != t->sorted[i - 1].elapsed_us)
			write_tick(t, t->sorted[i].elapsed_us, t->sorted[i].at_us);
		write_sample(t, &t->sorted[i]);
	}
	t->tick_written = count && t->sorted[count - 1].elapsed_us == t->tick.elapsed_us;
}

/* Returns the current length of a span; 0: samples are kept as they are. */
static uint64_t span_width(const struct downsampler *t)
{
	uint64_t age = t->end_us - t->time.now_us, from = t->keep_us;
	uint64_t width_us = t->interval_us * NARROWER;

	if (t->time.now_us > t->end_us || age < from)
		return 0;
	while (from <= age / NARROWER && width_us < WIDEST_US) {
		width_us *= NARROWER;
		from = from ? from * NARROWER : 1;
	}
	return width_us < WIDEST_US ? width_us : WIDEST_US;
}

/* Writes the last tick before records at its time, after all earlier records. */
static void write_open_tick(struct downsampler *t)
{
	close_span(t);
	if (!t->tick_written && t->tick.kind)
		write_tick(t, t->tick.elapsed_us, t->tick.at_us);
	t->tick_written = true;
}

static void add_sample(struct downsampler *t, struct process_track *track,
		       const struct flmem_record *record)
{
	const struct kept_sample sample = {record->process, record->bytes, t->tick.elapsed_us,
					   t->tick.at_us};
	uint64_t width_us = span_width(t);

	if (!t->tick.kind) /* no tick yet: only in damaged recordings */
		return;
	if (!width_us || !track->begun) {
		write_open_tick(t);
		track->begun = true;
		write_sample(t, &sample);
		return;
	}
	if (!t->open)
		t->closes_us = t->time.now_us - t->time.now_us % width_us + width_us;
	t->open = true;
	if (!track->any) {
		t->active[t->active_count++] = record->process;
		track->low = track->high = sample;
	}
	track->any = true;
	if (sample.bytes < track->low.bytes)
		track->low = sample;
	if (sample.bytes > track->high.bytes)
		track->high = sample;
}

static void add_tick(struct downsampler *t, const struct flmem_record *record)
{
	advance_timeline(&t->time, record);
	if (t->open && t->time.now_us >= t->closes_us)
		close_span(t);
	t->tick = *record;
	t->tick_written = false;
}

static void add_session(struct downsampler *t, const struct flmem_record *record)
{
	if (!begin_thin_session(&t->time, record))
		return;
	close_span(t);
	for (size_t i = 0; i < t->track_count; i++)
		t->tracks[i] = (struct process_track){0};
	t->interval_us = record->interval_us < SHORTEST	    ? SHORTEST
			 : record->interval_us > LONGEST_US ? LONGEST_US
							    : record->interval_us;
	t->tick.kind = 0;
	flmem_recorder_add(t->to, record);
}

/* Detects a changed program: process records are repeated, and rarely the program differs. */
static uint32_t process_checksum(const struct flmem_record *process)
{
	const uint64_t numbers[] = {
		process->pid,
		process->start_time,
		process->framework,
		process->role,
		flmem_block_sum(process->command, strlen(process->command)),
		flmem_block_sum(process->site, strlen(process->site)),
	};

	return flmem_block_sum((const char *)numbers, sizeof(numbers));
}

static bool add_of_process(struct downsampler *t, const struct flmem_record *record)
{
	struct process_track *track = track_of(t, record->process);

	if (!track)
		return false;
	switch (record->kind) {
	case FLMEM_RECORD_SAMPLE:
		add_sample(t, track, record);
		break;
	case FLMEM_RECORD_SPLIT:
		memcpy(track->kinds, record->kinds, sizeof(track->kinds));
		track->split_new = true;
		break;
	case FLMEM_RECORD_PRESSURE:
		memcpy(track->numbers, record->numbers, sizeof(track->numbers));
		track->of_host = record->of_host;
		track->pressure_new = true;
		break;
	case FLMEM_RECORD_PROCESS:
		if (track->known && track->checksum == process_checksum(record))
			break;
		track->known = true;
		track->checksum = process_checksum(record);
		write_open_tick(t);
		flmem_recorder_add(t->to, record);
		break;
	default:
		write_open_tick(t);
		flmem_recorder_add(t->to, record);
		break;
	}
	return true;
}

static bool add_record(struct downsampler *t, const struct flmem_record *record)
{
	switch (record->kind) {
	case FLMEM_RECORD_SESSION:
		add_session(t, record);
		return true;
	case FLMEM_RECORD_TICK:
		add_tick(t, record);
		return true;
	case FLMEM_RECORD_PROCESS:
	case FLMEM_RECORD_SAMPLE:
	case FLMEM_RECORD_SPLIT:
	case FLMEM_RECORD_END:
	case FLMEM_RECORD_ACTION:
	case FLMEM_RECORD_PRESSURE:
		return add_of_process(t, record);
	default:
		write_open_tick(t);
		flmem_recorder_add(t->to, record);
		return true;
	}
}

bool flmem_recording_downsample(struct flmem_recording *from, uint64_t end_us, uint64_t keep_us,
				const atomic_bool *cancelled, struct flmem_recorder *to)
{
	FLMEM_AUTO(clear_thinner)
	struct downsampler t = {
		.to = to, .end_us = end_us, .keep_us = keep_us, .interval_us = SHORTEST};
	struct flmem_record record;
	bool whole = true;

	while (whole && flmem_recording_next(from, &record))
		whole = !is_cancelled(cancelled) && add_record(&t, &record);
	close_span(&t);
	flmem_recorder_flush(to);
	return whole;
}
