/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_profile.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/sort.h>

#include "base/cleanup.h"
#include "profiler/frames.h"
#include "profiler/index_set.h"
#include "profiler/sampling_error.h"

struct row_pairing {
	struct flmem_index_set set;
	struct flmem_heap_difference *rows;
	struct flmem_heap_frame *keys; /* frames of the rows, without the program's file */
	size_t count;
};

struct difference_wanted {
	const struct row_pairing *pairing;
	/* Frame of the wanted row; NULL: the row of stacks without frames. */
	const struct flmem_heap_frame *key;
};

static void clear_pairing(struct row_pairing *pairing)
{
	flmem_index_set_clear(&pairing->set);
	free(pairing->rows);
	free(pairing->keys);
}

static bool has_python_caller(const struct flmem_heap_profile *profile, size_t node)
{
	uint32_t caller = profile->nodes[node].parent;

	while (caller && !profile->frames[profile->nodes[caller].frame].python)
		caller = profile->nodes[caller].parent;
	return caller != 0;
}

const char *flmem_heap_program_file(const struct flmem_heap_profile *profile)
{
	FLMEM_AUTO_FREE struct flmem_heap_amounts *totals = flmem_heap_totals(profile);
	uint64_t most = 0;
	const char *file = NULL;

	for (size_t i = 1; totals && i < profile->node_count; i++) {
		const struct flmem_heap_frame *frame = &profile->frames[profile->nodes[i].frame];
		uint64_t bytes = totals[i].bytes[FLMEM_HEAP_ALLOCATED];

		if (!frame->python || !frame->function ||
		    strcmp(frame->function, "<module>") != 0 || bytes < most ||
		    has_python_caller(profile, i))
			continue;
		most = bytes;
		file = frame->file;
	}
	return file;
}

static bool is_difference(const void *context, uint32_t index)
{
	const struct difference_wanted *wanted = context;
	const struct flmem_heap_difference *row = &wanted->pairing->rows[index];

	if (row->no_frame || !wanted->key)
		return row->no_frame && !wanted->key;
	return flmem_heap_frame_equal(&wanted->pairing->keys[index], wanted->key,
				      FLMEM_FRAME_FUNCTION);
}

/* One of the compared profiles; `program` is the file of its program. */
struct compared_profile {
	const struct flmem_heap_profile *profile;
	const char *program;
	unsigned number;
};

/*
 * Sets the program's own line of a row. Both profiles have one; that of the second counts, since it
 * is the one to change.
 */
static void put_own_frame(const struct compared_profile *side, const struct flmem_heap_row *row,
			  struct flmem_heap_difference *difference)
{
	const struct flmem_heap_frame *frames = side->profile->frames;

	if (!frames || row->own_frame == FLMEM_HEAP_NO_FRAME)
		return;
	difference->has_own_frame = true;
	difference->own_frame = frames[row->own_frame];
	difference->own_elsewhere =
		row->frame == FLMEM_HEAP_NO_FRAME ||
		!flmem_heap_frame_equal(&frames[row->frame], &difference->own_frame,
					FLMEM_FRAME_FUNCTION);
}

static bool add_side(struct row_pairing *pairing, const struct compared_profile *side,
		     const struct flmem_heap_row *row)
{
	const struct flmem_heap_frame *frame =
		row->frame == FLMEM_HEAP_NO_FRAME ? NULL : &side->profile->frames[row->frame];
	struct flmem_heap_frame stripped = frame ? *frame : (struct flmem_heap_frame){0};
	const struct difference_wanted wanted = {pairing, frame ? &stripped : NULL};
	struct flmem_index_key key = {
		.hash = pairing->set.seed, .same = is_difference, .context = &wanted};
	uint32_t index;

	/* Comparing pointers is enough: a profile stores each text once. */
	if (frame && frame->file == side->program)
		stripped.file = NULL;
	if (frame)
		key.hash = flmem_heap_frame_hash(key.hash, &stripped, FLMEM_FRAME_FUNCTION);
	index = flmem_index_set_take(&pairing->set, &key, (uint32_t)pairing->count);
	if (index == FLMEM_INDEX_NONE)
		return false;
	if (index == pairing->count) {
		pairing->keys[index] = stripped;
		pairing->rows[pairing->count++] =
			(struct flmem_heap_difference){.no_frame = !frame};
	}
	if (frame)
		pairing->rows[index].frame = *frame;
	pairing->rows[index].own[side->number] = row->own;
	pairing->rows[index].arena_bytes[side->number] = row->arena_bytes;
	pairing->rows[index].variance[side->number] = row->variance;
	put_own_frame(side, row, &pairing->rows[index]);
	return true;
}

static int add_rows_of(struct row_pairing *pairing, const struct compared_profile *side,
		       enum flmem_heap_measure measure, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_heap_row *rows = NULL;
	size_t count;
	int rc =
		flmem_heap_rows(side->profile, FLMEM_HEAP_BY_FUNCTION, measure, &rows, &count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < count; i++)
		if (!add_side(pairing, side, &rows[i]))
			return flmem_error_nomem(err, "cannot compare the profiles");
	return 0;
}

struct change_order {
	enum flmem_heap_measure measure;
};

static uint64_t change_size(const struct flmem_heap_difference *row,
			    enum flmem_heap_measure measure)
{
	uint64_t before = row->own[0].bytes[measure], after = row->own[1].bytes[measure];

	return before > after ? before - after : after - before;
}

static int compare_changes_by_size(const void *a, const void *b, void *context)
{
	const struct change_order *order = context;
	uint64_t x = change_size(a, order->measure), y = change_size(b, order->measure);

	return x > y ? -1 : x < y;
}

int flmem_heap_compare(const struct flmem_heap_profile *first,
		       const struct flmem_heap_profile *second, enum flmem_heap_measure measure,
		       struct flmem_heap_comparison *ret_comparison, struct flmem_error *err)
{
	const struct compared_profile sides[] = {
		{first, flmem_heap_program_file(first), 0},
		{second, flmem_heap_program_file(second), 1},
	};
	FLMEM_AUTO(clear_pairing) struct row_pairing pairing = {0};
	struct change_order order = {measure};
	size_t room = first->frame_count + second->frame_count + 2;

	flmem_index_set_init(&pairing.set);
	pairing.rows = calloc(room, sizeof(*pairing.rows));
	pairing.keys = calloc(room, sizeof(*pairing.keys));
	if (!pairing.rows || !pairing.keys)
		return flmem_error_nomem(err, "cannot compare the profiles");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sides); i++) {
		int rc = add_rows_of(&pairing, &sides[i], measure, err);

		if (rc)
			return rc;
	}
	flmem_sort(pairing.rows, pairing.count, sizeof(*pairing.rows), compare_changes_by_size,
		   &order);
	*ret_comparison = (struct flmem_heap_comparison){pairing.rows, pairing.count};
	pairing.rows = NULL;
	return 0;
}

void flmem_heap_comparison_clear(struct flmem_heap_comparison *comparison)
{
	free(comparison->rows);
	*comparison = (struct flmem_heap_comparison){0};
}

/*
 * Returns the variance due to arenas. Chance decides which of the lines that make small objects
 * needs a new arena: a Poisson process.
 */
static double arena_variance(const struct flmem_heap_profile *profile, uint64_t bytes)
{
	return (double)bytes * (double)profile->arena_size;
}

static double change_variance(const struct flmem_heap_profile *const profiles[2],
			      const struct flmem_heap_difference *row)
{
	double variance = 0;

	for (size_t i = 0; i < 2; i++)
		variance += row->variance[i] + arena_variance(profiles[i], row->arena_bytes[i]);
	return variance;
}

bool flmem_heap_is_change(const struct flmem_heap_profile *const profiles[2],
			  const struct flmem_heap_difference *row, enum flmem_heap_measure measure)
{
	double change = (double)row->own[0].bytes[measure] - (double)row->own[1].bytes[measure];

	return change * change > 4 * change_variance(profiles, row);
}

static struct flmem_u64 error_of(const struct flmem_heap_profile *const profiles[2],
				 enum flmem_heap_measure measure, double variance)
{
	for (size_t i = 0; i < 2; i++)
		if (profiles[i]->unknown[measure])
			return FLMEM_UNKNOWN(profiles[i]->unknown[measure]);
	return FLMEM_KNOWN((uint64_t)fmin(ceil(sqrt(variance)), (double)(1ULL << 62)));
}

struct flmem_u64 flmem_heap_change_error(const struct flmem_heap_profile *const profiles[2],
					 const struct flmem_heap_difference *row,
					 enum flmem_heap_measure measure)
{
	return error_of(profiles, measure, change_variance(profiles, row));
}

/* Sums do not depend on which stack needs a new arena, so only the samples count. */
struct flmem_u64 flmem_heap_total_error(const struct flmem_heap_profile *const profiles[2],
					enum flmem_heap_measure measure, bool arenas_only)
{
	double variance = 0;

	for (size_t i = 0; i < 2; i++) {
		struct flmem_heap_sampled_sum sum = {0};

		for (size_t k = 0; k < profiles[i]->site_count; k++)
			if (profiles[i]->sites[k].arenas || !arenas_only)
				flmem_heap_sum_add(profiles[i], &profiles[i]->sites[k], measure,
						   &sum);
		variance += flmem_heap_sum_variance(profiles[i], &sum);
	}
	return error_of(profiles, measure, variance);
}
