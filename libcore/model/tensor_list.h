/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_TENSOR_LIST_H
#define FLMEM_MODEL_TENSOR_LIST_H

/*
 * The tensors of a file one by one, and the header that describes them in a safetensors file.
 * Reading takes time and memory in proportion to the header, which the format limits to 100 MB.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "model/source.h"
#include "model/tensors.h"

#define FLMEM_TENSOR_RANK_MAX	   16U
#define FLMEM_TENSOR_RANK_WHY	   "has more than 16 dimensions, which is not supported"
#define FLMEM_TENSOR_NAME_MAX	   4096U
#define FLMEM_SAFETENSORS_HEAD_MAX 100000000U /* the limit of the format's own reader */

struct flmem_tensor {
	const char *name; /* UTF-8 without control over its characters: escape it to print */
	const struct flmem_dtype *dtype;
	uint64_t offset, bytes; /* place in the file */
	size_t shape;		/* index in `extents` of the first of `rank` extents */
	uint32_t rank;
	uint32_t file; /* number of the file in a model of several files */
};

/* One pair of a safetensors file's __metadata__. */
struct flmem_tensor_note {
	const char *key, *value;
};

struct flmem_tensor_list {
	struct flmem_tensor *tensors; /* sorted by name */
	size_t count, room;
	uint64_t *extents;
	size_t extent_count, extent_room;
	struct flmem_tensor_note *notes; /* in the order of the file */
	size_t note_count, note_room;
	uint64_t data_offset; /* offset of the first tensor */
	uint64_t data_bytes;
	char **texts; /* the headers, which hold the names; one per file */
	size_t text_count;
};

/* Reads the header of an open file. `path` is for messages. FLMEM_EUSAGE for an invalid file. */
int flmem_safetensors_read(const struct flmem_source *source, const char *path,
			   struct flmem_tensor_list *ret_list, struct flmem_error *err);

void flmem_tensor_list_clear(struct flmem_tensor_list *list);

#define FLMEM_AUTO_TENSOR_LIST FLMEM_AUTO(flmem_tensor_list_clear)

/*
 * Moves the tensors of another file into the list as those of file number `file`, and empties
 * `other`. The caller sorts the list when all files are merged. False if memory is out; both keep
 * what they own.
 */
bool flmem_tensor_list_merge(struct flmem_tensor_list *list, struct flmem_tensor_list *other,
			     uint32_t file);

/* Sorts by name; returns a tensor whose name occurs twice, or NULL. */
const struct flmem_tensor *flmem_tensor_list_sort(struct flmem_tensor_list *list);

/* Finds a tensor by name; NULL if there is none. */
const struct flmem_tensor *flmem_tensor_list_find(const struct flmem_tensor_list *list,
						  const char *name);

/* Appends the shape as "[2, 3]". */
void flmem_tensor_shape_print(const struct flmem_tensor_list *list,
			      const struct flmem_tensor *tensor, struct flmem_buf *buf);

/* Appends a text as a JSON string, as in the format's headers. */
void flmem_tensor_text_print(const char *text, struct flmem_buf *buf);

/*
 * The order in which the format's own writer stores tensors: by type, then by name. It aligns every
 * tensor to its elements. Comparison function for pointers to pointers to tensors.
 */
int flmem_tensor_compare_stored(const void *a, const void *b);

/*
 * Appends length and header of a safetensors file that holds the tensors in this order without
 * holes, padded to 8 bytes, with the notes of `list`. The tensors' own offsets are ignored. The
 * buffer's `failed` shows whether memory was out.
 */
void flmem_safetensors_print(const struct flmem_tensor_list *list,
			     const struct flmem_tensor *const *order, struct flmem_buf *buf);

#endif
