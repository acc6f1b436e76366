/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/string_pool.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/index_set.h"

struct flmem_string_pool {
	struct flmem_index_set set;
	char **rows;
	size_t count, room;
};

struct wanted_text {
	const struct flmem_string_pool *texts;
	const char *bytes;
	size_t length;
};

struct flmem_string_pool *flmem_string_pool_new(void)
{
	struct flmem_string_pool *texts = calloc(1, sizeof(*texts));

	if (texts)
		flmem_index_set_init(&texts->set);
	return texts;
}

void flmem_string_pool_free(struct flmem_string_pool *texts)
{
	if (!texts)
		return;
	for (size_t i = 0; i < texts->count; i++)
		free(texts->rows[i]);
	free(texts->rows);
	flmem_index_set_clear(&texts->set);
	free(texts);
}

static bool is_wanted(const void *context, uint32_t index)
{
	const struct wanted_text *wanted = context;
	const char *row = wanted->texts->rows[index];

	return strncmp(row, wanted->bytes, wanted->length) == 0 && !row[wanted->length];
}

/* Adds a row with a copy of the bytes. */
static bool put_frame_text(struct flmem_string_pool *texts, const char *bytes, size_t length)
{
	if (texts->count == texts->room) {
		size_t room = texts->room ? texts->room * 2 : 256;
		char **grown = reallocarray(texts->rows, room, sizeof(*grown));

		if (!grown)
			return false;
		texts->rows = grown;
		texts->room = room;
	}
	texts->rows[texts->count] = strndup(bytes, length);
	return texts->rows[texts->count] != NULL;
}

const char *flmem_string_pool_keep(struct flmem_string_pool *texts, const char *bytes,
				   size_t length)
{
	const struct wanted_text wanted = {texts, bytes, length};
	const struct flmem_index_key key = {
		.hash = flmem_fnv_mix(texts->set.seed, bytes, length),
		.same = is_wanted,
		.context = &wanted,
	};
	uint32_t found = flmem_index_set_find(&texts->set, &key);

	if (found != FLMEM_INDEX_NONE)
		return texts->rows[found];
	if (texts->count >= FLMEM_INDEX_NONE || !put_frame_text(texts, bytes, length))
		return NULL;
	if (flmem_index_set_take(&texts->set, &key, (uint32_t)texts->count) == FLMEM_INDEX_NONE) {
		free(texts->rows[texts->count]);
		return NULL;
	}
	return texts->rows[texts->count++];
}
