/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a CPython: the table of its arenas and the heads of their pools. */
#include "../unit/pymalloc_image.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pymalloc_image image;
	struct image_source source = {&image, UINT64_MAX};
	struct flmem_pymalloc sum;

	memset(&image, 0, sizeof(image));
	memcpy(&image, data, size < sizeof(image) ? size : sizeof(image));
	if (image_search(&source, &sum))
		return 0;
	if (sum.used_bytes + sum.free_bytes != sum.resident_bytes ||
	    sum.block_bytes > sum.used_bytes || sum.resident_bytes > UINT64_C(4) << 20)
		abort();
	return 0;
}
