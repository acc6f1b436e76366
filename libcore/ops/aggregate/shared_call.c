/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/shared_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes/fnv.h"

/* What a process reports to all. */
struct report {
	struct flmem_error error;
	int rc;
	uint64_t print; /* of what it writes; 0: not known */
};

static unsigned own_rank; /* for flmem_aggregate_process() */

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
		{request->shard_bytes, "--shard-size"},
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
	const struct flmem_algorithm *algorithm = call->run.combination.algorithm;
	int rc;

	call->ranks.count = 1;
	if (!call->request->mpi)
		return 0;
	if (algorithm->measures)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' measures all inputs first, which one process does; "
				       "run it without --mpi",
				       flmem_algorithm_name(algorithm));
	rc = flmem_ranks_start(&call->ranks, err);
	if (rc)
		return rc;
	own_rank = call->ranks.rank;
	/* Now, since the others wait for the report of a process whose memory is out later. */
	call->reports = calloc(call->ranks.count, sizeof(struct report));
	return call->reports ? 0 : flmem_aggregate_call_nomem(call, err);
}

static uint64_t make_print(const struct flmem_aggregate_call *call)
{
	const struct flmem_buf *header = &call->layout.header;
	uint64_t hash = flmem_fnv_mix(FLMEM_FNV_START, header->data, header->length);
	size_t count = call->run.input_count;

	hash = flmem_fnv_mix(hash, &call->run.chunk_bytes, sizeof(call->run.chunk_bytes));
	hash = flmem_fnv_mix(hash, call->weights, count * sizeof(*call->weights));
	for (size_t i = 0; i < call->request->input_count; i++)
		for (size_t f = 0; f < call->inputs[i].file_count; f++)
			hash = flmem_fnv_mix(hash, &call->inputs[i].files[f].status.st_size,
					     sizeof(off_t));
	return hash;
}

static int compare_reports(const struct report *reports, size_t count, unsigned own,
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
				"process %zu reads other inputs than process 0: give "
				"all of them the same options and the same files",
				i);
	return 0;
}

int flmem_shared_call_agree(const struct flmem_aggregate_call *call, int rc,
			    struct flmem_error *err)
{
	const struct flmem_ranks *ranks = &call->ranks;
	struct report own = {.rc = rc};

	if (ranks->count <= 1)
		return rc;
	if (rc && err)
		own.error = *err;
	own.print = rc ? 0 : make_print(call);
	rc = flmem_ranks_gather(ranks, &own, sizeof(own), call->reports, err);
	return rc ? rc : compare_reports(call->reports, ranks->count, ranks->rank, err);
}

static size_t chunks_each(const struct flmem_aggregate_call *call)
{
	return (call->run.chunk_count + call->ranks.count - 1) / call->ranks.count;
}

void flmem_shared_call_divide(struct flmem_aggregate_call *call)
{
	struct flmem_run *run = &call->run;
	size_t each = chunks_each(call), first = each * call->ranks.rank;

	run->first_chunk = first < run->chunk_count ? first : run->chunk_count;
	run->chunk_limit = first + each < run->chunk_count ? first + each : run->chunk_count;
}

int flmem_shared_call_join(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc = flmem_part_file_join(&call->part, call->request->output, call->output.bytes, err);

	call->output.file.fd = call->part.fd;
	return rc;
}

/* Checksums of the chunks by their places. */
static int gather_checksums(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	size_t each = chunks_each(call);
	FLMEM_AUTO_FREE uint32_t *mine = calloc(each + 1, sizeof(*mine));
	FLMEM_AUTO_FREE uint32_t *all = calloc(each * call->ranks.count + 1, sizeof(*all));
	int rc;

	if (!mine || !all)
		return flmem_aggregate_call_nomem(call, err);
	for (size_t i = run->first_chunk; i < run->chunk_limit; i++)
		mine[i - run->first_chunk] = run->chunks[i].crc32c;
	rc = flmem_ranks_gather(&call->ranks, mine, each * sizeof(*mine), all, err);
	for (size_t i = 0; i < run->chunk_count && !rc; i++)
		run->chunks[i].crc32c = all[i];
	return rc;
}

static int gather_read_bytes(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	FLMEM_AUTO_FREE uint64_t *all = calloc(call->ranks.count, sizeof(*all));
	uint64_t sum = 0;
	int rc;

	if (!all)
		return flmem_aggregate_call_nomem(call, err);
	rc = flmem_ranks_gather(&call->ranks, &call->read_bytes, sizeof(*all), all, err);
	for (unsigned i = 0; i < call->ranks.count; i++)
		sum += all[i];
	if (!rc)
		call->read_bytes = sum;
	return rc;
}

int flmem_shared_call_collect(struct flmem_aggregate_call *call, int rc, struct flmem_error *err)
{
	for (size_t i = 0; i < call->request->input_count && !rc; i++)
		rc = flmem_input_check(&call->inputs[i], err);
	if (!rc && fdatasync(call->part.fd) < 0)
		rc = flmem_error_set(err, FLMEM_EFAILED, errno,
				     "cannot flush '%s.part' to the disk", call->request->output);
	rc = flmem_shared_call_agree(call, rc, err);
	if (!rc)
		rc = gather_checksums(call, err);
	return rc ? rc : gather_read_bytes(call, err);
}
