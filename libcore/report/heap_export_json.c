/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes all stacks of a profile as JSON. A tree of cJSON would take a hundred times the size of
 * the file, since each stack has all of its frames. The text of each frame is made once.
 */
#include "report/heap_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct frame_texts {
	const struct flmem_heap_profile *profile;
	char **rows; /* texts by number of the frame; NULL: not needed yet */
};

static void clear_frame_texts(struct frame_texts *texts)
{
	for (size_t i = 0; texts->rows && i < texts->profile->frame_count; i++)
		cJSON_free(texts->rows[i]);
	free(texts->rows);
}

static char *take_object_text(cJSON *object)
{
	char *text = cJSON_PrintUnformatted(object);

	cJSON_Delete(object);
	return text;
}

static void put_frame_json(struct flmem_buf *out, struct frame_texts *texts, uint32_t frame)
{
	char **text = &texts->rows[frame];

	if (!*text)
		*text = take_object_text(flmem_json_heap_frame_object(texts->profile, frame));
	if (*text)
		flmem_buf_puts(out, *text);
	else
		out->failed = true;
}

/* Writes an object without its braces. */
static void put_object_members(struct flmem_buf *out, cJSON *object)
{
	char *text = take_object_text(object);

	if (text)
		flmem_buf_append(out, text + 1, strlen(text) - 2);
	else
		out->failed = true;
	cJSON_free(text);
}

static void put_site_json(struct flmem_buf *out, struct frame_texts *texts,
			  const struct flmem_heap_site *site)
{
	const struct flmem_heap_node *nodes = texts->profile->nodes;
	cJSON *object = cJSON_CreateObject();

	flmem_buf_puts(out, "{\"stack\":[");
	for (uint32_t node = site->node; node; node = nodes[node].parent) {
		put_frame_json(out, texts, nodes[node].frame);
		flmem_buf_puts(out, nodes[node].parent ? "," : "");
	}
	flmem_buf_puts(out, "],");
	flmem_json_fill_heap_site(object, texts->profile, site);
	put_object_members(out, object);
	flmem_buf_putc(out, '}');
}

bool flmem_heap_json_put(struct flmem_buf *out, const struct flmem_heap_profile *profile,
			 enum flmem_heap_measure measure)
{
	FLMEM_AUTO_FREE uint32_t *sites = flmem_heap_largest_sites(profile, measure);
	const struct flmem_heap_table head = {0};
	FLMEM_AUTO(clear_frame_texts)
	struct frame_texts texts = {profile, calloc(profile->frame_count + 1, sizeof(char *))};

	if (!sites || !texts.rows)
		return false;
	flmem_buf_putc(out, '{');
	put_object_members(out, flmem_json_heap_table(profile, measure, &head));
	flmem_buf_puts(out, ",\"sites\":[");
	for (size_t i = 0; i < profile->site_count && !out->failed; i++) {
		flmem_buf_puts(out, i ? ",\n" : "\n");
		put_site_json(out, &texts, &profile->sites[sites[i]]);
	}
	flmem_buf_puts(out, "]}\n");
	return !out->failed;
}
