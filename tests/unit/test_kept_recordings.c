/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what a reader makes of records of every kind, of parts of them, and of a recording that was
 * thinned, against kept texts (kept.h).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes/varint.h"
#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "kept.h"
#include "series.h"
#include "series/downsample.h"
#include "series/recording.h"
#include "series/recording_format.h"

#define SECOND UINT64_C(1000000)
#define BEGAN  (UINT64_C(1700000000) * SECOND)

static char path[64], other[80];

static int setup(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/flmem-kept-XXXXXX");
	snprintf(other, sizeof(other), "%s.thin", path);
	fd = mkstemp(path);
	snprintf(other, sizeof(other), "%s.thin", path);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	unlink(other);
	return unlink(path);
}

static void put_numbers(struct flmem_buf *out, const uint64_t *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (numbers[i] == UINT64_MAX)
			flmem_buf_puts(out, " -");
		else
			flmem_buf_printf(out, " %" PRIu64, numbers[i]);
}

static void put_record(struct flmem_buf *out, const struct flmem_record *r)
{
	flmem_buf_printf(out, "  %d", (int)r->kind);
	switch (r->kind) {
	case FLMEM_RECORD_SESSION:
		put_numbers(out, (const uint64_t[]){r->interval_us, r->at_us}, 2);
		break;
	case FLMEM_RECORD_PROCESS:
		put_numbers(out,
			    (const uint64_t[]){r->process, r->pid, r->start_time, r->framework,
					       r->role},
			    5);
		flmem_buf_printf(out, " %.20s/%zu %.20s/%zu", r->command, strlen(r->command),
				 r->site, strlen(r->site));
		break;
	case FLMEM_RECORD_TICK:
		put_numbers(out, (const uint64_t[]){r->elapsed_us, r->at_us}, 2);
		break;
	case FLMEM_RECORD_SAMPLE:
		put_numbers(out, (const uint64_t[]){r->process, r->bytes}, 2);
		break;
	case FLMEM_RECORD_SPLIT:
		put_numbers(out, &r->process, 1);
		put_numbers(out, r->kinds, FLMEM_RECORD_KINDS);
		break;
	case FLMEM_RECORD_ROUND_START:
	case FLMEM_RECORD_ROUND_END:
	case FLMEM_RECORD_ROUND_RUNS:
		put_numbers(out, &r->round, 1);
		break;
	case FLMEM_RECORD_OWN_START:
	case FLMEM_RECORD_OWN_END:
		put_numbers(out, (const uint64_t[]){r->process, r->round}, 2);
		break;
	case FLMEM_RECORD_END:
	case FLMEM_RECORD_OWN_ROUNDS:
		put_numbers(out, &r->process, 1);
		break;
	case FLMEM_RECORD_ACTION:
		put_numbers(out, (const uint64_t[]){r->process, r->action}, 2);
		put_numbers(out, r->numbers, FLMEM_RECORD_OF_ACTION);
		flmem_buf_printf(out, " %.20s/%zu", r->reason, strlen(r->reason));
		break;
	case FLMEM_RECORD_PRESSURE:
		put_numbers(out, (const uint64_t[]){r->process, r->of_host}, 2);
		put_numbers(out, r->numbers, FLMEM_RECORD_NUMBERS);
		break;
	}
	flmem_buf_putc(out, '\n');
}

static void put_recording(struct flmem_buf *out, const char *file, uint64_t limit)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r = FLMEM_RECORDING_INIT;
	struct flmem_error err = {0};
	struct flmem_record record;

	if (flmem_recording_open(file, &r, &err)) {
		flmem_buf_printf(out, "  refused with %d\n", err.code);
		return;
	}
	if (limit)
		flmem_recording_limit(&r, limit);
	while (flmem_recording_next(&r, &record))
		put_record(out, &record);
	flmem_buf_printf(out, "  skipped %" PRIu64 "\n", r.skipped);
}

static const struct flmem_record every[] = {
	{.kind = FLMEM_RECORD_SESSION, .interval_us = SECOND, .at_us = BEGAN + 999},
	{.kind = FLMEM_RECORD_PROCESS,
	 .process = 1,
	 .pid = 77,
	 .start_time = 5,
	 .framework = 1,
	 .role = 2,
	 .command = "python3 train.py",
	 .site = "site-1"},
	{.kind = FLMEM_RECORD_TICK, .elapsed_us = SECOND, .at_us = BEGAN + SECOND},
	{.kind = FLMEM_RECORD_SAMPLE, .process = 1, .bytes = 1 << 20},
	{.kind = FLMEM_RECORD_SAMPLE, .process = 300, .bytes = (1 << 30) + 1023},
	{.kind = FLMEM_RECORD_TICK, .elapsed_us = 3 * SECOND, .at_us = BEGAN + 2 * SECOND},
	{.kind = FLMEM_RECORD_SAMPLE, .process = 1, .bytes = 1 << 19},
	{.kind = FLMEM_RECORD_SPLIT, .process = 1, .kinds = {0, 1024, UINT64_MAX, 5 << 20}},
	{.kind = FLMEM_RECORD_ROUND_START, .round = 3},
	{.kind = FLMEM_RECORD_ROUND_END, .round = 4},
	{.kind = FLMEM_RECORD_ROUND_RUNS, .round = 5},
	{.kind = FLMEM_RECORD_ACTION,
	 .process = 2,
	 .action = 1,
	 .numbers = {0, 1, UINT64_MAX, 3, 4, 5},
	 .reason = "why"},
	{.kind = FLMEM_RECORD_PRESSURE,
	 .process = 2,
	 .of_host = true,
	 .numbers = {0, 1, UINT64_MAX, 3, 4, 5, 6}},
	{.kind = FLMEM_RECORD_PRESSURE, .process = 2, .numbers = {7}},
	{.kind = FLMEM_RECORD_OWN_ROUNDS, .process = 1},
	{.kind = FLMEM_RECORD_OWN_START, .process = 1, .round = 2},
	{.kind = FLMEM_RECORD_OWN_END, .process = 1, .round = 2},
	{.kind = FLMEM_RECORD_END, .process = 65535},
	{.kind = FLMEM_RECORD_END, .process = 65536},
	{.kind = FLMEM_RECORD_SESSION, .interval_us = 1, .at_us = BEGAN + 9 * SECOND},
	{.kind = FLMEM_RECORD_TICK, .elapsed_us = 0, .at_us = BEGAN + 9 * SECOND},
	{.kind = FLMEM_RECORD_SAMPLE, .process = 1, .bytes = 1 << 20},
};

static void write_all(const struct flmem_record *records, size_t count)
{
	struct flmem_recorder recorder;

	assert_int_equal(flmem_recorder_open(path, &recorder, NULL), 0);
	for (size_t i = 0; i < count; i++)
		flmem_recorder_add(&recorder, &records[i]);
	flmem_recorder_close(&recorder);
}

static void every_record_comes_back(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	write_all(every, FLMEM_ARRAY_SIZE(every));
	put_recording(&out, path, 0);
	kept_compare("recordings/every.txt", &out);
}

/* Replaces the file by blocks with these records. */
static void write_block(const struct flmem_buf *records, bool whole)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	char header[FLMEM_BLOCK_HEADER] = FLMEM_BLOCK_MAGIC;

	assert_true(fd >= 0);
	flmem_block_put_u32(header + 4, (uint32_t)records->length);
	flmem_block_put_u32(header + 8,
			    flmem_block_sum(records->data, records->length) + (whole ? 0 : 1));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(flmem_io_write_all(fd, header, sizeof(header)), 0);
		assert_int_equal(flmem_io_write_all(fd, records->data, records->length), 0);
	}
}

/* Writes the bytes of the records alone, without a block around them. */
static void encode(const struct flmem_record *records, size_t count, struct flmem_buf *bytes)
{
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;

	assert_int_equal(truncate(path, 0), 0);
	write_all(records, count);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1 << 20, &file), 0);
	flmem_buf_append(bytes, file.data + FLMEM_BLOCK_HEADER, file.length - FLMEM_BLOCK_HEADER);
}

/* Each record is cut at every byte, in a block whose checksum is right. */
static void parts_of_records_are_as_kept(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 1; i < FLMEM_ARRAY_SIZE(every) - 3; i++) {
		const struct flmem_record records[] = {every[2], every[i]};
		FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;

		encode(records, 2, &bytes);
		while (bytes.length) {
			flmem_buf_printf(&out, "%d cut at %zu\n", (int)every[i].kind, bytes.length);
			write_block(&bytes, true);
			put_recording(&out, path, 0);
			bytes.length--;
		}
	}
	kept_compare("recordings/parts.txt", &out);
}

/* Records whose numbers are at their bounds. No writer writes them. */
static const uint64_t numbers[][12] = {
	{1, 1, 5, 6},
	{1, 2, 5, 6},
	{1, 0, 5, 6},
	{1, 1, 5, UINT64_MAX / 1000},
	{1, 1, 5, UINT64_MAX / 1000 + 1},
	{0},
	{15},
	{16, 1},
	{14, 1, 2},
	{99},
	{4, 1, 2}, /* a record without a tick */
	{3, UINT64_MAX / 1000, 0},
	{3, UINT64_MAX / 1000 + 1, 0},
	{3, 0, UINT64_MAX / 1000},
	{3, 0, UINT64_MAX / 1000 + 1},
	{3, 0, 0, 4, 65535, 2},
	{3, 0, 0, 4, 65536, 2},
	{3, 0, 0, 4, 1, UINT64_MAX},
	{3, 0, 0, 4, 1, 2 * (UINT64_MAX >> 11)},
	{3, 0, 0, 4, 1, UINT64_MAX >> 9},
	{3, 5, 5, 3, 7, 1, 3, 0, 2},
	{5, 1, 1, 2, 3, 4},
	{5, 65536, 1, 2, 3, 4},
	{5, 1, UINT64_MAX >> 10, 0, 0, 0},
	{5, 1, (UINT64_MAX >> 10) + 1, 0, 0, 0},
	{5, 1, (UINT64_MAX >> 10) + 2, 0, 0, 0},
	{5, 1, 0, UINT64_MAX, 0, 0},
	{6, 65535},
	{6, 65536},
	{11, 1, 0, UINT64_MAX, 0, 0, 0, 0, 0},
	{11, 1, 2, 0, 0, 0, 0, 0, 1},
	{11, 1, 2, 4, 0, 0, 0, 0, 0},
	{2, 1, 2, 3, 4, 5, 0, 0},
	{2, 65536, 2, 3, 4, 5, 0, 0},
	{2, 1, 2, 3, 4, 5, 1, 0},
	{2, 1, 2, 3, 4, 5, 4096, 0},
	{2, 1, 2, 3, 4, 5, 0, 1},
};

static void bounds_are_as_kept(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(numbers); i++) {
		FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
		size_t count = FLMEM_ARRAY_SIZE(numbers[i]);

		while (count > 1 && !numbers[i][count - 1])
			count--;
		for (size_t zeros = 0; zeros < 5; zeros++) {
			flmem_buf_reset(&bytes);
			for (size_t k = 0; k < count; k++)
				flmem_varint_put(&bytes, numbers[i][k]);
			for (size_t k = 0; k < zeros; k++)
				flmem_varint_put(&bytes, 0);
			flmem_buf_printf(&out, "%zu and %zu zeros\n", i, zeros);
			write_block(&bytes, true);
			put_recording(&out, path, 0);
		}
	}
	kept_compare("recordings/bounds.txt", &out);
}

static void long_texts_are_as_kept(void **state)
{
	static const size_t lengths[] = {0, 1, 1023, 1024, 1025, 4095, 4096, 4097};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	static char text[5000];

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lengths); i++) {
		FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
		struct flmem_record record = every[1];

		memset(text, 'c', sizeof(text));
		text[lengths[i]] = '\0';
		record.command = text;
		encode(&record, 1, &bytes);
		flmem_buf_printf(&out, "%zu written\n", lengths[i]);
		put_recording(&out, path, 0);
		flmem_buf_reset(&bytes);
		flmem_varint_put(&bytes, FLMEM_RECORD_ACTION);
		for (size_t k = 0; k < 8; k++)
			flmem_varint_put(&bytes, 1);
		flmem_varint_put(&bytes, lengths[i]);
		flmem_buf_append(&bytes, text, lengths[i]);
		write_block(&bytes, true);
		put_recording(&out, path, 0);
	}
	kept_compare("recordings/texts.txt", &out);
}

/* The damage: bytes between the blocks, blocks of a wrong sum or length, a limit inside one. */
static void damage_is_as_kept(void **state)
{
	static const char *const before[] = {"", "F", "FL", "FLM", "FLMB", "FLMBFLMB", "x", "FLMX"};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT, whole = FLMEM_BUF_INIT,
					bytes = FLMEM_BUF_INIT;

	(void)state;
	encode(every + 2, 3, &bytes);
	write_block(&bytes, false);
	put_recording(&out, path, 0);
	write_block(&bytes, true);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1 << 20, &whole), 0);
	for (uint64_t limit = 1; limit <= whole.length + 1; limit++) {
		flmem_buf_printf(&out, "limit %" PRIu64 "\n", limit);
		put_recording(&out, path, limit);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(before); i++) {
		FLMEM_AUTO_CLOSE int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		size_t half = whole.length / 2;

		flmem_buf_printf(&out, "'%s' between\n", before[i]);
		assert_int_equal(flmem_io_write_all(fd, whole.data, half), 0);
		assert_int_equal(flmem_io_write_all(fd, before[i], strlen(before[i])), 0);
		assert_int_equal(flmem_io_write_all(fd, whole.data + half, half), 0);
		put_recording(&out, path, 0);
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_int_equal(flmem_io_write_all(fd, before[i], strlen(before[i])), 0);
		flmem_buf_printf(&out, "alone: %s\n",
				 flmem_recording_is_one(path) ? "one" : "none");
		put_recording(&out, path, 0);
	}
	kept_compare("recordings/damage.txt", &out);
}

/* Writes a recording of three processes with noise, a second session, rounds and actions. */
static void write_long(size_t samples, uint64_t interval_us)
{
	struct flmem_recorder recorder;
	uint64_t noise = 77;

	assert_int_equal(flmem_recorder_open(path, &recorder, NULL), 0);
	for (size_t session = 0; session < 2; session++) {
		uint64_t began_us = BEGAN + session * samples * interval_us * 2;
		struct flmem_record r = {.kind = FLMEM_RECORD_SESSION,
					 .interval_us = interval_us,
					 .at_us = began_us};

		flmem_recorder_add(&recorder, &r);
		for (uint64_t p = 0; p < 3; p++) {
			r = every[1];
			r.process = p * 20;
			flmem_recorder_add(&recorder, &r);
		}
		for (size_t i = 0; i < samples; i++) {
			r = (struct flmem_record){.kind = FLMEM_RECORD_TICK,
						  .elapsed_us = i * interval_us,
						  .at_us = began_us + i * interval_us};
			flmem_recorder_add(&recorder, &r);
			r.kind = FLMEM_RECORD_SAMPLE;
			for (uint64_t p = 0; p < 3; p++) {
				r.process = p * 20;
				r.bytes = (uint64_t)(1e6 + 1e6 * noise_uniform(&noise));
				if (i % (p + 1) == 0)
					flmem_recorder_add(&recorder, &r);
			}
			if (i % 41 == 7)
				flmem_recorder_add(&recorder, &every[7 + i % 11]);
		}
	}
	flmem_recorder_close(&recorder);
}

static void thin_to(uint64_t end_us, uint64_t keep_us, struct flmem_buf *out)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording from = FLMEM_RECORDING_INIT;
	struct flmem_recorder to;

	unlink(other);
	assert_int_equal(flmem_recorder_open_new(AT_FDCWD, other, &to), 0);
	assert_int_equal(flmem_recording_open(path, &from, NULL), 0);
	assert_true(flmem_recording_downsample(&from, end_us, keep_us, NULL, &to));
	flmem_recorder_close(&to);
	put_recording(out, other, 0);
}

static void thinned_recordings_are_as_kept(void **state)
{
	static const uint64_t intervals[] = {5000, SECOND, 3 * SECOND};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(intervals); i++) {
		FLMEM_AUTO(flmem_recording_close) struct flmem_recording r = FLMEM_RECORDING_INIT;
		struct flmem_recording_extent extent;

		assert_int_equal(truncate(path, 0), 0);
		write_long(120, intervals[i]);
		assert_int_equal(flmem_recording_open(path, &r, NULL), 0);
		flmem_recording_measure(&r, NULL, &extent);
		flmem_buf_printf(&out, "%" PRIu64 " us, %zu processes\n", extent.span_us,
				 extent.processes);
		thin_to(extent.span_us, extent.span_us / 4, &out);
		flmem_buf_puts(&out, "less kept\n");
		thin_to(extent.span_us, extent.span_us / 60, &out);
		flmem_buf_puts(&out, "nothing kept, and older\n");
		thin_to(extent.span_us * 3, 0, &out);
	}
	kept_compare("recordings/thinned.txt", &out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_record_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_of_records_are_as_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(bounds_are_as_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(long_texts_are_as_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_is_as_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(thinned_recordings_are_as_kept, setup, teardown),
	};

	return cmocka_run_group_tests_name("kept_recordings", tests, NULL, NULL);
}
