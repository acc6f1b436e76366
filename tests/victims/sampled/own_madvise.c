/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library in front of the C library: madvise(), as libraries have it that keep memory registered
 * with a device.
 */
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int madvise(void *address, size_t length, int advice)
{
	return (int)syscall(SYS_madvise, address, length, advice);
}
