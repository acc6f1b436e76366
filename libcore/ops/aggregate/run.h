/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_RUN_H
#define FLMEM_OPS_AGGREGATE_RUN_H

/*
 * One pass over the data in chunks, by several threads. A thread takes the next chunk, reads it
 * from all inputs in blocks that fit the processor's cache, combines and writes each block. So
 * reading, computing and writing overlap, and memory use is threads x inputs x block.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <flmem/aggregate.h>

#include "aggregate/algorithm.h"
#include "aggregate/combine.h"
#include "aggregate/exact_sum.h"
#include "aggregate/journal.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/input_direct.h"
#include "ops/aggregate/input_mapped.h"
#include "ops/aggregate/output.h"
#include "ops/aggregate/output_layout.h"
#include "ops/aggregate/part_file.h"
#include "ops/aggregate/state.h"

/* Most chunks that are read ahead at the same time: a power of two above the threads. */
#define FLMEM_RUN_AHEAD 64U

enum flmem_run_kind {
	FLMEM_RUN_COMBINE,
	FLMEM_RUN_SCAN,	   /* searches for inputs with a NaN or an infinity */
	FLMEM_RUN_MEASURE, /* measures norms or distances */
};

struct flmem_run {
	const struct flmem_aggregate_request *request;
	const struct flmem_layout *layout;
	struct flmem_input *
		*inputs;    /* inputs that are part of the result, and after them the base */
	size_t input_count; /* number of inputs without the base */
	struct flmem_combination combination;
	struct flmem_output *output;
	struct flmem_state *state; /* NULL: the algorithm keeps no state */
	struct flmem_journal_chunk *chunks;
	size_t chunk_count;
	uint64_t begin, end; /* range of the output's data that this process combines */
	/* Chunks that have bytes of this range, perhaps a part of each. */
	size_t first_chunk, chunk_limit;
	uint64_t chunk_bytes;
	size_t block_bytes;
	unsigned threads;
	/* One flag per input, set by a scanning pass after a NaN or an infinity was found. */
	atomic_bool *non_finite;
	enum flmem_run_kind kind;
	/* Results of a measuring pass: one per input, or per pair of inputs. */
	struct flmem_exact_sum *sums;
	uint64_t earlier_bytes; /* bytes read by the passes before */
	unsigned pass, passes;	/* number of this pass, and how many are planned */
	bool verifies;		/* the output is checked instead of written */

	atomic_size_t next;
	atomic_bool stop, found_special;
	atomic_uint_fast64_t done_bytes, resumed_bytes;
	atomic_uint_fast64_t verified; /* number of verified elements */
	size_t resumed_limit; /* index after the last chunk that an earlier run has written */
	/* FLMEM_RUN_AHEAD x inputs flags: the input's bytes were in the page cache before. */
	atomic_bool *cached;
	size_t window_bytes;	 /* argument of flmem_direct_windows_init() */
	pthread_mutex_t writing; /* held by a thread that writes to an output */
	pthread_mutex_t lock;	 /* protects the fields below */
	pthread_cond_t changed;
	unsigned running;
	int rc;
	struct flmem_error error;
	uint64_t peak_anon_bytes;
};

void flmem_run_locks_init(struct flmem_run *run);
void flmem_run_locks_clear(struct flmem_run *run);

/*
 * Limits the passes to a range of the output's data, whose ends are at tensors or multiples of 8
 * bytes.
 */
void flmem_run_limit(struct flmem_run *run, uint64_t begin, uint64_t end);

/* Returns the CRC-32C of the range within the limits, after a pass that combined it. */
uint32_t flmem_run_crc32c(const struct flmem_run *run);

/*
 * Makes one pass. found_special is set, with 0 returned, if an input or the result has a NaN or an
 * infinity and inputs may be skipped; the pass then ended there.
 */
int flmem_run_pass(struct flmem_run *run, uint64_t started_us, struct flmem_error *err);

/* Reports that the result has a NaN or an infinity although no input has. */
int flmem_run_report_special(const struct flmem_run *run, struct flmem_error *err);

/* Memory of one thread. */
struct flmem_run_buffers {
	/*
	 * Buffers of a block, one per input; the last one is for the output. They are in `memory`
	 * or in mapped pages.
	 */
	char **inputs;
	char *memory;
	struct flmem_direct_windows direct;
	struct flmem_mapped_windows mapped;
	struct flmem_combine_rows rows;
	struct flmem_exact_sum *sums; /* results of a measuring pass */
	struct flmem_combine_state state;
	char *state_memory;
	uint32_t state_crc32c; /* checksum of what was written of the chunk's state */
};

/* Returns the number of inputs and base. */
static inline size_t flmem_run_sources(const struct flmem_run *run)
{
	return run->input_count + run->combination.has_base;
}

/* Returns the end of a chunk in the output's data, within the limits of the run. */
static inline uint64_t flmem_run_chunk_end(const struct flmem_run *run, size_t chunk)
{
	uint64_t end = (chunk + 1) * run->chunk_bytes;

	return end < run->end ? end : run->end;
}

/*
 * Returns the flags of a chunk, one per input: whether the page cache had its bytes when they were
 * read ahead.
 */
static inline atomic_bool *flmem_run_cached(const struct flmem_run *run, size_t chunk)
{
	return run->cached + chunk % FLMEM_RUN_AHEAD * flmem_run_sources(run);
}

/* Returns the number of values that a measuring pass computes. */
size_t flmem_run_measured(const struct flmem_run *run);

/* Reads, combines and writes one chunk; *ret_crc32c is the checksum of its output. */
int flmem_run_combine(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
		      uint64_t end, uint32_t *ret_crc32c, struct flmem_error *err);

/* Reads back the written state of one chunk, for its checksum. */
int flmem_run_verify_state(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
			   uint64_t end, struct flmem_error *err);

/* Searches one chunk of all inputs for NaNs and infinities. */
int flmem_run_scan(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
		   uint64_t end, struct flmem_error *err);

/* Measures one chunk of all inputs. */
int flmem_run_measure(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
		      uint64_t end, struct flmem_error *err);

#endif
