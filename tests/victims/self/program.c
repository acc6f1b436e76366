/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees some 200 MB in a way that leaves it with the allocator, asks libflmem to give it back, and
 * prints: allocator, result of the call, RSS before and after in bytes.
 *
 *   self_x cleanup | trim | threads
 */
#include <flmem/own_process.h>
#include <flmem/roles.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS	20000
#define THREADS 8

/* Read by nobody; an initialised pointer makes its address known before the program runs. */
void *(*volatile malloc_address)(size_t) = malloc;

#ifdef WRAP_MALLOC
__attribute__((visibility("default"))) void *malloc(size_t size)
{
	static void *(*next)(size_t);

	if (!next)
		next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	return next(size);
}
#endif

static long rss_bytes(void)
{
	long size = 0, resident = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	if (!statm || fscanf(statm, "%ld %ld", &size, &resident) != 2)
		exit(1);
	fclose(statm);
	return resident * sysconf(_SC_PAGESIZE);
}

static void *churn(void)
{
	static void *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++) {
		size_t size = 6000 + i % 7 * 1500;

		blocks[i] = malloc(size);
		memset(blocks[i], 1, size);
	}
	for (size_t i = 0; i + 1 < BLOCKS; i++)
		free(blocks[i]);
	return blocks[BLOCKS - 1];
}

static void *ask(void *data)
{
	struct flmem_error err;
	intptr_t wrong = flmem_cleanup_memory(&err) != 0;

	(void)data;
	return (void *)(wrong + ((intptr_t)flmem_get_allocator_type() << 8));
}

/* Every thread asks first and at once: all must get the same answer. */
static int ask_at_once(void)
{
	pthread_t threads[THREADS];
	void *first, *other;
	int wrong = 0;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, ask, NULL);
	pthread_join(threads[0], &first);
	for (int i = 1; i < THREADS; i++) {
		pthread_join(threads[i], &other);
		wrong += other != first;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "cleanup";
	struct flmem_error err = {0};
	long before;
	int rc;

	churn();
	before = rss_bytes();
	if (strcmp(what, "threads") == 0)
		rc = ask_at_once();
	else if (strcmp(what, "trim") == 0)
		rc = flmem_try_malloc_trim();
	else
		rc = flmem_cleanup_memory(&err);
	printf("%s %d %ld %ld\n", flmem_allocator_name(flmem_get_allocator_type()), rc, before,
	       rss_bytes());
	if (err.code)
		fprintf(stderr, "%s\n", err.message);
	return 0;
}
