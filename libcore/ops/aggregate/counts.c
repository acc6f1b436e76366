/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/counts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/aggregate.h>
#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "base/text/url.h"
#include "model/json_scan.h"
#include "ops/aggregate/output.h"

#define COUNTS_BYTES_MAX (16U << 20)

struct count_entry {
	const char *name; /* points into the text */
	uint64_t number;
	const char *input; /* path of the input that took the count */
};

struct counts {
	const char *path;
	struct count_entry *entries; /* sorted by name */
	size_t count, room;
};

static void clear_counts(struct counts *counts)
{
	free(counts->entries);
}

#define AUTO_COUNTS FLMEM_AUTO(clear_counts)

static int invalid_counts(const struct counts *counts, const char *why, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is not a JSON object of whole numbers: it %s", counts->path,
			       why);
}

static int add_entry(struct counts *counts, struct count_entry entry, struct flmem_error *err)
{
	if (counts->count == counts->room) {
		size_t room = counts->room ? counts->room * 2 : 64;
		struct count_entry *larger = reallocarray(counts->entries, room, sizeof(*larger));

		if (!larger)
			return flmem_error_nomem(err, "cannot read '%s'", counts->path);
		counts->entries = larger;
		counts->room = room;
	}
	counts->entries[counts->count++] = entry;
	return 0;
}

static int read_entries(struct counts *counts, struct flmem_json_scan *scan,
			struct flmem_error *err)
{
	if (!flmem_json_scan_expect(scan, '{'))
		return invalid_counts(counts, scan->why, err);
	if (!flmem_json_scan_take(scan, '}')) {
		do {
			struct count_entry entry = {0};
			int rc;

			if (!flmem_json_scan_string(scan, &entry.name) ||
			    !flmem_json_scan_expect(scan, ':') ||
			    !flmem_json_scan_number(scan, &entry.number))
				return invalid_counts(counts, scan->why, err);
			rc = add_entry(counts, entry, err);
			if (rc)
				return rc;
		} while (flmem_json_scan_take(scan, ','));
		if (!flmem_json_scan_expect(scan, '}'))
			return invalid_counts(counts, scan->why, err);
	}
	return flmem_json_scan_ends(scan) ? 0 : invalid_counts(counts, scan->why, err);
}

static int compare_entries(const void *a, const void *b)
{
	const struct count_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int sort_entries(struct counts *counts, struct flmem_error *err)
{
	char shown[100];

	if (counts->count)
		qsort(counts->entries, counts->count, sizeof(*counts->entries), compare_entries);
	for (size_t i = 1; i < counts->count; i++)
		if (strcmp(counts->entries[i - 1].name, counts->entries[i].name) == 0)
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0, "'%s' has '%s' twice", counts->path,
				flmem_text_escape(counts->entries[i].name, shown, sizeof(shown)));
	return 0;
}

static struct count_entry *find_entry(const struct counts *counts, const char *name)
{
	const struct count_entry key = {.name = name};

	if (!counts->count)
		return NULL;
	return bsearch(&key, counts->entries, counts->count, sizeof(key), compare_entries);
}

/*
 * Finds the count of an input: by its path, by the last component, or by that without its
 * extension.
 */
static int find_input(const struct counts *counts, const char *input,
		      struct count_entry **ret_entry, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *stem = strndup(input, flmem_url_path_length(input));
	size_t suffix, length;
	const char *name;

	if (!stem)
		return flmem_error_nomem(err, "cannot read '%s'", counts->path);
	length = strlen(stem);
	while (length > 1 && stem[length - 1] == '/') /* a folder of shards may end in slashes */
		stem[--length] = '\0';
	name = strrchr(stem, '/') ? strrchr(stem, '/') + 1 : stem;
	*ret_entry = find_entry(counts, input);
	if (!*ret_entry)
		*ret_entry = find_entry(counts, name);
	suffix = flmem_output_suffix_length(name);
	if (!*ret_entry && suffix && suffix < strlen(name)) {
		stem[length - suffix] = '\0';
		*ret_entry = find_entry(counts, name);
	}
	return 0;
}

static int take_weight(const struct counts *counts, const char *input, double *ret_weight,
		       struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *safe = flmem_url_show(input), *first = NULL;
	struct count_entry *entry = NULL;
	char shown[100];
	int rc = find_input(counts, input, &entry, err);

	if (rc)
		return rc;
	first = entry && entry->input ? flmem_url_show(entry->input) : NULL;
	if (!entry)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' has no number for '%s', nor for its name without "
				       "folder and extension",
				       counts->path, safe);
	if (entry->input && strcmp(entry->input, input) != 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' in '%s' names '%s' and '%s'; use their paths",
				       flmem_text_escape(entry->name, shown, sizeof(shown)),
				       counts->path, first, safe);
	entry->input = input;
	*ret_weight = (double)entry->number;
	return 0;
}

int flmem_counts_parse(const char *path, struct flmem_buf *text, const char *const *inputs,
		       size_t count, double *ret_weights, struct flmem_error *err)
{
	AUTO_COUNTS struct counts counts = {.path = path};
	struct flmem_json_scan scan;
	int rc;

	if (text->failed)
		return flmem_error_nomem(err, "cannot read '%s'", path);
	if (!text->length)
		return invalid_counts(&counts, "is empty", err);
	if (flmem_text_utf8_length(text->data) != text->length)
		return invalid_counts(&counts, "is not UTF-8 text", err);
	flmem_json_scan_begin(&scan, text->data, text->length);
	rc = read_entries(&counts, &scan, err);
	if (!rc)
		rc = sort_entries(&counts, err);
	for (size_t i = 0; i < count && !rc; i++)
		rc = take_weight(&counts, inputs[i], &ret_weights[i], err);
	return rc;
}

int flmem_aggregate_weights_read(const char *path, const char *const *inputs, size_t count,
				 double *ret_weights, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	int rc = flmem_io_read_named(path, COUNTS_BYTES_MAX, &text);

	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot read '%s'", path);
	return flmem_counts_parse(path, &text, inputs, count, ret_weights, err);
}
