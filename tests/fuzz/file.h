/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_FUZZ_FILE_H
#define FLMEM_TESTS_FUZZ_FILE_H

/* Provides the input as a file, for functions that read files only. */

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

static inline int fuzz_file(const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

#endif
