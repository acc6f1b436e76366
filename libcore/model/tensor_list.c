/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tensor_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

void flmem_tensor_list_clear(struct flmem_tensor_list *list)
{
	free(list->tensors);
	free(list->extents);
	free(list->notes);
	for (size_t i = 0; i < list->text_count; i++)
		free(list->texts[i]);
	free(list->texts);
	*list = (struct flmem_tensor_list){0};
}

/*
 * Appends the elements of one array to another. False if memory is out; adding none always
 * succeeds.
 */
static bool array_append(void **array, size_t *count, const void *more, size_t more_count,
			 size_t size)
{
	void *larger;

	if (!more_count)
		return true;
	larger = reallocarray(*array, *count + more_count, size);
	if (!larger)
		return false;
	memcpy((char *)larger + *count * size, more, more_count * size);
	*array = larger;
	*count += more_count;
	return true;
}

bool flmem_tensor_list_merge(struct flmem_tensor_list *list, struct flmem_tensor_list *other,
			     uint32_t file)
{
	size_t tensors = list->count, extents = list->extent_count, notes = list->note_count;

	if (!array_append((void **)&list->extents, &list->extent_count, other->extents,
			  other->extent_count, sizeof(*list->extents)) ||
	    !array_append((void **)&list->notes, &list->note_count, other->notes,
			  notes ? 0 : other->note_count, sizeof(*list->notes)) ||
	    !array_append((void **)&list->tensors, &list->count, other->tensors, other->count,
			  sizeof(*list->tensors)) ||
	    !array_append((void **)&list->texts, &list->text_count, other->texts, other->text_count,
			  sizeof(*list->texts))) {
		list->count = tensors;
		list->extent_count = extents;
		list->note_count = notes;
		return false;
	}
	list->room = list->count;
	for (size_t i = tensors; i < list->count; i++) {
		list->tensors[i].shape += extents;
		list->tensors[i].file = file;
	}
	list->data_bytes += other->data_bytes;
	other->text_count = 0; /* moved to `list` */
	flmem_tensor_list_clear(other);
	return true;
}

static int compare_tensor_name(const void *a, const void *b)
{
	const struct flmem_tensor *x = a, *y = b;

	return strcmp(x->name, y->name);
}

const struct flmem_tensor *flmem_tensor_list_sort(struct flmem_tensor_list *list)
{
	if (list->count)
		qsort(list->tensors, list->count, sizeof(*list->tensors), compare_tensor_name);
	for (size_t i = 1; i < list->count; i++)
		if (strcmp(list->tensors[i - 1].name, list->tensors[i].name) == 0)
			return &list->tensors[i];
	return NULL;
}

static int compare_to_tensor_name(const void *key, const void *element)
{
	return strcmp(key, ((const struct flmem_tensor *)element)->name);
}

const struct flmem_tensor *flmem_tensor_list_find(const struct flmem_tensor_list *list,
						  const char *name)
{
	if (!list->count)
		return NULL;
	return bsearch(name, list->tensors, list->count, sizeof(*list->tensors),
		       compare_to_tensor_name);
}

void flmem_tensor_shape_print(const struct flmem_tensor_list *list,
			      const struct flmem_tensor *tensor, struct flmem_buf *buf)
{
	flmem_buf_putc(buf, '[');
	for (uint32_t i = 0; i < tensor->rank; i++)
		flmem_buf_printf(buf, "%s%llu", i ? ", " : "",
				 (unsigned long long)list->extents[tensor->shape + i]);
	flmem_buf_putc(buf, ']');
}

int flmem_tensor_compare_stored(const void *a, const void *b)
{
	const struct flmem_tensor *x = *(const struct flmem_tensor *const *)a;
	const struct flmem_tensor *y = *(const struct flmem_tensor *const *)b;

	if (x->dtype->order != y->dtype->order)
		return x->dtype->order > y->dtype->order ? -1 : 1;
	return strcmp(x->name, y->name);
}

void flmem_tensor_text_print(const char *text, struct flmem_buf *buf)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";

	flmem_buf_putc(buf, '"');
	for (const char *p = text; *p; p++) {
		const char *found = strchr(from, *p);

		if (found)
			flmem_buf_printf(buf, "\\%c", to[found - from]);
		else if ((unsigned char)*p < 0x20)
			flmem_buf_printf(buf, "\\u%04x", (unsigned)*p);
		else
			flmem_buf_putc(buf, *p);
	}
	flmem_buf_putc(buf, '"');
}

static void put_notes(const struct flmem_tensor_list *list, struct flmem_buf *buf)
{
	flmem_buf_puts(buf, "\"__metadata__\":{");
	for (size_t i = 0; i < list->note_count; i++) {
		if (i)
			flmem_buf_putc(buf, ',');
		flmem_tensor_text_print(list->notes[i].key, buf);
		flmem_buf_putc(buf, ':');
		flmem_tensor_text_print(list->notes[i].value, buf);
	}
	flmem_buf_putc(buf, '}');
}

static void put_tensor(const struct flmem_tensor_list *list, const struct flmem_tensor *tensor,
		       uint64_t offset, struct flmem_buf *buf)
{
	uint64_t end = offset + tensor->bytes;

	flmem_tensor_text_print(tensor->name, buf);
	flmem_buf_printf(buf, ":{\"dtype\":\"%s\",\"shape\":[", tensor->dtype->stored);
	for (uint32_t i = 0; i < tensor->rank; i++)
		flmem_buf_printf(buf, "%s%llu", i ? "," : "",
				 (unsigned long long)list->extents[tensor->shape + i]);
	flmem_buf_printf(buf, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)offset,
			 (unsigned long long)end);
}

void flmem_safetensors_print(const struct flmem_tensor_list *list,
			     const struct flmem_tensor *const *order, struct flmem_buf *buf)
{
	size_t start = buf->length;
	uint64_t offset = 0, length;

	for (int i = 0; i < 8; i++)
		flmem_buf_putc(buf, '\0');
	flmem_buf_putc(buf, '{');
	if (list->note_count)
		put_notes(list, buf);
	for (size_t i = 0; i < list->count; i++) {
		if (i || list->note_count)
			flmem_buf_putc(buf, ',');
		put_tensor(list, order[i], offset, buf);
		offset += order[i]->bytes;
	}
	flmem_buf_putc(buf, '}');
	while (!buf->failed && (buf->length - start) % 8)
		flmem_buf_putc(buf, ' ');
	length = buf->length - start - 8;
	for (int i = 0; i < 8 && !buf->failed; i++)
		buf->data[start + (size_t)i] = (char)(length >> 8 * i);
}
