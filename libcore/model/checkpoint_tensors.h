/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_CHECKPOINT_TENSORS_H
#define FLMEM_MODEL_CHECKPOINT_TENSORS_H

/*
 * Lists the tensors of a PyTorch checkpoint with their places in the file. The pickle is read as
 * data and not executed.
 */

#include "model/archive.h"
#include "model/tensor_list.h"
#include "model/tensors.h"

/*
 * Reads a checked archive with a pickle. `key` names the dict below the top level that has the
 * tensors; NULL: the top level has them. All of its values must be contiguous tensors, which may
 * share bytes; otherwise FLMEM_EUSAGE.
 */
int flmem_checkpoint_read(const struct flmem_source *source, const char *path,
			  const struct flmem_archive *archive, const char *key,
			  struct flmem_tensor_list *ret_list, struct flmem_error *err);

/* Adds the sizes of all storages, which may hold more than the tensors. */
int flmem_checkpoint_add_archive(const char *path, const struct flmem_archive *archive,
				 struct flmem_tensors *tensors, struct flmem_error *err);

#endif
