/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in C may give its functions the names that POSIX adds to those of C. Calls of libraries
 * get here, too. Nothing in this program calls them.
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
OWN(fstatat)
OWN(geteuid)
OWN(getsockopt)
OWN(kill)
OWN(listen)
OWN(recv)
OWN(send)
OWN(setsockopt)
OWN(socket)
OWN(unlinkat)

int main(void)
{
	puts("ready");
	fflush(stdout);
	sleep(1000);
	return 0;
}
