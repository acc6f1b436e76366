/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_report.h>

#include <math.h>
#include <stdio.h>

#include "report/heap_json.h"

static cJSON *open_heap_report(const char *command, const struct flmem_heap_profile *profile,
			       enum flmem_heap_measure measure)
{
	cJSON *root = flmem_json_report(command);

	flmem_json_add_heap_profile(root, "profile", profile);
	cJSON_AddStringToObject(root, "measure", flmem_heap_measure_name(measure));
	flmem_json_add_heap_amounts(root, "total", profile, &profile->totals);
	return root;
}

static void add_rows(cJSON *root, const char *name, const struct flmem_heap_profile *profile,
		     const struct flmem_heap_row *rows, size_t count)
{
	cJSON *list = cJSON_AddArrayToObject(root, name);

	for (size_t i = 0; i < count; i++) {
		cJSON *row = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		flmem_json_add_heap_frame(row, "frame",
					  flmem_json_heap_frame(profile, rows[i].frame));
		flmem_json_add_heap_own_frame(row, unknown,
					      flmem_json_heap_frame(profile, rows[i].own_frame));
		flmem_json_add_heap_amounts(row, "own", profile, &rows[i].own);
		flmem_json_add_heap_amounts(row, "total", profile, &rows[i].total);
		flmem_json_add_u64(row, "own_arena_bytes", rows[i].arena_bytes);
		flmem_json_add_value(row, unknown, "own_live_error_bytes",
				     flmem_heap_live_error(profile, rows[i].live_variance));
		cJSON_AddItemToObject(row, "unknown", unknown);
	}
}

char *flmem_report_heap_stats_json(const struct flmem_heap_profile *profile,
				   enum flmem_heap_measure measure,
				   const struct flmem_heap_row *rows, size_t count)
{
	cJSON *root = open_heap_report("profile-stats", profile, measure);

	if (flmem_heap_lacks_amounts(profile))
		cJSON_AddNullToObject(root, "sites");
	else
		flmem_json_add_u64(root, "sites", profile->site_count);
	add_rows(root, "largest", profile, rows, count);
	return flmem_json_take(root);
}

char *flmem_report_heap_summary_json(const struct flmem_heap_profile *profile,
				     enum flmem_heap_measure measure,
				     const struct flmem_heap_row *rows, size_t count)
{
	cJSON *root = open_heap_report("profile-summary", profile, measure);

	add_rows(root, "functions", profile, rows, count);
	return flmem_json_take(root);
}

void flmem_json_fill_heap_site(cJSON *row, const struct flmem_heap_profile *profile,
			       const struct flmem_heap_site *site)
{
	cJSON *unknown = cJSON_CreateObject();

	cJSON_AddBoolToObject(row, "arenas", site->arenas);
	flmem_json_add_heap_amounts(row, "amounts", profile, &site->amounts);
	flmem_json_add_value(row, unknown, "live_error_bytes",
			     flmem_heap_live_error(profile, site->live_variance));
	flmem_json_add_value(row, unknown, "oldest_us", site->oldest_us);
	cJSON_AddItemToObject(row, "unknown", unknown);
}

static void add_sites(cJSON *root, const struct flmem_heap_profile *profile, const uint32_t *sites,
		      size_t count)
{
	cJSON *list = cJSON_AddArrayToObject(root, "sites");

	for (size_t i = 0; i < count; i++) {
		const struct flmem_heap_site *site = &profile->sites[sites[i]];
		cJSON *row = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		flmem_json_add_heap_stack(row, profile, site->node);
		flmem_json_fill_heap_site(row, profile, site);
	}
}

cJSON *flmem_json_heap_table(const struct flmem_heap_profile *profile,
			     enum flmem_heap_measure measure, const struct flmem_heap_table *table)
{
	cJSON *root = open_heap_report("profile-table", profile, measure);

	add_rows(root, "lines", profile, table->rows, table->row_count);
	return root;
}

char *flmem_report_heap_table_json(const struct flmem_heap_profile *profile,
				   enum flmem_heap_measure measure,
				   const struct flmem_heap_table *table)
{
	cJSON *root = flmem_json_heap_table(profile, measure, table);

	add_sites(root, profile, table->sites, table->site_count);
	return flmem_json_take(root);
}

char *flmem_report_heap_tree_json(const struct flmem_heap_profile *profile,
				  enum flmem_heap_measure measure,
				  const struct flmem_heap_tree *tree)
{
	cJSON *root = open_heap_report("profile-tree", profile, measure);
	cJSON *list = cJSON_AddArrayToObject(root, "branches");

	for (size_t i = 1; i < tree->count; i++) {
		const struct flmem_heap_branch *branch = &tree->branches[i];
		cJSON *row = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		flmem_json_add_u64(row, "depth", branch->depth);
		flmem_json_add_heap_frame(row, "frame",
					  &profile->frames[profile->nodes[branch->node].frame]);
		flmem_json_add_heap_amounts(row, "own", profile, &branch->own);
		flmem_json_add_heap_amounts(row, "total", profile, &branch->total);
	}
	flmem_json_add_u64(root, "left_out", tree->left_out);
	return flmem_json_take(root);
}

static void add_leak_growth(cJSON *row, const struct flmem_heap_leaks *leaks,
			    const struct flmem_heap_leak *leak)
{
	cJSON *growth = cJSON_AddObjectToObject(row, "growth");

	cJSON_AddStringToObject(growth, "per", leaks->by_round ? "round" : "hour");
	flmem_json_add_real(growth, "bytes", rint(leak->growth_bytes));
	flmem_json_add_real(growth, "low", rint(leak->low_bytes));
	flmem_json_add_real(growth, "high", rint(leak->high_bytes));
}

char *flmem_report_heap_leaks_json(const struct flmem_heap_profile *profile,
				   const struct flmem_heap_leaks *leaks, size_t limit)
{
	cJSON *root = open_heap_report("profile-leaks", profile, FLMEM_HEAP_LIVE);
	cJSON *list;

	cJSON_AddStringToObject(root, "basis", leaks->by_round ? "rounds" : "ages");
	flmem_json_add_u64(root, "periods", leaks->periods);
	if (leaks->by_round)
		flmem_json_add_u64(root, "round_span", leaks->round_span);
	else
		cJSON_AddNullToObject(root, "round_span");
	flmem_json_add_text(root, "too_few", leaks->too_few);
	flmem_json_add_u64(root, "found", leaks->count);
	list = cJSON_AddArrayToObject(root, "leaks");
	for (size_t i = 0; i < leaks->count && i < limit; i++) {
		const struct flmem_heap_leak *leak = &leaks->rows[i];
		const struct flmem_heap_site *site = &profile->sites[leak->site];
		cJSON *row = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		flmem_json_add_heap_stack(row, profile, site->node);
		cJSON_AddBoolToObject(row, "arenas", site->arenas);
		flmem_json_add_heap_own_frame(
			row, unknown,
			flmem_json_heap_frame(profile, flmem_heap_own_frame(profile, site->node)));
		flmem_json_add_real(row, "confidence", leak->confidence);
		cJSON_AddBoolToObject(row, "unconfirmed", leak->unconfirmed);
		add_leak_growth(row, leaks, leak);
		flmem_json_add_u64(row, "live_bytes", leak->live_bytes);
		flmem_json_add_u64(row, "grown_bytes", leak->grown_bytes);
		flmem_json_add_value(row, unknown, "oldest_us", leak->oldest_us);
		flmem_json_add_u64(row, "survived_in", leak->survived_in);
		cJSON_AddItemToObject(row, "unknown", unknown);
	}
	return flmem_json_take(root);
}

static void add_total_errors(cJSON *root, const struct flmem_heap_profile *const profiles[2])
{
	cJSON *errors = cJSON_AddObjectToObject(root, "total_change_errors");
	cJSON *unknown = cJSON_CreateObject();
	char member[32];

	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		snprintf(member, sizeof(member), "%s_bytes", flmem_heap_measure_name(m));
		flmem_json_add_value(errors, unknown, member,
				     flmem_heap_total_error(profiles, m, false));
	}
	cJSON_AddItemToObject(errors, "unknown", unknown);
}

char *flmem_report_heap_diff_json(const struct flmem_heap_profile *const profiles[2],
				  enum flmem_heap_measure measure,
				  const struct flmem_heap_comparison *comparison, size_t limit)
{
	cJSON *root = flmem_json_report("profile-diff"), *list;

	flmem_json_add_heap_profile(root, "first", profiles[0]);
	flmem_json_add_heap_profile(root, "second", profiles[1]);
	cJSON_AddStringToObject(root, "measure", flmem_heap_measure_name(measure));
	flmem_json_add_heap_amounts(root, "first_total", profiles[0], &profiles[0]->totals);
	flmem_json_add_heap_amounts(root, "second_total", profiles[1], &profiles[1]->totals);
	add_total_errors(root, profiles);
	list = cJSON_AddArrayToObject(root, "functions");
	for (size_t i = 0; i < comparison->count && i < limit; i++)
		cJSON_AddItemToArray(
			list, flmem_json_heap_difference(profiles, measure, &comparison->rows[i]));
	return flmem_json_take(root);
}
