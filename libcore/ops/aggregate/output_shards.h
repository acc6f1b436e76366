/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_OUTPUT_SHARDS_H
#define FLMEM_OPS_AGGREGATE_OUTPUT_SHARDS_H

/*
 * An output of several files: a folder with model-00001-of-0000N.safetensors and so on, and
 * model.safetensors.index.json. The folder is written as <output>.part, with the journal beside the
 * index, and renamed as a whole, so that readers never see a part of it.
 */

#include "ops/aggregate/output.h"

int flmem_output_plan_shards(struct flmem_output *output, struct flmem_error *err);
int flmem_output_open_shards(struct flmem_output *output, struct flmem_error *err);
int flmem_output_prepare_shards(struct flmem_output *output, uint64_t fingerprint,
				struct flmem_journal_chunk *chunks, size_t count,
				struct flmem_error *err);

/* flmem_output_join() of output.h, for shards. The first process has all files open. */
int flmem_output_join_shards(struct flmem_output *output, uint64_t begin, uint64_t end,
			     uint64_t mark, struct flmem_error *err);
uint64_t flmem_output_shards_nearest(const struct flmem_output *output, uint64_t at);
int flmem_output_flush_shards(const struct flmem_output *output, struct flmem_error *err);

/* Writes the headers of all files, and the index. */
int flmem_output_write_headers(const struct flmem_output *output, struct flmem_error *err);

int flmem_output_commit_shards(struct flmem_output *output, struct flmem_error *err);

/* Clears the part, and removes the folder unless the part is kept. */
void flmem_output_shards_free(struct flmem_output_shards *shards, struct flmem_part_file *part);

#endif
