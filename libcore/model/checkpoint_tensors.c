/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint_tensors.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/sort.h>

#include "base/bytes/crc32.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "model/pickle.h"

#define PICKLE_MAX (64U << 20)
#define PICKLE	   "/data.pkl"

struct checkpoint {
	const char *path, *key;
	const struct flmem_archive *archive;
	const char *folder; /* folder of the entries, up to the slash */
	int folder_length;
	struct flmem_pickle pickle;
	struct flmem_tensor_list list;
	struct flmem_error *err;
};

static void clear_checkpoint(struct checkpoint *checkpoint)
{
	flmem_pickle_clear(&checkpoint->pickle);
	flmem_tensor_list_clear(&checkpoint->list);
}

/* Finds the entry "<folder>/data.pkl"; NULL for none or several. */
static const struct flmem_archive_entry *find_pickle(const struct flmem_archive *archive)
{
	const struct flmem_archive_entry *found = NULL;

	for (size_t i = 0; i < archive->count; i++) {
		const char *name = archive->entries[i].name, *slash = strchr(name, '/');

		if (!slash || slash == name || strcmp(slash, PICKLE) != 0)
			continue;
		if (found)
			return NULL;
		found = &archive->entries[i];
	}
	return found;
}

static int bad_tensor(const struct checkpoint *checkpoint, const char *name, const char *why)
{
	char shown[128];

	return flmem_error_set(checkpoint->err, FLMEM_EUSAGE, 0,
			       "'%s' cannot be read: its tensor '%s' %s", checkpoint->path,
			       flmem_text_escape(name, shown, sizeof(shown)), why);
}

static int checkpoint_nomem(const struct checkpoint *checkpoint)
{
	return flmem_error_nomem(checkpoint->err, "cannot list the tensors of '%s'",
				 checkpoint->path);
}

/* Finds an entry in the folder of the pickle; NULL if absent. */
static const struct flmem_archive_entry *find_storage_entry(const struct checkpoint *checkpoint,
							    const char *name, size_t length)
{
	char path[FLMEM_ARCHIVE_NAME_MAX + 1];
	int written = snprintf(path, sizeof(path), "%.*s/%.*s", checkpoint->folder_length,
			       checkpoint->folder, (int)length, name);

	if (written < 0 || (size_t)written >= sizeof(path))
		return NULL;
	return flmem_archive_find(checkpoint->archive, path);
}

static const struct flmem_archive_entry *find_storage(const struct checkpoint *checkpoint,
						      const struct flmem_pickle_storage *storage)
{
	char name[64];

	if (storage->key.length > 32)
		return NULL;
	snprintf(name, sizeof(name), "data/%.*s", (int)storage->key.length,
		 checkpoint->pickle.text + storage->key.number);
	return find_storage_entry(checkpoint, name, strlen(name));
}

/* Copies the shape; false if it is no list of sizes, or the product is too large. */
static bool take_pickled_shape(struct checkpoint *checkpoint, const struct flmem_pickle_box *shape,
			       struct flmem_tensor *tensor, uint64_t *ret_elements)
{
	struct flmem_tensor_list *list = &checkpoint->list;
	const struct flmem_pickle_node *nodes = checkpoint->pickle.nodes;
	uint32_t node = shape->first;

	if (shape->count > FLMEM_TENSOR_RANK_MAX)
		return false;
	tensor->shape = list->extent_count;
	tensor->rank = shape->count;
	*ret_elements = 1;
	for (uint32_t i = 0; i < shape->count; i++, node = nodes[node].next) {
		int64_t extent = nodes[node].value.number;

		if (nodes[node].value.kind != FLMEM_PICKLE_INTEGER || extent < 0 ||
		    __builtin_mul_overflow(*ret_elements, (uint64_t)extent, ret_elements))
			return false;
		list->extents[list->extent_count++] = (uint64_t)extent;
	}
	return true;
}

/* Reports whether the elements are in the order of C, without holes. */
static bool is_contiguous(const struct checkpoint *checkpoint,
			  const struct flmem_pickle_box *strides, const struct flmem_tensor *tensor)
{
	const uint64_t *extents = checkpoint->list.extents + tensor->shape;
	const struct flmem_pickle_node *nodes = checkpoint->pickle.nodes;
	uint32_t node = strides->first;

	if (strides->count != tensor->rank)
		return false;
	for (uint32_t i = 0; i < tensor->rank; i++, node = nodes[node].next) {
		uint64_t expected = 1;

		for (uint32_t j = i + 1; j < tensor->rank; j++)
			expected *= extents[j]; /* no overflow: the product of all extents fits */
		if (nodes[node].value.kind != FLMEM_PICKLE_INTEGER ||
		    (extents[i] != 1 && nodes[node].value.number != (int64_t)expected))
			return false;
	}
	return true;
}

static int place_tensor(struct checkpoint *checkpoint, const struct flmem_pickle_tensor *from,
			uint64_t elements, struct flmem_tensor *tensor)
{
	const struct flmem_pickle_storage *storage = &checkpoint->pickle.storages[from->storage];
	const struct flmem_archive_entry *entry = find_storage(checkpoint, storage);
	uint64_t size = from->dtype->bits / 8, first, bytes, whole;

	if (!entry)
		return bad_tensor(checkpoint, tensor->name, "has no storage in the archive");
	if (from->dtype->bits % 8)
		return bad_tensor(checkpoint, tensor->name,
				  "has elements that are not whole bytes");
	if (__builtin_mul_overflow(storage->elements, storage->dtype ? storage->dtype->bits / 8 : 1,
				   &whole) ||
	    whole != entry->bytes)
		return bad_tensor(checkpoint, tensor->name,
				  "has a storage whose size differs from that in the archive");
	if (__builtin_mul_overflow(from->first, size, &first) ||
	    __builtin_mul_overflow(elements, size, &bytes) || first > entry->bytes ||
	    bytes > entry->bytes - first)
		return bad_tensor(checkpoint, tensor->name, "is larger than its storage");
	tensor->offset = entry->offset + first;
	tensor->bytes = bytes;
	if (__builtin_add_overflow(checkpoint->list.data_bytes, bytes,
				   &checkpoint->list.data_bytes) ||
	    checkpoint->list.data_bytes > INT64_MAX)
		return bad_tensor(checkpoint, tensor->name,
				  "exceeds, with those before it, the memory of any machine");
	return 0;
}

/*
 * Takes the name of a tensor in place. Its NUL overwrites the opcode that follows, which has been
 * executed.
 */
static int take_tensor_name(struct checkpoint *checkpoint, const struct flmem_pickle_value *key,
			    const char **ret_name)
{
	char *text = checkpoint->pickle.text;
	char *name = text + key->number;

	if (key->kind != FLMEM_PICKLE_STRING || memchr(name, '\0', key->length) ||
	    key->length > FLMEM_TENSOR_NAME_MAX)
		return flmem_error_set(checkpoint->err, FLMEM_EUSAGE, 0,
				       "'%s' cannot be read: it has a tensor without a valid name",
				       checkpoint->path);
	name[key->length] = '\0';
	if (!flmem_text_is_utf8(name))
		return bad_tensor(checkpoint, name, "has a name that is not UTF-8 text");
	*ret_name = name;
	return 0;
}

static int not_a_tensor(const struct checkpoint *checkpoint, const char *name,
			const struct flmem_pickle_value *value)
{
	char shown[128];

	flmem_text_escape(name, shown, sizeof(shown));
	return flmem_error_set(
		checkpoint->err, FLMEM_EUSAGE, 0,
		"'%s' contains '%s', which is not a tensor; name the dict that contains only "
		"tensors with --key, for example %s",
		checkpoint->path, shown, value->kind == FLMEM_PICKLE_DICT ? shown : "state_dict");
}

static int take_tensor(struct checkpoint *checkpoint, const struct flmem_pickle_value *key,
		       const struct flmem_pickle_value *value)
{
	struct flmem_tensor *tensor = &checkpoint->list.tensors[checkpoint->list.count];
	const struct flmem_pickle_tensor *from;
	uint64_t elements;
	int rc = take_tensor_name(checkpoint, key, &tensor->name);

	if (rc)
		return rc;
	if (value->kind != FLMEM_PICKLE_TENSOR)
		return not_a_tensor(checkpoint, tensor->name, value);
	from = &checkpoint->pickle.tensors[value->number];
	tensor->dtype = from->dtype;
	if (!take_pickled_shape(checkpoint, &from->shape, tensor, &elements))
		return bad_tensor(checkpoint, tensor->name,
				  from->shape.count > FLMEM_TENSOR_RANK_MAX ? FLMEM_TENSOR_RANK_WHY
									    : "has no valid shape");
	if (elements && !is_contiguous(checkpoint, &from->strides, tensor))
		return bad_tensor(checkpoint, tensor->name,
				  "is not contiguous; save it with .contiguous()");
	checkpoint->list.count++;
	return place_tensor(checkpoint, from, elements, tensor);
}

/* Finds the dict with the tensors. */
static int find_dict(const struct checkpoint *checkpoint, struct flmem_pickle_value *ret_dict)
{
	const struct flmem_pickle *pickle = &checkpoint->pickle;
	const struct flmem_pickle_node *nodes = pickle->nodes;
	struct flmem_pickle_value found = {0};
	char shown[128];

	if (pickle->stack_count) /* a valid pickle leaves one object */
		found = pickle->stack[0];
	if (checkpoint->key && found.kind == FLMEM_PICKLE_DICT) {
		uint32_t node = pickle->boxes[found.number].first;

		found.kind = FLMEM_PICKLE_OTHER;
		for (; node; node = nodes[nodes[node].next].next)
			if (flmem_pickle_is_text(pickle, &nodes[node].value, checkpoint->key))
				found = nodes[nodes[node].next].value;
	}
	*ret_dict = found;
	if (found.kind == FLMEM_PICKLE_DICT)
		return 0;
	if (!checkpoint->key)
		return flmem_error_set(checkpoint->err, FLMEM_EUSAGE, 0,
				       "'%s' has no dict at its top level", checkpoint->path);
	return flmem_error_set(checkpoint->err, FLMEM_EUSAGE, 0,
			       "'%s' has no dict '%s' at its top level; name another one with "
			       "--key, or leave --key out if the tensors are at the top level",
			       checkpoint->path,
			       flmem_text_escape(checkpoint->key, shown, sizeof(shown)));
}

static int compare_keys(const void *a, const void *b, void *context)
{
	const struct flmem_pickle_storage *x = *(const struct flmem_pickle_storage *const *)a;
	const struct flmem_pickle_storage *y = *(const struct flmem_pickle_storage *const *)b;
	const char *text = context;

	if (x->key.length != y->key.length)
		return x->key.length < y->key.length ? -1 : 1;
	return memcmp(text + x->key.number, text + y->key.number, x->key.length);
}

/* PyTorch reads a storage once, as its first type; another type would give other elements. */
static int check_storages(const struct checkpoint *checkpoint)
{
	const struct flmem_pickle *pickle = &checkpoint->pickle;
	FLMEM_AUTO_FREE const struct flmem_pickle_storage **order =
		calloc(pickle->storage_count + 1, sizeof(*order));

	if (!order)
		return checkpoint_nomem(checkpoint);
	for (size_t i = 0; i < pickle->storage_count; i++)
		order[i] = &pickle->storages[i];
	flmem_sort(order, pickle->storage_count, sizeof(*order), compare_keys, pickle->text);
	for (size_t i = 1; i < pickle->storage_count; i++)
		if (compare_keys(&order[i - 1], &order[i], pickle->text) == 0 &&
		    (order[i - 1]->dtype != order[i]->dtype ||
		     order[i - 1]->elements != order[i]->elements))
			return flmem_error_set(checkpoint->err, FLMEM_EUSAGE, 0,
					       "'%s' cannot be read: it has one storage under two "
					       "types or sizes",
					       checkpoint->path);
	return 0;
}

static int take_tensors(struct checkpoint *checkpoint)
{
	const struct flmem_pickle *pickle = &checkpoint->pickle;
	struct flmem_tensor_list *list = &checkpoint->list;
	const struct flmem_pickle_box *box;
	const struct flmem_tensor *twice;
	struct flmem_pickle_value dict;
	int rc = find_dict(checkpoint, &dict);

	if (rc)
		return rc;
	if (!pickle->boxes)
		return checkpoint_nomem(checkpoint);
	box = &pickle->boxes[dict.number];
	list->tensors = calloc(box->count / 2 + 1, sizeof(*list->tensors));
	list->extents =
		calloc((size_t)box->count / 2 * FLMEM_TENSOR_RANK_MAX + 1, sizeof(*list->extents));
	list->texts = calloc(1, sizeof(*list->texts));
	if (!list->tensors || !list->extents || !list->texts)
		return checkpoint_nomem(checkpoint);
	for (uint32_t node = box->first; node && !rc;) {
		uint32_t value = pickle->nodes[node].next;

		rc = take_tensor(checkpoint, &pickle->nodes[node].value,
				 &pickle->nodes[value].value);
		node = pickle->nodes[value].next;
	}
	if (rc)
		return rc;
	list->texts[list->text_count++] = FLMEM_TAKE(checkpoint->pickle.text);
	twice = flmem_tensor_list_sort(list);
	return twice ? bad_tensor(checkpoint, twice->name, "occurs twice") : 0;
}

/* PyTorch 2.1 and later write the byte order of the storages. */
static int check_byte_order(const struct flmem_source *source, const struct checkpoint *checkpoint)
{
	static const char name[] = "byteorder", little[] = "little";
	const struct flmem_archive_entry *entry =
		find_storage_entry(checkpoint, name, sizeof(name) - 1);
	char text[sizeof(little)] = "";

	if (!entry || (entry->bytes == sizeof(little) - 1 &&
		       flmem_source_read_at(source, entry->offset, text, sizeof(little) - 1) &&
		       strcmp(text, little) == 0))
		return 0;
	return flmem_error_set(checkpoint->err, FLMEM_EUSAGE, 0,
			       "'%s' cannot be read: its tensors are not little-endian",
			       checkpoint->path);
}

static int read_pickle(const struct flmem_source *source, struct checkpoint *checkpoint,
		       const struct flmem_archive_entry *entry)
{
	FLMEM_AUTO_FREE char *text = NULL;

	if (entry->bytes > PICKLE_MAX)
		return flmem_archive_entry_invalid(checkpoint->path, entry,
						   "exceeds the limit of 64 MiB", checkpoint->err);
	text = malloc((size_t)entry->bytes + 1);
	if (!text)
		return checkpoint_nomem(checkpoint);
	if (!flmem_source_read_at(source, entry->offset, text, (size_t)entry->bytes))
		return flmem_error_set(checkpoint->err, FLMEM_EFAILED, 0,
				       "'%s' changed while it was read", checkpoint->path);
	if (flmem_crc32(0, text, (size_t)entry->bytes) != entry->crc32)
		return flmem_archive_entry_invalid(checkpoint->path, entry,
						   FLMEM_ARCHIVE_OTHER_CHECKSUM, checkpoint->err);
	return flmem_pickle_read(checkpoint->path, FLMEM_TAKE(text), (size_t)entry->bytes,
				 &checkpoint->pickle, checkpoint->err);
}

int flmem_checkpoint_read(const struct flmem_source *source, const char *path,
			  const struct flmem_archive *archive, const char *key,
			  struct flmem_tensor_list *ret_list, struct flmem_error *err)
{
	const struct flmem_archive_entry *entry = find_pickle(archive);
	FLMEM_AUTO(clear_checkpoint)
	struct checkpoint checkpoint = {.path = path, .key = key, .archive = archive, .err = err};
	int rc;

	if (!entry)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"'%s' is an archive, but neither a PyTorch checkpoint with one pickle nor "
			"one with only NumPy arrays",
			path);
	checkpoint.folder = entry->name;
	checkpoint.folder_length = (int)(strlen(entry->name) - strlen(PICKLE));
	rc = check_byte_order(source, &checkpoint);
	if (!rc)
		rc = read_pickle(source, &checkpoint, entry);
	if (!rc)
		rc = check_storages(&checkpoint);
	if (!rc)
		rc = take_tensors(&checkpoint);
	if (rc)
		return rc;
	*ret_list = checkpoint.list;
	checkpoint.list = (struct flmem_tensor_list){0};
	return 0;
}
