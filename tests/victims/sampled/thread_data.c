/* SPDX-License-Identifier: Apache-2.0 */
/* A program with much thread-local data, for which each thread has room on its stack. */

#include <stdio.h>
#include <unistd.h>

static __thread char data[DATA_BYTES];

int main(void)
{
	for (unsigned i = 0; i < sizeof(data); i += 4096)
		((volatile char *)data)[i] = 1;
	puts("ready");
	fflush(stdout);
	sleep(1000);
	return 0;
}
