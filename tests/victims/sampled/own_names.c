/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in C may give its functions the names that POSIX adds to those of C. Calls of libraries
 * get here, too. Nothing in this program calls them. It keeps 6 MB.
 */

#include <stdio.h>
#include <stdlib.h>

extern unsigned int sleep(unsigned int seconds);

#define OWN(name)                                                      \
	extern long name(void) __attribute__((visibility("default"))); \
	long name(void)                                                \
	{                                                              \
		abort();                                               \
	}

OWN(bind)
OWN(fchmodat)
OWN(fstat)
OWN(fstatat)
OWN(geteuid)
OWN(getpid)
OWN(getppid)
OWN(getsockopt)
OWN(kill)
OWN(listen)
OWN(mprotect)
OWN(readlink)
OWN(recv)
OWN(send)
OWN(setsockopt)
OWN(socket)
OWN(unlink)
OWN(unlinkat)

int main(void)
{
	for (int i = 0; i < 64; i++)
		if (!malloc(100000))
			return 1;
	puts("ready");
	fflush(stdout);
	sleep(1000);
	return 0;
}
