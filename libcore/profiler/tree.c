/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_profile.h>

#include <stdlib.h>
#include <string.h>

#include <flmem/sort.h>

#include "base/cleanup.h"
#include "profiler/amounts.h"
#include "profiler/children.h"

#define LEAST_FIRST 1e-6 /* smallest share in the first attempt to leave small branches out */

struct tree_builder {
	const struct flmem_heap_profile *profile;
	const struct flmem_heap_tree_request *request;
	struct flmem_heap_amounts *own, *total; /* amounts of each node */
	uint32_t *depth;
	bool *kept;
	size_t count; /* number of kept nodes */
	double least;
};

/* Returns the largest share that the node has of any measure. */
static double node_share(const struct tree_builder *g, size_t node)
{
	double most = 0;

	for (size_t i = 0; i < FLMEM_HEAP_MEASURE_COUNT; i++) {
		uint64_t all = g->total[0].bytes[i];
		double share = all ? (double)g->total[node].bytes[i] / (double)all : 0;

		most = share > most ? share : most;
	}
	return most;
}

static size_t count_above(const struct tree_builder *g, double least)
{
	size_t count = 0;

	for (size_t i = 0; i < g->profile->node_count; i++)
		count += g->kept[i] && node_share(g, i) >= least;
	return count;
}

/* Leaves the smallest branches out until the rest is few enough. */
static void leave_out_small(struct tree_builder *g)
{
	double least = LEAST_FIRST;

	if (!g->request->branches_max || count_above(g, 0) <= g->request->branches_max)
		return;
	while (least < 1 && count_above(g, least) > g->request->branches_max)
		least *= 2;
	for (size_t i = 1; i < g->profile->node_count; i++)
		g->kept[i] = g->kept[i] && node_share(g, i) >= least;
	g->least = least;
}

struct site_order {
	const struct flmem_heap_profile *profile;
	enum flmem_heap_measure measure;
};

static int compare_sites(const void *a, const void *b, void *context)
{
	const struct site_order *order = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t one = order->profile->sites[x].amounts.bytes[order->measure];
	uint64_t other = order->profile->sites[y].amounts.bytes[order->measure];

	if (one == other)
		return x < y ? -1 : x > y;
	return one > other ? -1 : 1;
}

uint32_t *flmem_heap_largest_sites(const struct flmem_heap_profile *profile,
				   enum flmem_heap_measure measure)
{
	uint32_t *sorted = calloc(profile->site_count + 1, sizeof(*sorted));
	struct site_order order = {profile, measure};

	for (size_t i = 0; sorted && i < profile->site_count; i++)
		sorted[i] = (uint32_t)i;
	if (sorted)
		flmem_sort(sorted, profile->site_count, sizeof(*sorted), compare_sites, &order);
	return sorted;
}

static bool keep_largest_sites(struct tree_builder *g)
{
	const struct flmem_heap_profile *p = g->profile;
	enum flmem_heap_measure measure = g->request->measure;
	FLMEM_AUTO_FREE uint32_t *sorted = flmem_heap_largest_sites(p, measure);

	if (!sorted)
		return false;
	for (size_t i = 0; i < p->site_count && i < g->request->sites_max; i++) {
		const struct flmem_heap_site *site = &p->sites[sorted[i]];

		if (!site->amounts.bytes[measure])
			break;
		for (uint32_t node = site->node; !g->kept[node]; node = p->nodes[node].parent)
			g->kept[node] = true;
	}
	return true;
}

static bool choose_nodes(struct tree_builder *g)
{
	g->kept[0] = true;
	if (!g->request->sites_max)
		memset(g->kept, true, g->profile->node_count * sizeof(*g->kept));
	else if (!keep_largest_sites(g))
		return false;
	leave_out_small(g);
	g->count = 0;
	for (size_t i = 0; i < g->profile->node_count; i++)
		g->count += g->kept[i];
	return true;
}

static int compare_node_totals(const void *a, const void *b, void *context)
{
	const struct tree_builder *g = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t one = g->total[x].bytes[g->request->measure];
	uint64_t other = g->total[y].bytes[g->request->measure];

	if (one == other)
		return x < y ? -1 : x > y;
	return one > other ? 1 : -1;
}

/*
 * Lists the branches depth first, with a stack: the children of a node are pushed smallest first.
 * Every node is pushed once, so the stack never holds more than all nodes.
 */
static void list_branches(const struct tree_builder *g, const struct flmem_heap_children *children,
			  uint32_t *stack, struct flmem_heap_branch *branches)
{
	size_t top = 1, count = 0;

	stack[0] = 0;
	while (top) {
		uint32_t node = stack[--top];
		struct flmem_heap_branch *branch = &branches[count++];
		size_t first = top;

		*branch = (struct flmem_heap_branch){
			.node = node,
			.depth = g->depth[node],
			.own = g->own[node],
			.total = g->total[node],
		};
		for (uint32_t child = children->first[node]; child != FLMEM_NODE_NONE;
		     child = children->next[child])
			if (g->kept[child])
				stack[top++] = child;
		flmem_sort(stack + first, top - first, sizeof(*stack), compare_node_totals,
			   (void *)g);
	}
}

static bool measure_nodes(struct tree_builder *g)
{
	const struct flmem_heap_profile *p = g->profile;

	g->own = calloc(p->node_count, sizeof(*g->own));
	g->depth = calloc(p->node_count, sizeof(*g->depth));
	g->kept = calloc(p->node_count, sizeof(*g->kept));
	g->total = flmem_heap_totals(p);
	if (!g->own || !g->depth || !g->kept || !g->total)
		return false;
	for (size_t i = 0; i < p->site_count; i++)
		flmem_amounts_add(&g->own[p->sites[i].node], &p->sites[i].amounts);
	for (size_t i = 1; i < p->node_count; i++)
		g->depth[i] = g->depth[p->nodes[i].parent] + 1;
	return true;
}

static void clear_growing(struct tree_builder *g)
{
	free(g->own);
	free(g->total);
	free(g->depth);
	free(g->kept);
}

int flmem_heap_tree_make(const struct flmem_heap_profile *profile,
			 const struct flmem_heap_tree_request *request,
			 struct flmem_heap_tree *ret_tree, struct flmem_error *err)
{
	FLMEM_AUTO(clear_growing) struct tree_builder g = {.profile = profile, .request = request};
	FLMEM_AUTO_CHILDREN struct flmem_heap_children children = {0};
	FLMEM_AUTO_FREE uint32_t *stack = calloc(profile->node_count, sizeof(*stack));
	struct flmem_heap_branch *branches;

	if (!stack || !measure_nodes(&g) || !choose_nodes(&g) ||
	    !flmem_heap_children_make(profile, &children))
		return flmem_error_nomem(err, "cannot make a tree of '%s'", profile->path);
	branches = calloc(g.count + 1, sizeof(*branches));
	if (!branches)
		return flmem_error_nomem(err, "cannot make a tree of '%s'", profile->path);
	list_branches(&g, &children, stack, branches);
	*ret_tree = (struct flmem_heap_tree){
		.branches = branches,
		.count = g.count,
		.left_out = profile->node_count - g.count,
		.least = g.least,
	};
	return 0;
}

void flmem_heap_tree_clear(struct flmem_heap_tree *tree)
{
	free(tree->branches);
	*tree = (struct flmem_heap_tree){0};
}
