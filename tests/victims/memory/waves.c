/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waves GO COUNT: once the file GO exists, starts COUNT times 100 children; those of one time end
 * when those of the next have started.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 100
#define TURN_US	 50000 /* a watch that samples every 50 ms finds some of each time */

static void start_children(pid_t *children)
{
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		if (children[i] < 0)
			exit(1);
		if (children[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
}

static void end_children(const pid_t *children)
{
	for (int i = 0; i < CHILDREN; i++)
		if (kill(children[i], SIGKILL) || waitpid(children[i], NULL, 0) != children[i])
			exit(1);
}

int main(int argc, char **argv)
{
	static pid_t children[2][CHILDREN];
	unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;

	if (count < 1)
		return 2;
	puts("ready");
	fflush(stdout);
	while (access(argv[1], F_OK) != 0)
		usleep(20000);
	for (unsigned long i = 0; i < count; i++) {
		start_children(children[i % 2]);
		usleep(TURN_US);
		if (i > 0)
			end_children(children[(i - 1) % 2]);
	}
	end_children(children[(count - 1) % 2]);
	return 0;
}
