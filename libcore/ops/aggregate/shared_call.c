/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/shared_call.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes/crc32c.h"
#include "base/bytes/fnv.h"
#include "base/clock.h"

/*
 * A share may end a quarter of the average earlier or later at each end, so the longest has at most
 * half as much again as the average.
 */
#define SHARE_TOLERANCE 4U

/* Samples of each input, spread from its first bytes to its last ones. */
#define SAMPLES	     4U
#define SAMPLE_BYTES 4096U

/* Report of one process to all others. */
struct call_report {
	struct flmem_error error;
	int rc;
	uint64_t print;		    /* hash of what the process writes; 0: not known yet */
	uint64_t bytes, read_bytes; /* bytes of its part, and bytes that it has read */
	uint32_t crc32c;
	uint64_t mark; /* mark of the journal, from the first process */
};

static unsigned own_rank; /* rank of this process, for flmem_aggregate_process() */

unsigned flmem_aggregate_process(void)
{
	return own_rank;
}

int flmem_shared_call_check(const struct flmem_aggregate_request *request, struct flmem_error *err)
{
	const struct {
		bool given;
		const char *what;
	} rows[] = {
		{request->resume, "--resume"},
		{request->state, "--state"},
		{request->nan == FLMEM_NAN_SKIP_CLIENT, "--nan skip-client"},
		{strcmp(request->output, FLMEM_AGGREGATE_VERIFY) == 0, FLMEM_AGGREGATE_VERIFY},
	};

	for (size_t i = 0; request->mpi && i < FLMEM_ARRAY_SIZE(rows); i++)
		if (rows[i].given)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "--mpi and %s exclude each other", rows[i].what);
	return 0;
}

int flmem_shared_call_start(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc;

	call->ranks.count = 1;
	if (!call->request->mpi)
		return 0;
	rc = flmem_ranks_start(&call->ranks, err);
	if (rc)
		return rc;
	own_rank = call->ranks.rank;
	/*
	 * Allocated now: the others would wait for the report of a process that later runs out of
	 * memory.
	 */
	call->reports = calloc(call->ranks.count, sizeof(struct call_report));
	return call->reports ? 0 : flmem_aggregate_call_nomem(call, err);
}

int flmem_shared_call_sample(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	uint64_t bytes = flmem_layout_bytes(&call->layout), hash = FLMEM_FNV_START;
	uint64_t last = bytes < SAMPLE_BYTES ? 0 : (bytes - SAMPLE_BYTES) / 8 * 8;
	char sample[SAMPLE_BYTES];

	for (size_t i = 0; i < (call->request->input_count + 1) * SAMPLES; i++) {
		const struct flmem_input *input = &call->inputs[i / SAMPLES];
		uint64_t begin = last / (SAMPLES - 1) / 8 * 8 * (i % SAMPLES);
		uint64_t end = begin + SAMPLE_BYTES < bytes ? begin + SAMPLE_BYTES : bytes;
		int rc = input->file_count
				 ? flmem_input_read(input, &call->layout, begin, end, sample, err)
				 : 0;

		if (rc)
			return rc;
		if (input->file_count)
			hash = flmem_fnv_mix(hash, sample, (size_t)(end - begin));
	}
	call->samples = hash;
	return 0;
}

static uint64_t make_print(const struct flmem_aggregate_call *call)
{
	const struct flmem_buf *header = &call->layout.header;
	const uint64_t numbers[] = {flmem_aggregate_call_options_print(call), call->run.chunk_bytes,
				    call->request->shard_bytes, call->samples};
	uint64_t hash = flmem_fnv_mix(FLMEM_FNV_START, header->data, header->length);
	size_t count = call->run.input_count;

	hash = flmem_fnv_mix(hash, numbers, sizeof(numbers));
	hash = flmem_fnv_mix(hash, call->weights, count * sizeof(*call->weights));
	for (size_t i = 0; i <= call->request->input_count; i++) /* includes the base */
		for (size_t f = 0; f < call->inputs[i].file_count; f++)
			hash = flmem_fnv_mix(hash, &call->inputs[i].files[f].status.st_size,
					     sizeof(off_t));
	return hash;
}

static int compare_reports(const struct call_report *reports, size_t count, unsigned own,
			   struct flmem_error *err)
{
	for (size_t i = 0; i < count; i++) {
		if (!reports[i].rc)
			continue;
		if (err)
			*err = reports[i].error;
		return i == own ? reports[i].rc
				: flmem_error_prefix(err, reports[i].rc, "process %zu", i);
	}
	for (size_t i = 1; i < count; i++)
		if (reports[i].print != reports[0].print)
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0,
				"process %zu has other options or inputs than process 0: give "
				"all of them the same options and the same files",
				i);
	return 0;
}

int flmem_shared_call_agree(const struct flmem_aggregate_call *call, int rc,
			    struct flmem_error *err)
{
	const struct flmem_ranks *ranks = &call->ranks;
	struct call_report own = {
		.rc = rc,
		.bytes = call->run.end - call->run.begin,
		.read_bytes = call->read_bytes,
		.crc32c = call->crc32c,
		.mark = call->mark,
	};

	if (ranks->count <= 1)
		return rc;
	if (rc && err)
		own.error = *err;
	own.print = rc ? 0 : make_print(call);
	rc = flmem_ranks_gather(ranks, &own, sizeof(own), call->reports, err);
	return rc ? rc : compare_reports(call->reports, ranks->count, ranks->rank, err);
}

/*
 * Returns the beginning of a process's part. The parts are about equal; the last ones are empty if
 * there are more processes than chunks. A part begins with a shard if one begins near: then no two
 * processes write to one file.
 */
static uint64_t part_begin(const struct flmem_aggregate_call *call, unsigned rank,
			   enum flmem_run_kind kind)
{
	uint64_t bytes = flmem_layout_bytes(&call->layout), chunk = call->run.chunk_bytes;
	uint64_t share = bytes / call->ranks.count, near;
	uint64_t at = (share * rank + chunk - 1) / chunk * chunk;

	if (rank == call->ranks.count)
		return bytes;
	at = at < bytes ? at : bytes;
	/* The sums of a measuring pass are rounded at places that depend on the model only. */
	if (kind == FLMEM_RUN_MEASURE)
		return at;
	near = flmem_output_nearest_shard(&call->output, at);
	return (near > at ? near - at : at - near) <= share / SHARE_TOLERANCE ? near : at;
}

void flmem_shared_call_divide(struct flmem_aggregate_call *call, enum flmem_run_kind kind)
{
	flmem_run_limit(&call->run, part_begin(call, call->ranks.rank, kind),
			part_begin(call, call->ranks.rank + 1, kind));
}

int flmem_shared_call_share(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	if (getrandom(&call->mark, sizeof(call->mark), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(call->mark))
		call->mark = flmem_clock_wall_us();
	return flmem_part_file_share(&call->part, call->mark, err);
}

int flmem_shared_call_join(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	const struct call_report *first = call->reports;

	return flmem_output_join(&call->output, call->run.begin, call->run.end, first->mark, err);
}

int flmem_shared_call_add_sums(struct flmem_aggregate_call *call, int rc, struct flmem_error *err)
{
	struct flmem_exact_sum *all = call->reports; /* one set of sums of each process */
	size_t count = call->ranks.count > 1 ? flmem_run_measured(&call->run) : 0;

	_Static_assert(sizeof(*all) <= sizeof(struct call_report), "no room for a sum");
	rc = flmem_shared_call_agree(call, rc, err);
	for (size_t i = 0; i < count && !rc; i++) {
		struct flmem_exact_sum *sum = &call->run.sums[i];

		rc = flmem_ranks_gather(&call->ranks, sum, sizeof(*sum), all, err);
		*sum = (struct flmem_exact_sum){0};
		for (unsigned r = 0; r < call->ranks.count; r++)
			flmem_exact_sum_merge(sum, &all[r]);
	}
	return rc;
}

static void join_parts(struct flmem_aggregate_call *call)
{
	const struct call_report *reports = call->reports;

	call->read_bytes = call->crc32c = 0;
	for (unsigned i = 0; i < call->ranks.count; i++) {
		call->read_bytes += reports[i].read_bytes;
		call->crc32c = flmem_crc32c_join(call->crc32c, reports[i].crc32c, reports[i].bytes);
	}
}

int flmem_shared_call_collect(struct flmem_aggregate_call *call, int rc, struct flmem_error *err)
{
	for (size_t i = 0; i <= call->request->input_count && !rc; i++)
		rc = flmem_input_check(&call->inputs[i], err);
	if (!rc)
		rc = flmem_output_flush(&call->output, err);
	rc = flmem_shared_call_agree(call, rc, err);
	if (!rc)
		join_parts(call);
	return rc;
}
