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
	bool done;

	if (source->read)
		return source->read(source->context, offset, out, length);
	errno = 0; /* the end of the file leaves it unset */
	done = flmem_io_read_at(source->fd, offset, out, length);
	if (!done && source->error && errno != EINTR)
		*source->error = errno;
	return done;
}

bool flmem_source_reserve(const struct flmem_source *source, struct flmem_buf *buf, size_t length)
{
	if (flmem_buf_reserve(buf, length))
		return true;
	if (source->error)
		*source->error = ENOMEM;
	return false;
}

int flmem_source_end(const struct flmem_source *source, const char *path, int rc,
		     struct flmem_error *err)
{
	if (!rc || !source->error || !*source->error)
		return rc;
	return flmem_error_set(err, FLMEM_EFAILED, *source->error, "cannot read '%s'", path);
}
