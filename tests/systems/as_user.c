/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command without privileges: as_user UID COMMAND [ARGS]. busybox has no such command. */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const unsigned id = argc > 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;

	if (!id)
		return 2;
	if (setgroups(0, NULL) || setgid(id) || setuid(id)) {
		perror("as_user");
		return 126;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
