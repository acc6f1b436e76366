/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_profile.h>

#include <stdlib.h>

#include <flmem/sort.h>

#include "base/cleanup.h"
#include "profiler/amounts.h"
#include "profiler/children.h"
#include "profiler/frames.h"
#include "profiler/index_set.h"
#include "profiler/sampling_error.h"

/* Rows under construction. The first one is that of stacks without frames. */
struct row_table {
	const struct flmem_heap_profile *profile;
	enum flmem_heap_key key;
	enum flmem_frame_identity identity;
	enum flmem_heap_measure measure;
	struct flmem_heap_row *rows;
	size_t count;
	uint32_t *row_of;		     /* for each frame: index of its row */
	uint64_t *parts;		     /* for each frame: its part of the total of its row */
	struct flmem_heap_sampled_sum *sums; /* one sum for each row */
};

struct row_wanted {
	const struct row_table *table;
	const struct flmem_heap_frame *frame;
};

static bool is_row(const void *context, uint32_t index)
{
	const struct row_wanted *wanted = context;
	const struct flmem_heap_row *row = &wanted->table->rows[index];

	return flmem_heap_frame_equal(&wanted->table->profile->frames[row->frame], wanted->frame,
				      wanted->table->identity);
}

static bool group_frames(struct row_table *table)
{
	FLMEM_AUTO_INDEX_SET struct flmem_index_set set;

	flmem_index_set_init(&set);
	table->rows[0] =
		(struct flmem_heap_row){FLMEM_HEAP_NO_FRAME, .own_frame = FLMEM_HEAP_NO_FRAME};
	table->count = 1;
	for (size_t i = 0; i < table->profile->frame_count; i++) {
		const struct row_wanted wanted = {table, &table->profile->frames[i]};
		const struct flmem_index_key key = {
			.hash = flmem_heap_frame_hash(set.seed, wanted.frame, table->identity),
			.same = is_row,
			.context = &wanted,
		};
		uint32_t row = flmem_index_set_take(&set, &key, (uint32_t)table->count);

		if (row == FLMEM_INDEX_NONE)
			return false;
		if (row == table->count)
			table->rows[table->count++] = (struct flmem_heap_row){
				(uint32_t)i, .own_frame = FLMEM_HEAP_NO_FRAME};
		table->row_of[i] = row;
	}
	return true;
}

static uint32_t row_of_node(const struct row_table *table, uint32_t node)
{
	return node ? table->row_of[table->profile->nodes[node].frame] : 0;
}

/* Returns the node whose row gets what was allocated in this node. */
static uint32_t owner_of_node(const struct row_table *table, uint32_t node)
{
	const struct flmem_heap_profile *p = table->profile;
	uint32_t python = node;

	if (table->key != FLMEM_HEAP_BY_PYTHON_FUNCTION)
		return node;
	while (python && !p->frames[p->nodes[python].frame].python)
		python = p->nodes[python].parent;
	return python ? python : node;
}

static void add_own_amounts(struct row_table *table)
{
	for (size_t i = 0; i < table->profile->site_count; i++) {
		const struct flmem_heap_site *site = &table->profile->sites[i];
		uint32_t row = row_of_node(table, owner_of_node(table, site->node));

		flmem_amounts_add(&table->rows[row].own, &site->amounts);
		table->rows[row].live_variance += site->live_variance;
		flmem_heap_sum_add(table->profile, site, table->measure, &table->sums[row]);
		if (site->arenas)
			table->rows[row].arena_bytes = flmem_amount_sum(
				table->rows[row].arena_bytes, site->amounts.bytes[table->measure]);
	}
	for (size_t i = 0; i < table->count; i++)
		table->rows[i].variance = flmem_heap_sum_variance(table->profile, &table->sums[i]);
	table->rows[0].total = table->rows[0].own;
}

/* The part of a row's own amount that one line of the program's own code has. */
struct own_part {
	uint32_t row, frame;
	uint64_t bytes;
};

static int compare_own_parts(const void *a, const void *b)
{
	const struct own_part *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static bool choose_own_frames(struct row_table *table)
{
	const struct flmem_heap_profile *p = table->profile;
	FLMEM_AUTO_FREE struct own_part *parts = calloc(p->site_count + 1, sizeof(*parts));
	FLMEM_AUTO_FREE uint32_t *own = flmem_heap_own_frames(p);
	uint64_t most = 0, sum = 0;

	if (!parts || !own)
		return false;
	for (size_t i = 0; i < p->site_count; i++)
		parts[i] = (struct own_part){
			.row = row_of_node(table, owner_of_node(table, p->sites[i].node)),
			.frame = own[p->sites[i].node],
			.bytes = p->sites[i].amounts.bytes[table->measure],
		};
	qsort(parts, p->site_count, sizeof(*parts), compare_own_parts);
	for (size_t i = 0; i < p->site_count; i++) {
		bool same_row = i && parts[i].row == parts[i - 1].row;

		most = same_row ? most : 0;
		sum = flmem_amount_sum(same_row && parts[i].frame == parts[i - 1].frame ? sum : 0,
				       parts[i].bytes);
		if (sum <= most)
			continue;
		most = sum;
		table->rows[parts[i].row].own_frame = parts[i].frame;
	}
	return true;
}

static void add_total(struct row_table *table, uint32_t frame,
		      const struct flmem_heap_amounts *amounts)
{
	flmem_amounts_add(&table->rows[table->row_of[frame]].total, amounts);
	table->parts[frame] = flmem_amount_sum(table->parts[frame], amounts->bytes[table->measure]);
}

/* Chooses the frame that a row shows: of several lines the one with most of its total. */
static void choose_frames(struct row_table *table)
{
	for (size_t i = 0; i < table->profile->frame_count; i++) {
		struct flmem_heap_row *row = &table->rows[table->row_of[i]];

		if (table->parts[i] > table->parts[row->frame])
			row->frame = (uint32_t)i;
	}
}

/*
 * Computes totals depth first; `open` counts for each row how many of its frames are on the current
 * stack, so that only the outermost one of a recursion adds its total.
 */
static void walk_totals(struct row_table *table, const struct flmem_heap_children *children,
			const struct flmem_heap_amounts *totals, uint32_t *open)
{
	const struct flmem_heap_node *nodes = table->profile->nodes;
	uint32_t node = children->first[0];

	while (node != FLMEM_NODE_NONE) {
		uint32_t row = row_of_node(table, node);

		if (!open[row]++)
			add_total(table, nodes[node].frame, &totals[node]);
		if (children->first[node] != FLMEM_NODE_NONE) {
			node = children->first[node];
			continue;
		}
		while (node && children->next[node] == FLMEM_NODE_NONE) {
			open[row_of_node(table, node)]--;
			node = nodes[node].parent;
		}
		if (!node)
			return;
		open[row_of_node(table, node)]--;
		node = children->next[node];
	}
}

static bool add_totals(struct row_table *table)
{
	FLMEM_AUTO_CHILDREN struct flmem_heap_children children = {0};
	FLMEM_AUTO_FREE struct flmem_heap_amounts *totals = flmem_heap_totals(table->profile);
	FLMEM_AUTO_FREE uint32_t *open = calloc(table->count, sizeof(*open));

	if (!totals || !open || !flmem_heap_children_make(table->profile, &children))
		return false;
	walk_totals(table, &children, totals, open);
	choose_frames(table);
	return true;
}

struct row_order {
	enum flmem_heap_measure measure;
};

static int compare_amounts(uint64_t one, uint64_t other)
{
	return one > other ? -1 : one < other;
}

/*
 * Compares rows by the measure, equal ones by the other measures, so that rows without any amount
 * come last.
 */
static int compare_heap_rows(const void *a, const void *b, void *context)
{
	const struct flmem_heap_row *x = a, *y = b;
	const struct row_order *order = context;
	int sign = compare_amounts(x->own.bytes[order->measure], y->own.bytes[order->measure]);

	for (size_t m = 0; m < FLMEM_HEAP_MEASURE_COUNT && !sign; m++)
		sign = compare_amounts(x->own.bytes[m], y->own.bytes[m]);
	if (!sign)
		sign = compare_amounts(x->total.bytes[order->measure],
				       y->total.bytes[order->measure]);
	return sign ? sign : compare_amounts(y->frame, x->frame);
}

int flmem_heap_rows(const struct flmem_heap_profile *profile, enum flmem_heap_key key,
		    enum flmem_heap_measure measure, struct flmem_heap_row **ret_rows,
		    size_t *ret_count, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_heap_row *rows =
		calloc(profile->frame_count + 1, sizeof(*rows));
	FLMEM_AUTO_FREE uint32_t *row_of = calloc(profile->frame_count + 1, sizeof(*row_of));
	FLMEM_AUTO_FREE uint64_t *parts = calloc(profile->frame_count + 1, sizeof(*parts));
	FLMEM_AUTO_FREE struct flmem_heap_sampled_sum *sums =
		calloc(profile->frame_count + 1, sizeof(*sums));
	struct row_table table = {
		.profile = profile,
		.key = key,
		.identity = key == FLMEM_HEAP_BY_LINE ? FLMEM_FRAME_LINE : FLMEM_FRAME_FUNCTION,
		.measure = measure,
		.rows = rows,
		.row_of = row_of,
		.parts = parts,
		.sums = sums,
	};
	struct row_order order = {measure};

	if (!rows || !row_of || !parts || !sums || !group_frames(&table))
		return flmem_error_nomem(err, "cannot make a table of '%s'", profile->path);
	add_own_amounts(&table);
	if (!add_totals(&table) || !choose_own_frames(&table))
		return flmem_error_nomem(err, "cannot make a table of '%s'", profile->path);
	flmem_sort(rows, table.count, sizeof(*rows), compare_heap_rows, &order);
	*ret_rows = FLMEM_TAKE(rows);
	*ret_count = table.count;
	return 0;
}
