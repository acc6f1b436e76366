/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_TENSORS_H
#define FLMEM_MODEL_TENSORS_H

/*
 * Sums up files of weights from their directories: the header of a safetensors file, the central
 * directory of a PyTorch archive. No weight is read, nothing is unpickled. Files are untrusted: all
 * sizes are checked against the file, sums against overflow, and the amount read is limited.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

struct flmem_dtype {
	const char *name;   /* the name that users write */
	const char *stored; /* the name in safetensors files */
	unsigned bits;
	unsigned order; /* the format's writer stores types with a higher number first */
};

/* Finds a type by either name; NULL if unknown. */
const struct flmem_dtype *flmem_dtype_find(const char *name);

/* Like flmem_dtype_find(), and accepts PyTorch's and NumPy's names: float16, torch.bfloat16. */
const struct flmem_dtype *flmem_dtype_by_option(const char *name);

/* Converts a type to a number, and back. */
size_t flmem_dtype_index(const struct flmem_dtype *dtype);
const struct flmem_dtype *flmem_dtype_at(size_t index);

/* Sums over all files of a model. */
struct flmem_tensors {
	uint64_t bytes, elements, count, largest_bytes;
	bool counted;			 /* elements and dtype are known */
	bool listed;			 /* count and largest are known */
	const struct flmem_dtype *dtype; /* NULL: none yet, or several */
	bool mixed;
};

/* Both functions add to `tensors`, which is unchanged on failure. `path` is for messages. */
int flmem_safetensors_add(int fd, const char *path, struct flmem_tensors *tensors,
			  struct flmem_error *err);
int flmem_checkpoint_add(int fd, const char *path, struct flmem_tensors *tensors,
			 struct flmem_error *err);

#endif
