/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library in front of the C library: the first flock() makes the file $SLOW_FLOCK.begun and waits
 * while $SLOW_FLOCK exists, as in a process that gets no time.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int flock(int fd, int operation)
{
	const char *slow = getenv("SLOW_FLOCK");
	char begun[4096];

	if (slow && access(slow, F_OK) == 0) {
		snprintf(begun, sizeof(begun), "%s.begun", slow);
		close(open(begun, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		while (access(slow, F_OK) == 0)
			usleep(1000);
	}
	return (int)syscall(SYS_flock, fd, operation);
}
