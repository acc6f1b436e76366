/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_PICKLE_H
#define FLMEM_MODEL_PICKLE_H

/*
 * The pickle of a PyTorch checkpoint, read as data: a stack machine that knows the few functions by
 * which PyTorch describes tensors (torch/_utils.py, collections.OrderedDict) and refuses any other
 * name. Nothing is called or executed. Memory is limited to a multiple of the pickle's size.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "model/tensors.h"

enum flmem_pickle_kind {
	FLMEM_PICKLE_OTHER, /* None, floats, bytes, sets, large integers */
	FLMEM_PICKLE_BOOL,
	FLMEM_PICKLE_INTEGER,
	FLMEM_PICKLE_STRING,  /* number: offset in the text, length: in bytes */
	FLMEM_PICKLE_TUPLE,   /* number: index of the box */
	FLMEM_PICKLE_LIST,    /* number: index of the box */
	FLMEM_PICKLE_DICT,    /* number: index of the box; keys and values in turn */
	FLMEM_PICKLE_NAME,    /* name of a function or class; number: its kind */
	FLMEM_PICKLE_DTYPE,   /* number: index of the type */
	FLMEM_PICKLE_STORAGE, /* number: index of the storage */
	FLMEM_PICKLE_TENSOR,  /* number: index of the tensor */
	FLMEM_PICKLE_MARK,
};

struct flmem_pickle_value {
	enum flmem_pickle_kind kind;
	uint32_t length;
	int64_t number;
};

/* One element of a box. */
struct flmem_pickle_node {
	struct flmem_pickle_value value;
	uint32_t next; /* index of the next node; 0: none */
};

/* The elements of a tuple, a list or a dict. */
struct flmem_pickle_box {
	uint32_t first, last, count; /* indices and number of the nodes */
};

struct flmem_pickle_storage {
	struct flmem_pickle_value key;	 /* name of its entry below data/ */
	const struct flmem_dtype *dtype; /* NULL: bytes */
	uint64_t elements;
};

struct flmem_pickle_tensor {
	size_t storage;
	const struct flmem_dtype *dtype;
	uint64_t first;				/* first element in the storage */
	struct flmem_pickle_box shape, strides; /* tuples of integers */
};

struct flmem_pickle {
	char *text;
	size_t length;
	struct flmem_pickle_value *stack, *memo;
	size_t stack_count, stack_room, memo_count, memo_room;
	struct flmem_pickle_node *nodes; /* the first one is not used */
	size_t node_count, node_room;
	struct flmem_pickle_box *boxes;
	size_t box_count, box_room;
	struct flmem_pickle_storage *storages;
	size_t storage_count, storage_room;
	struct flmem_pickle_tensor *tensors;
	size_t tensor_count, tensor_room;
	/* State during reading. */
	const char *path;
	size_t at;
	struct flmem_error *err;
};

/*
 * Reads `text` and takes ownership of it; leaves the object on the stack. FLMEM_EUSAGE for a pickle
 * of other contents.
 */
int flmem_pickle_read(const char *path, char *text, size_t length, struct flmem_pickle *ret_pickle,
		      struct flmem_error *err);

void flmem_pickle_clear(struct flmem_pickle *pickle);

#define FLMEM_AUTO_PICKLE FLMEM_AUTO(flmem_pickle_clear)

bool flmem_pickle_is_text(const struct flmem_pickle *pickle, const struct flmem_pickle_value *value,
			  const char *text);

/* Returns element `index` of a box; NULL if absent. */
const struct flmem_pickle_value *flmem_pickle_element(const struct flmem_pickle *pickle,
						      const struct flmem_pickle_value *box,
						      size_t index);

/* The following functions are shared by the files that implement the reader. */

int flmem_pickle_fail(struct flmem_pickle *pickle, const char *why);
int flmem_pickle_nomem(struct flmem_pickle *pickle);
int flmem_pickle_push(struct flmem_pickle *pickle, enum flmem_pickle_kind kind, int64_t number);
bool flmem_pickle_pop(struct flmem_pickle *pickle, struct flmem_pickle_value *ret_value);

/* Makes room for one more element; the array doubles up to a limit. False when memory is out. */
bool flmem_pickle_room(void **array, size_t count, size_t *room, size_t size);

/* Pushes an empty box. */
int flmem_pickle_push_box(struct flmem_pickle *pickle, enum flmem_pickle_kind kind);

/* Pushes the object that a name stands for. */
int flmem_pickle_name(struct flmem_pickle *pickle, const struct flmem_pickle_value *module,
		      const struct flmem_pickle_value *name);

/* Replaces a name and its arguments on the stack by the result of the call. */
int flmem_pickle_reduce(struct flmem_pickle *pickle);

/* Replaces a tuple on the stack by the storage that it names. */
int flmem_pickle_persistent(struct flmem_pickle *pickle);

#endif
