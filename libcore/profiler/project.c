/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/project.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "profiler/amounts.h"
#include "profiler/index_set.h"

struct node_wanted {
	const struct flmem_heap_node *nodes;
	struct flmem_heap_node node;
};

struct frame_filter {
	enum flmem_heap_stacks stacks;
	bool import_frames;
};

static bool is_node(const void *context, uint32_t index)
{
	const struct node_wanted *wanted = context;
	const struct flmem_heap_node *node = &wanted->nodes[index];

	return node->parent == wanted->node.parent && node->frame == wanted->node.frame;
}

/*
 * True for frames of importlib and zipimport, which are part of the interpreter and have no files.
 */
static bool is_import_frame(const struct flmem_heap_frame *frame)
{
	return frame->python && frame->file &&
	       (flmem_text_starts(frame->file, "<frozen importlib.") ||
		flmem_text_starts(frame->file, "<frozen zipimport>"));
}

/*
 * True if the frame is kept. The importing line is more useful than the five frames between it and
 * the module.
 */
static bool is_frame_kept(const struct frame_filter *projection,
			  const struct flmem_heap_frame *frame, bool has_caller)
{
	if (has_caller && !projection->import_frames && is_import_frame(frame))
		return false;
	return projection->stacks == FLMEM_HEAP_STACKS_MIXED ||
	       frame->python == (projection->stacks == FLMEM_HEAP_STACKS_PYTHON);
}

/* Fills `map` with the new number of each node; new nodes overwrite the old ones before them. */
static bool renumber_nodes(struct flmem_heap_profile *p, const struct frame_filter *projection,
			   uint32_t *map)
{
	FLMEM_AUTO_INDEX_SET struct flmem_index_set set;
	uint32_t count = 1;

	flmem_index_set_init(&set);
	map[0] = 0;
	for (size_t i = 1; i < p->node_count; i++) {
		const struct node_wanted wanted = {
			.nodes = p->nodes,
			.node = {map[p->nodes[i].parent], p->nodes[i].frame},
		};
		const struct flmem_index_key key = {
			.hash = flmem_fnv_mix(set.seed, &wanted.node, sizeof(wanted.node)),
			.same = is_node,
			.context = &wanted,
		};

		map[i] = wanted.node.parent;
		if (!is_frame_kept(projection, &p->frames[wanted.node.frame], wanted.node.parent))
			continue;
		map[i] = flmem_index_set_take(&set, &key, count);
		if (map[i] == FLMEM_INDEX_NONE)
			return false;
		if (map[i] == count)
			p->nodes[count++] = wanted.node;
	}
	p->node_count = count;
	return true;
}

/* Merges sites of equal nodes; `site_map` gets the new number of each site. */
static void merge_sites(struct flmem_heap_profile *p, const uint32_t *map, uint32_t *site_of,
			uint32_t *site_map)
{
	size_t count = 0;

	memset(site_of, 0xff, 2 * p->node_count * sizeof(*site_of));
	for (size_t i = 0; i < p->site_count; i++) {
		struct flmem_heap_site site = p->sites[i];
		uint32_t *at;

		site.node = map[site.node];
		at = &site_of[2 * (size_t)site.node + site.arenas];
		if (*at == FLMEM_INDEX_NONE) {
			*at = (uint32_t)count;
			p->sites[count++] = site;
		} else {
			flmem_amounts_add(&p->sites[*at].amounts, &site.amounts);
			p->sites[*at].count_variance += site.count_variance;
			p->sites[*at].twice += site.twice;
		}
		site_map[i] = *at;
	}
	p->site_count = count;
	for (size_t i = 0; i < p->change_count; i++)
		p->changes[i].site = site_map[p->changes[i].site];
	for (size_t i = 0; i < p->survivor_count; i++)
		p->survivors[i].site = site_map[p->survivors[i].site];
}

int flmem_heap_project(struct flmem_heap_profile *profile, const struct flmem_heap_request *request,
		       struct flmem_error *err)
{
	const struct frame_filter projection = {profile->stacks, request->import_frames};
	FLMEM_AUTO_FREE uint32_t *map = calloc(profile->node_count, sizeof(*map));
	FLMEM_AUTO_FREE uint32_t *site_of = calloc(2 * profile->node_count, sizeof(*site_of));
	FLMEM_AUTO_FREE uint32_t *site_map = calloc(profile->site_count + 1, sizeof(*site_map));

	if (!map || !site_of || !site_map || !renumber_nodes(profile, &projection, map))
		return flmem_error_nomem(err, "cannot read the stacks of '%s'", profile->path);
	merge_sites(profile, map, site_of, site_map);
	return 0;
}
