/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * Opens each closed descriptor: open() returns the lowest free number. With O_PATH, reads and
 * writes fail with EBADF, as on a closed descriptor.
 */
void streams_reserve_closed(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}
