/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that reads from a pipe, with a heap that has nothing to release. */
#include <unistd.h>

int main(void)
{
	char byte;

	if (write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
