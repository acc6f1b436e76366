/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a folder of shards: every tensor has a file of the folder, each listed once. */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "model/shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_SHARDS struct flmem_shards shards = FLMEM_SHARDS_INIT;

	flmem_buf_append(&shards.text, data, size);
	if (flmem_shards_parse("folder", &shards, NULL))
		return 0;
	if (!shards.count || !shards.file_count || shards.file_count > shards.count)
		abort();
	for (size_t i = 0; i < shards.count; i++) {
		const struct flmem_shard_entry *entry = &shards.entries[i];

		if (entry->shard >= shards.file_count || strchr(entry->file, '/') ||
		    strcmp(shards.files[entry->shard], entry->file) != 0)
			abort();
	}
	for (size_t i = 1; i < shards.file_count; i++)
		if (strcmp(shards.files[i - 1], shards.files[i]) >= 0)
			abort();
	return 0;
}
