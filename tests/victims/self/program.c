/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees some 200 MB in a way that leaves it with the allocator, asks libflmem to give it back, and
 * prints: allocator, result of the call, RSS before and after in bytes.
 *
 *   self_x cleanup | trim | threads
 *
 * With `registered` and `registered-trim` it frees a block that stays registered with io_uring, and
 * prints a byte of it before and after instead of the RSS.
 */
#include <flmem/own_process.h>
#include <flmem/roles.h>

#include <dlfcn.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define BLOCKS	 20000
#define THREADS	 8
#define BLOCK	 ((size_t)1 << 20)
#define NOT_HERE 77

/* Nobody reads it; an initialised pointer makes its address known before the program runs. */
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

/* Every thread makes its first query at the same time: all must get the same answer. */
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

static int release(const char *what, struct flmem_error *err)
{
	return strstr(what, "trim") ? flmem_try_malloc_trim() : flmem_cleanup_memory(err);
}

static void register_block(void *block)
{
	struct io_uring_params params = {0};
	const struct iovec vector = {.iov_base = block, .iov_len = BLOCK};
	int ring = (int)syscall(SYS_io_uring_setup, 4, &params);

	if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &vector, 1))
		exit(NOT_HERE);
}

static int release_registered(const char *what)
{
	char *block = malloc(BLOCK), *behind = malloc(BLOCK);
	volatile uintptr_t middle = (uintptr_t)(block + BLOCK / 2);
	struct flmem_error err = {0};
	int before, rc;

	if (!block || !behind)
		return 1;
	memset(block, 1, BLOCK);
	memset(behind, 1, BLOCK);
	register_block(block);
	free(block);
	before = *(volatile unsigned char *)middle;
	rc = release(what, &err);
	printf("%s %d %d %d\n", flmem_allocator_name(flmem_get_allocator_type()), rc, before,
	       *(volatile unsigned char *)middle);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "cleanup";
	struct flmem_error err = {0};
	long before;
	int rc;

	if (strncmp(what, "registered", strlen("registered")) == 0)
		return release_registered(what);
	churn();
	before = rss_bytes();
	if (strcmp(what, "threads") == 0)
		rc = ask_at_once();
	else
		rc = release(what, &err);
	printf("%s %d %ld %ld\n", flmem_allocator_name(flmem_get_allocator_type()), rc, before,
	       rss_bytes());
	if (err.code)
		fprintf(stderr, "%s\n", err.message);
	return 0;
}
