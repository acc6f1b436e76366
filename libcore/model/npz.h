/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_NPZ_H
#define FLMEM_MODEL_NPZ_H

/*
 * Reads NumPy's .npz: an archive with one .npy file per array (numpy/lib/format.py describes them).
 */

#include <stdbool.h>

#include "base/text/buf.h"
#include "model/archive.h"
#include "model/tensor_list.h"

/* Reports whether all entries are .npy files. */
bool flmem_npz_is(const struct flmem_archive *archive);

/*
 * Lists the arrays of a checked archive. FLMEM_EUSAGE for unsupported byte or element orders, types
 * and objects.
 */
int flmem_npz_read(const struct flmem_source *source, const char *path,
		   const struct flmem_archive *archive, struct flmem_tensor_list *ret_list,
		   struct flmem_error *err);

/* Appends the header of a .npy file. False for a type that NumPy lacks. */
bool flmem_npz_print(const struct flmem_tensor_list *list, const struct flmem_tensor *tensor,
		     struct flmem_buf *buf);

#endif
