/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library in front of the C library: creat() makes the file $SLOW_CREAT.begun and waits while
 * $SLOW_CREAT exists, as on a slow disk. jemalloc calls it for a dump, and only there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int creat(const char *path, mode_t mode)
{
	const char *slow = getenv("SLOW_CREAT");
	char begun[4096];

	if (slow && access(slow, F_OK) == 0) {
		snprintf(begun, sizeof(begun), "%s.begun", slow);
		close(open(begun, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		while (access(slow, F_OK) == 0)
			usleep(1000);
	}
	return open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
