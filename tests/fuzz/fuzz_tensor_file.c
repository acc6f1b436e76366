/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors of any format: every tensor that is listed is inside the file. */
#include "base/cleanup.h"
#include "file.h"
#include "fuzz.h"
#include "model/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_CLOSE int fd = fuzz_file(data, size);
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	struct flmem_tensor_file file = {0};

	if (!flmem_tensor_file_read(FLMEM_SOURCE_FD(fd), "file.pt", NULL, &file, &list, NULL))
		for (size_t i = 0; i < list.count; i++) {
			const struct flmem_tensor *tensor = &list.tensors[i];

			if (tensor->offset > size || tensor->bytes > size - tensor->offset ||
			    flmem_tensor_list_find(&list, tensor->name) != tensor)
				abort();
		}
	flmem_tensor_file_clear(&file);
	return 0;
}
