/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for mappings that precede those of the C library, like those of libraries that keep
 * memory registered with a device: each call must reach them. There is none for mmap().
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

SEEN int own_mappings, own_moves;

SEEN void *mmap64(void *at, size_t length, int access, int flags, int fd, off64_t offset)
{
	own_mappings++;
	return (void *)syscall(SYS_mmap, at, length, access, flags, fd, offset);
}

SEEN void *mremap(void *at, size_t old_length, size_t length, int flags, ...)
{
	void *target;
	va_list rest;

	va_start(rest, flags);
	target = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
	va_end(rest);
	own_moves++;
	return (void *)syscall(SYS_mremap, at, old_length, length, flags, target);
}
