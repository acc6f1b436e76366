/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_OUTPUT_H
#define FLMEM_OPS_AGGREGATE_OUTPUT_H

/*
 * The file that is written: where it has the tensors of the layout, and its other bytes, which are
 * written last. The name decides the format.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/output_layout.h"
#include "ops/aggregate/part_file.h"

/* An entry of an archive that has tensors, and the places where its checksum belongs. */
struct flmem_output_entry {
	uint64_t offset, bytes;
	uint64_t places[3]; /* 0: none */
	uint32_t crc32, crc32c;
};

/* Bytes of `text` that belong to a place of the file. */
struct flmem_output_text {
	uint64_t offset;
	size_t at, bytes;
};

struct flmem_output_shards;

struct flmem_output {
	const char *path;
	enum flmem_tensor_format format;
	uint64_t bytes;
	const struct flmem_layout *layout;
	struct flmem_part_file *part;
	struct flmem_input_file file; /* the unfinished file; not owned */
	uint64_t shard_bytes;	      /* 0: one file */
	struct flmem_output_shards *shards;
	struct flmem_input map; /* places of the tensors in it */
	struct flmem_buf text;
	struct flmem_output_text *texts;
	size_t text_count;
	/* All that is not a tensor is a copy of this archive; NULL: made of `texts`. */
	const struct flmem_input *source;
	bool untied;			    /* tensors that share bytes may get different results */
	struct flmem_output_entry *entries; /* by their places */
	size_t entry_count;
	char *block;	 /* while it is finished */
	uint32_t crc32c; /* of the whole file, after it was finished; of archives */
};

/* The format that the name of an output implies. */
enum flmem_tensor_format flmem_output_format(const char *path);

/* Length of a suffix that names a format; 0: none. */
size_t flmem_output_suffix_length(const char *path);

/*
 * Plans the file. `inputs` are all inputs and bases, the first of which a checkpoint is a copy of.
 * FLMEM_EUSAGE for models that the format cannot hold.
 */
int flmem_output_plan(struct flmem_output *output, const struct flmem_layout *layout,
		      const struct flmem_input *inputs, size_t count, struct flmem_error *err);

/*
 * FLMEM_EUSAGE if the output would replace a file of one of the inputs, of which no other name
 * exists.
 */
int flmem_output_check_inputs(const char *path, const struct flmem_input *inputs, size_t count,
			      struct flmem_error *err);

/* Two tensors that share bytes in one input, but are not the same bytes in another, or in it. */
struct flmem_split_tensors {
	const char *names[2];
	size_t input;
};

/*
 * Whether means of two checkpoints could not be a copy of either: 1 and the tensors, 0, or -1
 * without memory.
 */
int flmem_output_find_split(const struct flmem_layout *layout, const struct flmem_input inputs[2],
			    struct flmem_split_tensors *ret_split);

/* For the formats. */
int flmem_output_plan_checkpoint(struct flmem_output *output, const struct flmem_input *inputs,
				 size_t count, struct flmem_error *err);

int flmem_output_plan_npz(struct flmem_output *output, struct flmem_error *err);

/* Writes bytes [begin, end) of the layout's data. */
int flmem_output_write(const struct flmem_output *output, uint64_t begin, uint64_t end,
		       const char *bytes, struct flmem_error *err);

/* Reads them back; false if they cannot be read. */
bool flmem_output_read(const struct flmem_output *output, uint64_t begin, uint64_t end, char *out);

/* Opens the unfinished output, whose lock excludes other writers. */
int flmem_output_open(struct flmem_output *output, struct flmem_error *err);

/* flmem_part_file_prepare() for all of its files. */
int flmem_output_prepare(struct flmem_output *output, uint64_t fingerprint,
			 struct flmem_journal_chunk *chunks, size_t count, struct flmem_error *err);

/*
 * Opens what another process has prepared, to write these bytes of the layout's data to it: of
 * shards only those that have some of them.
 */
int flmem_output_join(struct flmem_output *output, uint64_t begin, uint64_t end, uint64_t mark,
		      struct flmem_error *err);

/* Of all places in the layout's data where a shard begins, the nearest one; `at` of one file. */
uint64_t flmem_output_nearest_shard(const struct flmem_output *output, uint64_t at);

/* Starts writing these bytes to the disk. */
void flmem_output_push(const struct flmem_output *output, uint64_t begin, uint64_t end);

/* Waits until they are on the disk, and drops them from the page cache. */
int flmem_output_drop(const struct flmem_output *output, uint64_t begin, uint64_t end,
		      struct flmem_error *err);

/* Flushes what this process has written. */
int flmem_output_flush(const struct flmem_output *output, struct flmem_error *err);

/* Writes all that is not a tensor, checksums included. */
int flmem_output_finish(struct flmem_output *output, struct flmem_error *err);

/* Gives the output its name. */
int flmem_output_commit(struct flmem_output *output, struct flmem_error *err);

/* Clears its part, too. */
void flmem_output_clear(struct flmem_output *output);

#endif
