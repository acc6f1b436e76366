/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills and thins out the heaps of four threads, prints the figures that its allocator reports, one
 * "name bytes" per line, then "ready", and no longer touches its heap. Figures that this version of
 * the allocator lacks are left out. TCMALLOC: gperftools; MIMALLOC: mimalloc; else jemalloc.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define BLOCKS	20000
#define KEEP	64

static char *blocks[THREADS][BLOCKS];
static atomic_int done;

#ifdef TCMALLOC
int MallocExtension_GetNumericProperty(const char *name, size_t *value);

static const char *const names[] = {
	"generic.current_allocated_bytes",    "tcmalloc.current_total_thread_cache_bytes",
	"tcmalloc.transfer_cache_free_bytes", "tcmalloc.central_cache_free_bytes",
	"tcmalloc.pageheap_free_bytes",	      "tcmalloc.pageheap_unmapped_bytes",
};

static bool ask(const char *name, size_t *value)
{
	return MallocExtension_GetNumericProperty(name, value);
}
#elif defined(MIMALLOC)
void mi_process_info(size_t *elapsed_ms, size_t *user_ms, size_t *system_ms, size_t *rss,
		     size_t *peak_rss, size_t *commit, size_t *peak_commit, size_t *faults);

static const char *const names[] = {"commit"};

static bool ask(const char *name, size_t *value)
{
	(void)name;
	mi_process_info(NULL, NULL, NULL, NULL, NULL, value, NULL, NULL);
	return true;
}
#else
int mallctl(const char *name, void *old, size_t *old_length, void *new_value, size_t new_length);

static const char *const names[] = {
	"stats.allocated",	    "stats.active",
	"stats.resident",	    "stats.metadata",
	"stats.retained",	    "stats.arenas.4096.pdirty",
	"stats.arenas.4096.pmuzzy", "stats.arenas.4096.tcache_bytes",
	"stats.arenas.0.pactive",   "stats.arenas.0.pdirty",
	"stats.arenas.1.pactive",   "stats.arenas.1.pdirty",
};

static bool ask(const char *name, size_t *value)
{
	static const char all[] = "stats.arenas.4096.";
	size_t length = sizeof(*value), count_length = sizeof(unsigned);
	unsigned count;
	uint64_t epoch = 1;
	char older[64];

	if (mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch)) != 0)
		return false;
	if (mallctl(name, value, &length, NULL, 0) == 0)
		return true;
	/* Before 5.0, the index after the last arena means all arenas. */
	if (strncmp(name, all, strlen(all)) != 0 ||
	    mallctl("arenas.narenas", &count, &count_length, NULL, 0) != 0)
		return false;
	snprintf(older, sizeof(older), "stats.arenas.%u.%s", count, name + strlen(all));
	return mallctl(older, value, &length, NULL, 0) == 0;
}
#endif

static void *work(void *argument)
{
	char **mine = argument;
	unsigned char byte;
	int sleep_for_ever[2];

	for (size_t i = 0; i < BLOCKS; i++) {
		size_t size = i % 8 ? 300 + i % 1000 : 20000;

		mine[i] = malloc(size);
		if (!mine[i])
			abort();
		memset(mine[i], 1, size);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		if (i % KEEP) {
			free(mine[i]);
			mine[i] = NULL;
		}
	if (pipe(sleep_for_ever) != 0)
		abort();
	atomic_fetch_add(&done, 1);
	return read(sleep_for_ever[0], &byte, 1) ? argument : NULL;
}

int main(void)
{
	size_t values[sizeof(names) / sizeof(names[0])];
	bool known[sizeof(names) / sizeof(names[0])];

	setvbuf(stdout, NULL, _IOLBF, 4096);
	puts("begin"); /* stdio has now allocated all its buffers */
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work, blocks[i]) != 0)
			return 1;
	}
	while (atomic_load(&done) < THREADS)
		usleep(1000);
	usleep(50000);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		known[i] = ask(names[i], &values[i]);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (known[i])
			printf("%s %zu\n", names[i], values[i]);
	puts("ready");
	for (;;)
		pause();
}
