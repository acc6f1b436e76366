/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_OUTPUT_H
#define FLMEM_OPS_AGGREGATE_OUTPUT_H

/*
 * The file that an aggregation writes: where it has the tensors of the layout, and its other bytes,
 * which are written last. The suffix of its name decides the format.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/output_layout.h"
#include "ops/aggregate/part_file.h"

/* An entry of an archive that contains tensors, and the places of its checksum in the file. */
struct flmem_output_entry {
	uint64_t offset, bytes;
	uint64_t places[3]; /* 0: no place */
	uint32_t crc32, crc32c;
};

/* Bytes of `text`, and their place in the file. */
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
	uint64_t shard_bytes;	      /* 0: the output is one file */
	struct flmem_output_shards *shards;
	struct flmem_input map; /* places of the tensors in the output */
	struct flmem_buf text;
	struct flmem_output_text *texts;
	size_t text_count;
	/*
	 * The archive from which everything but the tensors is copied; NULL: the output has `texts`
	 * instead.
	 */
	const struct flmem_input *source;
	bool untied; /* tensors that share bytes in the source may get different results */
	struct flmem_output_entry *entries; /* sorted by their places */
	size_t entry_count;
	char *block;	 /* buffer for finishing the output */
	uint32_t crc32c; /* CRC-32C of the whole file, known after it was finished; for archives */
};

/* Returns the format that the name of an output implies. */
enum flmem_tensor_format flmem_output_format(const char *path);

/* Returns the length of a suffix that names a format; 0: the name has none. */
size_t flmem_output_suffix_length(const char *path);

/*
 * Plans the file. `inputs` are all inputs and bases; a checkpoint is a copy of the first.
 * FLMEM_EUSAGE for models that the format cannot hold.
 */
int flmem_output_plan(struct flmem_output *output, const struct flmem_layout *layout,
		      const struct flmem_input *inputs, size_t count, struct flmem_error *err);

/* FLMEM_EUSAGE if the output would replace the only name of a file of one of the inputs. */
int flmem_output_check_inputs(const char *path, const struct flmem_input *inputs, size_t count,
			      struct flmem_error *err);

/*
 * Two tensors that share bytes in one input, but have different bytes in another input, or in the
 * same one.
 */
struct flmem_split_tensors {
	const char *names[2];
	size_t input;
};

/*
 * Finds out whether the mean of two checkpoints cannot be a copy of either. Returns 1 and the
 * tensors, 0 if it can be a copy, -1 if memory is out.
 */
int flmem_output_find_split(const struct flmem_layout *layout, const struct flmem_input inputs[2],
			    struct flmem_split_tensors *ret_split);

/* One function per format, called by flmem_output_plan(). */
int flmem_output_plan_checkpoint(struct flmem_output *output, const struct flmem_input *inputs,
				 size_t count, struct flmem_error *err);

int flmem_output_plan_npz(struct flmem_output *output, struct flmem_error *err);

/* Writes bytes [begin, end) of the layout's data. */
int flmem_output_write(const struct flmem_output *output, uint64_t begin, uint64_t end,
		       const char *bytes, struct flmem_error *err);

/* Reads bytes [begin, end) back; false if they cannot be read. */
bool flmem_output_read(const struct flmem_output *output, uint64_t begin, uint64_t end, char *out);

/* Opens the unfinished output, whose lock excludes other writers. */
int flmem_output_open(struct flmem_output *output, struct flmem_error *err);

/* Calls flmem_part_file_prepare() for all files of the output. */
int flmem_output_prepare(struct flmem_output *output, uint64_t fingerprint,
			 struct flmem_journal_chunk *chunks, size_t count, struct flmem_error *err);

/*
 * Opens the files that another process has prepared, to write these bytes of the layout's data: of
 * shards only those that contain some of them.
 */
int flmem_output_join(struct flmem_output *output, uint64_t begin, uint64_t end, uint64_t mark,
		      struct flmem_error *err);

/*
 * Returns the place in the layout's data at which a shard begins and that is nearest to `at`; for
 * one file `at` itself.
 */
uint64_t flmem_output_nearest_shard(const struct flmem_output *output, uint64_t at);

/* Starts to write these bytes to the disk. */
void flmem_output_push(const struct flmem_output *output, uint64_t begin, uint64_t end);

/* Waits until these bytes are on the disk, and drops them from the page cache. */
int flmem_output_drop(const struct flmem_output *output, uint64_t begin, uint64_t end,
		      struct flmem_error *err);

/* Flushes what this process has written to the disk. */
int flmem_output_flush(const struct flmem_output *output, struct flmem_error *err);

/* Writes everything that is not a tensor, checksums included. */
int flmem_output_finish(struct flmem_output *output, struct flmem_error *err);

/* Renames the unfinished output to its final name. */
int flmem_output_commit(struct flmem_output *output, struct flmem_error *err);

/* Frees what the output owns, its part file included. */
void flmem_output_clear(struct flmem_output *output);

#endif
