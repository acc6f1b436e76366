/* SPDX-License-Identifier: Apache-2.0 */
#include "model/source.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/files/io.h"

int flmem_source_size(const struct flmem_source *source, uint64_t *ret_bytes)
{
	struct stat status;

	if (!source->read && fstat(source->fd, &status) < 0)
		return -errno;
	*ret_bytes = source->read ? source->bytes : (uint64_t)status.st_size;
	return 0;
}

bool flmem_source_read_at(const struct flmem_source *source, uint64_t offset, void *out,
			  size_t length)
{
	return source->read ? source->read(source->context, offset, out, length)
			    : flmem_io_read_at(source->fd, offset, out, length);
}
