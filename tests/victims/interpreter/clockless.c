/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a thread that may not read the processor's clock; it never does, as it runs without
 * Python's lock.
 */
#include <sys/prctl.h>
#include <unistd.h>

void pause_clockless(void);
void pause_clockless(void)
{
	const char *said = "ready\n";

	(void)prctl(PR_SET_TSC, PR_TSC_SIGSEGV); /* not every kernel knows it */
	while (*said && write(STDOUT_FILENO, said, 1) == 1)
		said++;
	for (;;)
		pause();
}
