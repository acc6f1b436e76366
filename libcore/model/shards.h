/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_SHARDS_H
#define FLMEM_MODEL_SHARDS_H

/* Reads model.safetensors.index.json, which maps each tensor to a file of the folder. */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "base/text/buf.h"

#define FLMEM_SHARDS_INDEX "model.safetensors.index.json"
#define FLMEM_SHARDS_MAX   10000U

struct flmem_shard_entry {
	const char *tensor, *file; /* points into the text */
	uint32_t shard;
};

struct flmem_shards {
	struct flmem_shard_entry *entries; /* in the order of the index */
	size_t count, room;
	const char **files; /* sorted; each file occurs once */
	size_t file_count;
	struct flmem_buf text;
};

#define FLMEM_SHARDS_INIT              \
	{                              \
		.text = FLMEM_BUF_INIT \
	}

/*
 * Reads the index of an open folder. FLMEM_EUSAGE for one that is invalid, names no file, or names
 * one outside the folder. `folder` is for messages. Clear `ret_shards` in either case.
 */
int flmem_shards_read(int dirfd, const char *folder, struct flmem_shards *ret_shards,
		      struct flmem_error *err);

/*
 * Parses a text that is in `shards->text` already. `index` names its file in messages. Errors as
 * for flmem_shards_read().
 */
int flmem_shards_parse(const char *index, struct flmem_shards *shards, struct flmem_error *err);

void flmem_shards_clear(struct flmem_shards *shards);

#define FLMEM_AUTO_SHARDS FLMEM_AUTO(flmem_shards_clear)

#endif
