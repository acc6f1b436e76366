/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches jemalloc's background thread on and off all the time, which joins it with jemalloc's own
 * locks held, while another thread leaves pages to purge. Counts its rounds in the file that it is
 * given. Started with jemalloc preloaded.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 200

__attribute__((weak)) int mallctl(const char *name, void *old, size_t *length, void *new,
				  size_t new_length);

static void *allocate(void *unused)
{
	static void *blocks[BLOCKS];

	(void)unused;
	for (;;) {
		const struct timespec pause = {0, 5000000};

		for (size_t i = 0; i < BLOCKS; i++)
			blocks[i] = memset(malloc(20000), 1, 20000);
		for (size_t i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		nanosleep(&pause, NULL);
	}
}

static int toggle(bool on)
{
	return mallctl("background_thread", NULL, NULL, &on, sizeof(on));
}

int main(int argc, char **argv)
{
	int file = argc == 2 ? open(argv[1], O_WRONLY) : -1;
	pthread_t thread;

	if (!mallctl || file < 0 || pthread_create(&thread, NULL, allocate, NULL))
		return 2;
	for (uint64_t rounds = 0;; rounds++) {
		const struct timespec pause = {0, 2000000};

		if (toggle(true))
			return 3;
		nanosleep(&pause, NULL);
		if (toggle(false) || pwrite(file, &rounds, sizeof(rounds), 0) < 0)
			return 3;
		if (rounds == 1)
			(void)!write(STDOUT_FILENO, "ready\n", 6);
	}
}
