/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/heap_site_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "rules/live_rules.h"
#include "rules/rules.h"

#define SHARE_MIN 0.1
#define BYTES_MIN (UINT64_C(1) << 20)

#define FUNCTION_TEXT_MAX 64

/* Whether a function has this name: "Class.function" of CPython 3.11 and later, or it alone. */
static bool is_function_named(const char *qualified, const char *name)
{
	const char *dot = strrchr(qualified, '.');

	return strcmp(dot ? dot + 1 : qualified, name) == 0;
}

/* Whether a path ends in `end`, by whole names: not "nvflare/x.py" in "/opt/my_nvflare/x.py". */
static bool is_file_below(const char *path, const char *end)
{
	size_t length = strlen(path), wanted = strlen(end);

	return length >= wanted && strcmp(path + length - wanted, end) == 0 &&
	       (length == wanted || path[length - wanted - 1] == '/');
}

static bool is_frame_of_place(const struct flmem_heap_frame *frame,
			      const struct flmem_heap_place *place)
{
	return frame->python && frame->function && frame->file &&
	       is_function_named(frame->function, place->function) &&
	       is_file_below(frame->file, place->file);
}

/*
 * Marks the frames of the profile that are in a place. It is computed once, as there are far fewer
 * frames than nodes. NULL when out of memory; the caller frees it.
 */
static unsigned char *match_frames(const struct flmem_heap_profile *p,
				   const struct flmem_heap_place *place)
{
	unsigned char *matches = calloc(p->frame_count ? p->frame_count : 1, 1);

	for (size_t i = 0; matches && place->function && i < p->frame_count; i++)
		matches[i] = is_frame_of_place(&p->frames[i], place);
	return matches;
}

struct place_search {
	const struct flmem_heap_profile *profile;
	const struct flmem_heap_site_row *row;
	/* For each frame: whether it matches the row's place, its caller. */
	unsigned char *place, *caller;
	uint32_t frame; /* frame with the largest site; or FLMEM_HEAP_NO_FRAME */
	uint64_t largest, bytes;
};

/* The node of the Python frame that called a node, native ones skipped; 0 if there is none. */
static uint32_t python_caller(const struct flmem_heap_profile *p, uint32_t node)
{
	uint32_t caller = p->nodes[node].parent;

	while (caller && !p->frames[p->nodes[caller].frame].python)
		caller = p->nodes[caller].parent;
	return caller;
}

static bool is_node_of_place(const struct place_search *search, uint32_t node)
{
	uint32_t caller;

	if (!search->place[search->profile->nodes[node].frame])
		return false;
	if (!search->row->caller.function)
		return true;
	caller = python_caller(search->profile, node);
	return caller && search->caller[search->profile->nodes[caller].frame];
}

/* Adds a site once if the function of the row is in its stack, however often. */
static void add_site_of_place(struct place_search *search, const struct flmem_heap_site *site)
{
	uint64_t bytes = site->amounts.bytes[FLMEM_HEAP_PEAK];

	for (uint32_t node = site->node; bytes && node;
	     node = search->profile->nodes[node].parent) {
		if (!is_node_of_place(search, node))
			continue;
		search->bytes += bytes;
		if (bytes > search->largest) {
			search->largest = bytes;
			search->frame = search->profile->nodes[node].frame;
		}
		return;
	}
}

/*
 * Describes the place with the file as the rule names it: a whole path would leave no room for the
 * figures.
 */
static void describe_place(const struct place_search *search, char *out, size_t size)
{
	const struct flmem_heap_frame *frame = &search->profile->frames[search->frame];
	char function[FUNCTION_TEXT_MAX], bytes[FLMEM_TEXT_BYTES_MAX];

	snprintf(out, size, "%s (%s:%" PRIu32 "): %s, %.0f %% of the peak",
		 flmem_text_escape(frame->function, function, sizeof(function)),
		 search->row->place.file, frame->line,
		 flmem_text_bytes(search->bytes, bytes, sizeof(bytes)),
		 100 * (double)search->bytes / (double)search->profile->peak_bytes);
}

static int add_place_finding(const struct place_search *search, const char *file,
			     struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_heap_site_row *row = search->row;
	const struct flmem_finding_place where = {.file = file};
	struct flmem_live_remark remark = {.path = row->path, .current = "unknown"};

	snprintf(remark.proposed, sizeof(remark.proposed), "%s",
		 row->proposed ? row->proposed : "");
	describe_place(search, remark.detail, sizeof(remark.detail));
	return flmem_live_finding_add(&row->rule, &where, &remark, found, err);
}

static int check_place(const struct flmem_heap_profile *p, const struct flmem_heap_site_row *row,
		       const char *file, struct flmem_recommendations *found,
		       struct flmem_error *err)
{
	FLMEM_AUTO_FREE unsigned char *place = match_frames(p, &row->place);
	FLMEM_AUTO_FREE unsigned char *caller = match_frames(p, &row->caller);
	struct place_search search = {.profile = p, .row = row, .place = place, .caller = caller};

	if (!place || !caller)
		return flmem_error_nomem(err, "cannot search the profile '%s'", p->path);
	for (size_t i = 0; i < p->site_count; i++)
		add_site_of_place(&search, &p->sites[i]);
	if (search.bytes < BYTES_MIN || (double)search.bytes < SHARE_MIN * (double)p->peak_bytes)
		return 0;
	return add_place_finding(&search, file, found, err);
}

int flmem_heap_site_rules_run(const struct flmem_heap_site_table *table,
			      const struct flmem_heap_profile *profile, const char *file,
			      const struct flmem_version_number *release,
			      struct flmem_recommendations *found, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < table->count && !rc; i++)
		if (flmem_rule_holds(&table->rows[i].rule, release))
			rc = check_place(profile, &table->rows[i], file, found, err);
	return rc;
}
