/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that precedes the C library with its own madvise(), like libraries that keep memory
 * registered with a device.
 */
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int madvise(void *address, size_t length, int advice)
{
	return (int)syscall(SYS_madvise, address, length, advice);
}
