/* SPDX-License-Identifier: Apache-2.0 */
#include "oom_score.h"

#include <fcntl.h>
#include <unistd.h>

void oom_end_first(void)
{
	static const char most[] = "1000";
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, most, sizeof(most) - 1);
	close(fd);
}
