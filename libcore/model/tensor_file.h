/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_TENSOR_FILE_H
#define FLMEM_MODEL_TENSOR_FILE_H

/* Reads a file of tensors in any of the formats whose tensors can be read in place. */

#include "model/archive.h"
#include "model/tensor_list.h"

enum flmem_tensor_format {
	FLMEM_FORMAT_SAFETENSORS,
	FLMEM_FORMAT_CHECKPOINT, /* a checkpoint of PyTorch 1.6 or later */
	FLMEM_FORMAT_NPZ,	 /* NumPy's .npz */
};

struct flmem_tensor_file {
	enum flmem_tensor_format format;
	/* Set for formats that are archives, also after failures not caused by the archive. */
	struct flmem_archive archive;
};

/* Returns the printable name of a format. */
const char *flmem_tensor_format_name(enum flmem_tensor_format format);

/*
 * Detects the format by the first bytes, and reads the tensors with their places. `key` is that of
 * flmem_checkpoint_read(). FLMEM_EUSAGE for invalid files. Clear the result also after a failure.
 */
int flmem_tensor_file_read(const struct flmem_source *source, const char *path, const char *key,
			   struct flmem_tensor_file *file, struct flmem_tensor_list *ret_list,
			   struct flmem_error *err);

void flmem_tensor_file_clear(struct flmem_tensor_file *file);

#endif
