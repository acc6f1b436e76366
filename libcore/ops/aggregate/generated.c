/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/generated.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/aggregate.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "model/shapes.h"

#define ROW_GROUPS	32U
#define ROW		(ROW_GROUPS * FLMEM_GENERATOR_GROUP)
#define ELEMENT_LARGEST 8U
#define COMPARED	16384U
#define BATCHES_TRACKED 1000.0 /* value of every integer, equal in all clients */

bool flmem_generated_is_name(const char *name)
{
	return flmem_text_starts(name, FLMEM_AGGREGATE_GENERATE);
}

void flmem_generated_free(struct flmem_generated *generated)
{
	if (!generated)
		return;
	flmem_layout_clear(&generated->layout);
	free(generated->generators);
	free(generated);
}

static void free_generated(struct flmem_generated **generated)
{
	flmem_generated_free(*generated);
}

uint64_t flmem_generated_size(const struct flmem_generated *generated)
{
	return generated->layout.header.length + flmem_layout_bytes(&generated->layout);
}

static bool read_number(const char *text, uint64_t *ret_number)
{
	return flmem_text_read_digits(&text, ret_number) && !*text;
}

/* Reads one parameter after the '?'. */
static int read_part(const char *name, const char *part, struct flmem_generated *generated,
		     const struct flmem_dtype **dtype, struct flmem_error *err)
{
	if (flmem_text_starts(part, "seed=") && read_number(part + 5, &generated->seed))
		return 0;
	if (flmem_text_starts(part, "client=") && read_number(part + 7, &generated->client))
		return 0;
	if (flmem_text_starts(part, "dtype=")) {
		*dtype = flmem_dtype_by_option(part + 6);
		if (*dtype && flmem_element_is_real(flmem_element_find((*dtype)->stored)))
			return 0;
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid type '%.60s' in '%.200s'; choose from fp32, bf16, "
				       "fp16, fp64, fp8-e4m3, fp8-e5m2",
				       part + 6, name);
	}
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "invalid part '%.60s' in '%.200s'; expected seed=N, client=N or "
			       "dtype=TYPE",
			       part, name);
}

/* Reads a name. `text` is the name without its prefix; it is split into its parts in place. */
static int read_name(const char *name, char *text, struct flmem_generated *generated,
		     const struct flmem_dtype **dtype, struct flmem_error *err)
{
	char *parts = strchr(text, '?'), *part;
	int rc = 0;

	if (parts)
		*parts++ = '\0';
	while (parts && !rc && (part = strsep(&parts, "&")))
		rc = read_part(name, part, generated, dtype, err);
	return rc;
}

/* Scale vectors have values around 1; others are around 0. */
static bool is_scale(const struct flmem_tensor *tensor)
{
	return tensor->rank == 1 && (flmem_text_ends(tensor->name, ".weight") ||
				     flmem_text_ends(tensor->name, ".running_var"));
}

static int make_generators(const char *name, struct flmem_generated *generated,
			   struct flmem_error *err)
{
	const struct flmem_layout *layout = &generated->layout;

	generated->generators = calloc(layout->list.count + 1, sizeof(*generated->generators));
	if (!generated->generators)
		return flmem_error_nomem(err, "cannot generate '%s'", name);
	for (size_t i = 0; i < layout->list.count; i++)
		flmem_generator_init(&generated->generators[i], layout->order[i]->name,
				     is_scale(layout->order[i]), generated->seed,
				     generated->client);
	return 0;
}

/* Fills in the offsets that the tensors have in the file that would hold them. */
static void place_list(const struct flmem_layout *layout, struct flmem_tensor_list *list)
{
	list->data_offset = layout->header.length;
	for (size_t i = 0; i < list->count; i++) {
		size_t named = (size_t)(layout->order[i] - layout->list.tensors);

		list->tensors[named].offset = list->data_offset + layout->begins[i];
	}
}

int flmem_generated_open(const char *name, struct flmem_generated **ret_generated,
			 struct flmem_tensor_list *ret_list, struct flmem_error *err)
{
	FLMEM_AUTO(free_generated)
	struct flmem_generated *generated = calloc(1, sizeof(*generated));
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	FLMEM_AUTO_FREE char *text = strdup(name + strlen(FLMEM_AGGREGATE_GENERATE));
	const struct flmem_dtype *dtype = NULL;
	int rc;

	if (!generated || !text)
		return flmem_error_nomem(err, "cannot generate '%s'", name);
	rc = read_name(name, text, generated, &dtype, err);
	if (!rc)
		rc = flmem_shape_list(text, dtype, &list, err);
	if (!rc)
		rc = flmem_layout_init(&generated->layout, &list, name, err);
	if (!rc)
		rc = make_generators(name, generated, err);
	if (!rc) /* the layout now owns the first list */
		rc = flmem_shape_list(text, dtype, ret_list, err);
	if (rc)
		return rc;
	place_list(&generated->layout, ret_list);
	*ret_generated = FLMEM_TAKE(generated);
	return 0;
}

/* Makes `count` elements from `first` on, which is a multiple of the group. */
static void make_row(const struct flmem_generator *generator, enum flmem_element element,
		     uint64_t first, size_t count, char *out)
{
	const struct flmem_kernels *kernels = flmem_kernels_best();
	double row[ROW];

	if (flmem_element_is_real(element))
		kernels->generate(generator, first / FLMEM_GENERATOR_GROUP, row,
				  (count + FLMEM_GENERATOR_GROUP - 1) / FLMEM_GENERATOR_GROUP);
	for (size_t i = 0; !flmem_element_is_real(element) && i < count; i++)
		row[i] = BATCHES_TRACKED;
	kernels->store[element](row, out, count);
}

/* Makes bytes [begin, end) of a tensor. */
static void read_generated_tensor(const struct flmem_generated *generated, size_t tensor,
				  uint64_t begin, uint64_t end, char *out)
{
	enum flmem_element element = (enum flmem_element)generated->layout.elements[tensor];
	uint64_t size = flmem_element_bytes(element),
		 bytes = generated->layout.order[tensor]->bytes;
	char row[ROW * ELEMENT_LARGEST];

	while (begin < end) {
		uint64_t first = begin / size / FLMEM_GENERATOR_GROUP * FLMEM_GENERATOR_GROUP;
		uint64_t last = first + ROW < bytes / size ? first + ROW : bytes / size;
		uint64_t skip = begin - first * size, some = last * size - begin;

		some = some < end - begin ? some : end - begin;
		last = (begin + some + size - 1) / size;
		make_row(&generated->generators[tensor], element, first, (size_t)(last - first),
			 row);
		memcpy(out, row + skip, some);
		out += some;
		begin += some;
	}
}

void flmem_generated_read(const struct flmem_generated *generated, uint64_t offset, uint64_t bytes,
			  char *out)
{
	const struct flmem_layout *layout = &generated->layout;
	uint64_t at, end, some = 0;

	if (offset < layout->header.length) {
		some = layout->header.length - offset;
		some = some < bytes ? some : bytes;
		memcpy(out, layout->header.data + offset, some);
		out += some;
	}
	at = offset + some - layout->header.length;
	end = offset + bytes - layout->header.length;
	if (some == bytes)
		return;
	for (size_t t = flmem_layout_find(layout, at); at < end; t++) {
		uint64_t begin = layout->begins[t], to = layout->begins[t + 1];

		to = to < end ? to : end;
		if (to <= at)
			continue;
		read_generated_tensor(generated, t, at - begin, to - begin, out);
		out += to - at;
		at = to;
	}
}

uint64_t flmem_generated_compare(const struct flmem_generated *generated, uint64_t offset,
				 uint64_t bytes, const char *values)
{
	char expected[COMPARED];
	uint64_t same = 0, some;

	for (; same < bytes; same += some) {
		some = bytes - same < sizeof(expected) ? bytes - same : sizeof(expected);
		flmem_generated_read(generated, offset + same, some, expected);
		if (memcmp(expected, values + same, some) == 0)
			continue;
		while (expected[same % sizeof(expected)] == values[same])
			same++;
		break;
	}
	return same;
}
