/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a PyTorch checkpoint as output: a copy of the first input with other tensors. The pickle
 * stays the same, so names, shapes and types do, and everything besides the tensors is kept.
 */
#include <stdlib.h>
#include <string.h>

#include <flmem/sort.h>
#include <flmem/text.h>

#include "base/bytes/little_endian.h"
#include "ops/aggregate/output.h"

#define FLAG_LATER	(1U << 3)   /* flag of an entry whose checksum follows its bytes */
#define DESCRIPTOR_MARK 0x08074b50U /* optional mark before that checksum (APPNOTE.TXT 4.3.9.3) */
#define LOCAL_CHECKSUM	14U	    /* place of the checksum in a local header */
#define RECORD_CHECKSUM 16U	    /* place of the checksum in a record of the directory */

static int read_checksum_fields(const struct flmem_input *source, uint64_t at, uint32_t *numbers,
				size_t count, struct flmem_error *err)
{
	char bytes[8];
	int rc = flmem_input_file_read(&source->files[0], at, 4 * count, bytes, err);

	for (size_t i = 0; i < count && !rc; i++)
		numbers[i] = (uint32_t)flmem_read_little(bytes + 4 * i, 4);
	return rc;
}

/* Finds the places of an entry's checksum. The directory, which is longer, follows all entries. */
static int make_entry(const struct flmem_input *source, const struct flmem_archive_entry *from,
		      struct flmem_output_entry *ret_entry, struct flmem_error *err)
{
	uint64_t end = from->offset + from->bytes, local = from->header + LOCAL_CHECKSUM;
	uint32_t first = 0, after[2] = {0};
	bool later = from->flags & FLAG_LATER;
	int rc = later ? read_checksum_fields(source, local, &first, 1, err) : 0;

	if (!rc && later)
		rc = read_checksum_fields(source, end, after, 2, err);
	if (rc)
		return rc;
	*ret_entry = (struct flmem_output_entry){
		.offset = from->offset,
		.bytes = from->bytes,
		.places = {from->record + RECORD_CHECKSUM},
	};

	if (!later || first)
		ret_entry->places[1] = local;
	if (later && after[0] == DESCRIPTOR_MARK && after[1] == from->crc32)
		ret_entry->places[2] = end + 4;
	else if (later && after[0] == from->crc32)
		ret_entry->places[2] = end;
	return 0;
}

static int compare_entry(const void *a, const void *b)
{
	const struct flmem_output_entry *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int compare_offset(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns true if one of the sorted places is inside the entry. */
static bool has_place(const struct flmem_archive_entry *entry, const uint64_t *places, size_t count)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (places[middle] < entry->offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && places[low] < entry->offset + entry->bytes;
}

/* Lists the entries with tensors; entries without are copied together with their checksums. */
static int make_entries(struct flmem_output *output, struct flmem_error *err)
{
	const struct flmem_archive *archive = &output->source->kind.archive;
	size_t count = output->layout->list.count;
	FLMEM_AUTO_FREE uint64_t *places = calloc(count + 1, sizeof(*places));
	int rc = 0;

	output->entries = calloc(archive->count + 1, sizeof(*output->entries));
	if (!output->entries || !places)
		return flmem_error_nomem(err, "cannot write '%s'", output->path);
	memcpy(places, output->map.offsets, count * sizeof(*places));
	qsort(places, count, sizeof(*places), compare_offset);
	for (size_t i = 0; i < archive->count && !rc; i++)
		if (has_place(&archive->entries[i], places, count))
			rc = make_entry(output->source, &archive->entries[i],
					&output->entries[output->entry_count++], err);
	if (rc)
		return rc;
	qsort(output->entries, output->entry_count, sizeof(*output->entries), compare_entry);
	return 0;
}

static int copy_places(struct flmem_output *output, struct flmem_error *err)
{
	size_t count = output->layout->list.count;
	struct flmem_input *map = &output->map;

	map->offsets = calloc(count + 1, sizeof(*map->offsets));
	map->file_of = calloc(count + 1, sizeof(*map->file_of));
	if (!map->offsets || !map->file_of)
		return flmem_error_nomem(err, "cannot write '%s'", output->path);
	for (size_t i = 0; i < count; i++)
		map->offsets[i] = output->layout->order[i]->offset;
	return 0;
}

/* Returns true if two tensors of the layout are the same bytes of an input. */
static bool is_tied(const struct flmem_input *input, size_t a, size_t b)
{
	return input->offsets && input->offsets[a] == input->offsets[b] &&
	       input->file_of[a] == input->file_of[b];
}

static int report_shared(const struct flmem_output *output, const char *a, const char *b,
			 const char *path, struct flmem_error *err)
{
	char shown[100], other[100];

	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "tensors '%s' and '%s' share bytes in '%s', but not all of them in "
			       "'%s', so '%s' cannot hold both; write a safetensors file",
			       flmem_text_escape(a, shown, sizeof(shown)),
			       flmem_text_escape(b, other, sizeof(other)), output->source->path,
			       path, output->path);
}

static int compare_record_places(const void *a, const void *b, void *context)
{
	const uint64_t *offsets = context;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return offsets[x] < offsets[y] ? -1 : offsets[x] > offsets[y];
}

/*
 * Finds two tensors that share bytes in one input but not in all. Only tensors that are the same
 * bytes in all inputs get the same result. `places` are the places of the layout's tensors in one
 * of the inputs; with `untied`, no two of them may share bytes. Returns 1 and the pair, 0 if there
 * is none, -1 if memory is out.
 */
static int find_split(const struct flmem_layout *layout, uint64_t *places, bool untied,
		      const struct flmem_input *inputs, size_t count,
		      struct flmem_split_tensors *ret_split)
{
	size_t tensors = layout->list.count, last = 0;
	FLMEM_AUTO_FREE size_t *order = calloc(tensors + 1, sizeof(*order));
	uint64_t end = 0;

	if (!order)
		return -1;
	for (size_t i = 0; i < tensors; i++)
		order[i] = i;
	flmem_sort(order, tensors, sizeof(*order), compare_record_places, places);
	for (size_t i = 0; i < tensors; i++) {
		const struct flmem_tensor *tensor = layout->order[order[i]];
		const struct flmem_tensor *before = layout->order[last];
		uint64_t place = places[order[i]];

		if (!tensor->bytes)
			continue;
		*ret_split = (struct flmem_split_tensors){.names = {before->name, tensor->name}};
		for (size_t k = 0; k < count && place < end; k++, ret_split->input++)
			if (untied || tensor->bytes != before->bytes ||
			    tensor->dtype != before->dtype || !is_tied(&inputs[k], order[i], last))
				return 1;
		if (place + tensor->bytes > end)
			end = place + tensor->bytes;
		last = order[i];
	}
	return 0;
}

int flmem_output_find_split(const struct flmem_layout *layout, const struct flmem_input inputs[2],
			    struct flmem_split_tensors *ret_split)
{
	int found = 0;

	/* An input without offsets shares nothing. */
	for (size_t i = 0; i < 2 && !found; i++)
		if (inputs[i].offsets)
			found = find_split(layout, inputs[i].offsets, false, inputs, 2, ret_split);
	return found;
}

static int check_shared(const struct flmem_output *output, const struct flmem_input *inputs,
			size_t count, struct flmem_error *err)
{
	struct flmem_split_tensors split;
	int found = find_split(output->layout, output->map.offsets, output->untied, inputs, count,
			       &split);

	if (found < 0)
		return flmem_error_nomem(err, "cannot write '%s'", output->path);
	return found ? report_shared(output, split.names[0], split.names[1],
				     inputs[split.input].path, err)
		     : 0;
}

int flmem_output_plan_checkpoint(struct flmem_output *output, const struct flmem_input *inputs,
				 size_t count, struct flmem_error *err)
{
	int rc;

	if (inputs[0].kind.format != FLMEM_FORMAT_CHECKPOINT)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"'%s' would be a copy of the first input with other tensors, "
			"but '%s' is not a PyTorch checkpoint; name a .safetensors file",
			output->path, inputs[0].path);
	output->source = &inputs[0];
	output->bytes = (uint64_t)inputs[0].files[0].status.st_size;
	rc = copy_places(output, err);
	if (!rc)
		rc = check_shared(output, inputs, count, err);
	return rc ? rc : make_entries(output, err);
}
