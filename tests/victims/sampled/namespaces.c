/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two children that began in the same tick of the kernel's clock, each process 1 of a PID namespace
 * of its own. The first one allocates 5 MiB, then the second 7, while the first still runs. Ends
 * with 77 where namespaces are not allowed.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 200

struct contained {
	pid_t pid;
	int order[2], answer[2];
};

static void *volatile sink;

static void run_contained(struct contained *own, size_t size)
{
	char byte;

	close(own->order[1]);
	for (int i = 0; i < 2 && read(own->order[0], &byte, 1) == 1; i++) {
		sink = malloc(size);
		if (write(own->answer[1], &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static int start_contained(struct contained *out, size_t size)
{
	if (pipe(out->order) || pipe(out->answer))
		return -1;
	out->pid = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, NULL, NULL, NULL, NULL);
	if (out->pid == 0)
		run_contained(out, size);
	return out->pid < 0 ? -1 : 0;
}

static void end_contained(const struct contained *child)
{
	close(child->order[0]);
	close(child->order[1]);
	close(child->answer[0]);
	close(child->answer[1]);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

static int ask_contained(const struct contained *child)
{
	char byte = 0;

	return write(child->order[1], &byte, 1) == 1 && read(child->answer[0], &byte, 1) == 1 ? 0
											      : -1;
}

static unsigned long long read_start(pid_t pid)
{
	unsigned long long start = 0;
	char path[64], text[1024] = "", *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	return start;
}

int main(void)
{
	/*
	 * A child requests a profile when it has covered its parent's distance to the next sample.
	 */
	sink = malloc(1);
	for (int i = 0; i < TRIES; i++) {
		struct contained children[2];
		unsigned long long start;

		if (start_contained(&children[0], (size_t)5 << 20) ||
		    start_contained(&children[1], (size_t)7 << 20))
			return 77;
		start = read_start(children[0].pid);
		if (start && start == read_start(children[1].pid)) {
			int failed = ask_contained(&children[0]) || ask_contained(&children[1]) ||
				     ask_contained(&children[0]);

			end_contained(&children[0]);
			end_contained(&children[1]);
			return failed ? 3 : 0;
		}
		end_contained(&children[0]);
		end_contained(&children[1]);
	}
	return 4;
}
