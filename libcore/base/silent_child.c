/* SPDX-License-Identifier: Apache-2.0 */
#include "base/silent_child.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t flmem_silent_child_start(void)
{
	return (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, NULL);
}

int flmem_silent_child_wait(pid_t child, int *ret_status)
{
	pid_t got;

	do
		got = waitpid(child, ret_status, __WALL);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : 0;
}
