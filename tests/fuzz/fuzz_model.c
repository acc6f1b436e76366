/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of weights: the first byte decides between a safetensors file and a PyTorch checkpoint. The
 * sums must stay inside what the file can hold.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "fuzz.h"
#include "model/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_tensors sum = {.counted = true, .listed = true};
	FLMEM_AUTO_CLOSE int fd = memfd_create("model", MFD_CLOEXEC);
	int rc;

	if (!size)
		return 0;
	if (fd < 0 || flmem_io_write_all(fd, data + 1, size - 1))
		abort();
	rc = data[0] & 1 ? flmem_safetensors_add(fd, "model", &sum, NULL)
			 : flmem_checkpoint_add(fd, "model", &sum, NULL);
	if (!rc && (sum.bytes >= size || sum.largest_bytes > sum.bytes))
		abort();
	if (rc && (sum.bytes || sum.count))
		abort();
	return 0;
}
