/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings its heap into a state, says "ready" and its own pid, and sleeps until its input ends. A
 * line on its input has it say what it knows of its heap itself, one line:
 *
 *     held BYTES threads COUNT
 *
 * usage: heaps STATE [MIB]
 *
 * held: bytes of the blocks that it still holds, their heads included. Built without anything that
 * an older C library lacks.
 */
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifdef PORTABLE
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
#endif

#define BLOCKS_MAX ((size_t)8 << 20)
#define THREADS	   12
#define MIB	   ((size_t)1 << 20)
#define ROOM_MIB   ((size_t)4 << 10)

static void **blocks;
static size_t block_count;
static size_t held;
static size_t wanted = 64 * MIB;
static int threads = 1;
static int filled, freed;

static size_t chunk_size(void *block)
{
	return malloc_usable_size(block) + 8;
}

static void *take(size_t size)
{
	void *block = malloc(size);

	if (!block)
		abort();
	memset(block, 0x5a, size);
	__atomic_add_fetch(&held, chunk_size(block), __ATOMIC_RELAXED);
	return block;
}

static void give(void *block)
{
	__atomic_sub_fetch(&held, chunk_size(block), __ATOMIC_RELAXED);
	free(block);
}

/* Takes blocks whose sizes vary between two limits, until the wanted amount is reached. */
static void fill(size_t least, size_t most)
{
	size_t sum = 0, seed = 12345;

	while (sum < wanted && block_count < BLOCKS_MAX) {
		seed = seed * 6364136223846793005U + 1442695040888963407U;
		blocks[block_count] = take(least + (seed >> 33) % (most - least + 1));
		sum += chunk_size(blocks[block_count++]);
	}
}

static void give_all_but(size_t every)
{
	for (size_t i = 0; i < block_count; i++) {
		if (every && i % every == 0)
			continue;
		give(blocks[i]);
		blocks[i] = NULL;
	}
}

static void fresh(void)
{
	fill(16, 4096);
}

/* Nearly all blocks are in use; the few free ones are of all sizes, and some are neighbours. */
static void dense(void)
{
	fill(16, 4096);
	for (size_t i = 0; i < block_count; i++) {
		if (i % 1000 > 2)
			continue;
		give(blocks[i]);
		blocks[i] = NULL;
	}
}

static void top(void)
{
	fill(16, 4096);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	give_all_but(0);
}

static void fragmented(void)
{
	fill(16, 6000);
	give_all_but(100);
}

/* Frees every other block: nothing can be joined, and no page is free as a whole. */
static void pinned(void)
{
	fill(500, 1500);
	give_all_but(2);
}

/* More small blocks than a list of them has room for; every third run of 4096 is freed. */
static void many(void)
{
	size_t sum = 0, seed = 12345;
	void **last = NULL;

	for (size_t i = 0; sum < wanted; i++) {
		void **block;

		seed = seed * 6364136223846793005U + 1442695040888963407U;
		block = take(32 + (seed >> 33) % 97);
		sum += chunk_size(block);
		if (i / 4096 % 3)
			continue;
		*block = last;
		last = block;
	}
	while (last) {
		void **next = *last;

		give(last);
		last = next;
	}
}

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

/* Returns the available memory, without using the heap. */
static size_t available_mib(void)
{
	char text[512] = {0};
	int fd = open("/proc/meminfo", O_RDONLY);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	const char *line = length > 0 ? strstr(text, "MemAvailable:") : NULL;

	close(fd);
	return line ? strtoul(line + strlen("MemAvailable:"), NULL, 10) >> 10 : 0;
}

/* Waits for memory: until the kernel has merged (KSM) enough pages. */
static void wait_for_room(void)
{
	if (available_mib() > ROOM_MIB)
		return;
	while (available_mib() < ROOM_MIB * 3 / 2)
		usleep(100000);
}

/* Takes blocks of 16 to 2000 bytes that fill one MiB, with the same sizes in each MiB. */
static void *fill_one(void)
{
	size_t sum = 0, seed = 12345;
	void *first = NULL;

	while (sum < MIB) {
		size_t left = MIB - sum, size;
		void *block;

		seed = seed * 6364136223846793005U + 1442695040888963407U;
		size = 16 + (seed >> 33) % 1985;
		block = take(left < 4096 ? left - 8 : size);
		sum += chunk_size(block);
		first = first ? first : block;
	}
	return first;
}

/* Frees all but every 64th block of a MiB that begins with this one. */
static void give_one(char *block)
{
	size_t sum = 0;

	for (size_t i = 0; sum < MIB; i++) {
		size_t size = chunk_size(block);

		if (i % 64)
			give(block);
		block += size;
		sum += size;
	}
}

/*
 * A heap larger than the machine's memory, for which KSM must run: the contents of pages are the
 * same in each MiB, except for the heads of free blocks, in every third.
 */
static void vast(void)
{
	size_t count = 0;

	if (prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0))
		abort();
	mallopt(M_TOP_PAD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	for (size_t i = 0; i < wanted / MIB; i++) {
		void *first = fill_one();

		if (i % 3 == 0)
			blocks[count++] = first;
		if (i % 64 == 0)
			wait_for_room();
	}
	for (size_t i = 0; i < count; i++) {
		give_one(blocks[i]);
		if (i % 64 == 0)
			wait_for_room();
	}
}

static void fastbins(void)
{
	fill(24, 100);
	give_all_but(1000);
}

static void tcache(void)
{
	fill(24, 1000);
	for (size_t i = 0; i < block_count; i += 50) {
		give(blocks[i]);
		blocks[i] = NULL;
	}
}

/* Freed blocks raise the threshold, so that later ones come from the heap. */
static void mmapped(void)
{
	void *large[16];

	for (size_t i = 0; i < 16; i++)
		large[i] = take(wanted / 16 + i * 5000);
	for (size_t i = 0; i < 16; i += 2)
		give(large[i]);
	if (posix_memalign(&large[0], 64, 40 * MIB))
		abort();
	memset(large[0], 1, 40 * MIB);
	held += chunk_size(large[0]);
	fill(100, 3000);
	give_all_but(64);
}

static void locked(void)
{
	fragmented();
	if (mlockall(MCL_CURRENT))
		abort();
}

/* Uses small pages only, whatever the machine is set to. */
static void small_pages(void)
{
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		abort();
	fragmented();
}

static void released(void)
{
	fill(16, 6000);
	give_all_but(100);
	malloc_trim(0);
}

/* Waits until so many threads have reached this place. */
static void meet(int *place, int count)
{
	__atomic_add_fetch(place, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(place, __ATOMIC_SEQ_CST) < count)
		usleep(1000);
}

static void *work(void *argument)
{
	const size_t number = (size_t)(uintptr_t)argument;
	const size_t share = wanted / THREADS;
	size_t count = share / 1000, kept = 0;
	void **own = calloc(count, sizeof(*own));

	if (!own)
		abort();
	for (size_t i = 0; i < count; i++)
		own[i] = take(16 + (i * 7919 + number * 31) % 2000);
	meet(&filled, THREADS);
	for (size_t i = 0; i < count; i++)
		if (i % (number + 2))
			give(own[i]);
		else
			own[kept++] = own[i];
	meet(&freed, THREADS + 1);
	for (;;)
		pause();
	return NULL;
}

static void arenas(void)
{
	pthread_t thread;

	mallopt(M_ARENA_MAX, 64);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)i))
			abort();
	meet(&freed, THREADS + 1);
	threads = THREADS + 1;
}

static void *churn(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument;
	void *own[512] = {0};

	for (;;) {
		seed = seed * 1103515245U + 12345U;
		free(own[seed >> 20 & 511]);
		own[seed >> 20 & 511] = malloc(16 + (seed >> 8) % 3000);
	}
	return NULL;
}

/* Arenas that change all the time. */
static void busy(void)
{
	pthread_t thread;

	fragmented();
	for (size_t i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, churn, (void *)(uintptr_t)(i + 1)))
			abort();
	threads = 3;
}

/* Fills memory, frees it and returns it, again and again. */
static void *take_again(void *argument)
{
	const size_t count = wanted / 3000;
	void **own = calloc(count, sizeof(*own));

	if (!own)
		abort();
	for (size_t number = (size_t)(uintptr_t)argument;; number++) {
		for (size_t i = 0; i < count; i++)
			own[i] = take(2000 + (i * 7919 + number) % 2000);
		for (size_t i = 0; i < count; i++)
			give(own[i]);
		malloc_trim(0);
	}
	return NULL;
}

/* An arena whose pages come and go all the time. */
static void taking(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, take_again, NULL))
		abort();
	threads = 2;
}

/* An impossible size, in a chunk in the middle. */
static void corrupted(void)
{
	fragmented();
	((size_t *)blocks[block_count / 200 * 100])[-1] = (size_t)1 << 62 | 1;
}

static void cyclic(void)
{
	fragmented();
	/* The size is negative, so the next chunk would be before this one. */
	((size_t *)blocks[block_count / 200 * 100])[-1] = (size_t)-4096 | 1;
}

/*
 * Returns a separate free chunk among many in use, the first in its bin; the function after it
 * restores the state.
 */
static size_t *free_chunk(void)
{
	size_t *block;

	dense();
	/* The block is larger than all other free memory. */
	block = take(40000);
	take(40000);
	give(block);
	return block;
}

/* A bin whose only chunk links to itself. */
static void bin_loop(void)
{
	size_t *links = free_chunk();

	links[0] = links[1] = (size_t)(links - 2);
}

static void bin_stray(void)
{
	size_t *links = free_chunk();

	links[0] = (size_t)0x4141414141414140;
}

/* The size of a free block has been overwritten: it reaches into blocks in use. */
static void bin_size(void)
{
	volatile size_t *links = free_chunk();

	links[-1] += 1 << 20;
}

/* Two chunks of a fastbin that link to each other. */
static void fast_loop(void)
{
	size_t *small[9];

	dense();
	for (size_t i = 0; i < 9; i++)
		small[i] = take(56);
	for (size_t i = 0; i < 9; i++)
		give(small[i]);
	/*
	 * The last one links to the one before; from 2.32 on the link is mangled with its address.
	 */
	if (small[8][0] == (size_t)(small[7] - 2))
		small[7][0] = (size_t)(small[8] - 2);
	else
		small[7][0] = (size_t)small[7] >> 12 ^ (size_t)(small[8] - 2);
}

static void top_absurd(void)
{
	size_t *last;

	fragmented();
	last = take(16);
	while (last[3] & 1 && last[3] < 0x1000)
		last = take(16);
	last[3] = (size_t)1 << 60 | 1;
}

/* A ring of arenas that does not lead back to its start. */
static void ring_apart(void)
{
	const size_t *word = (const size_t *)free_chunk()[0];
	const size_t unsorted = (size_t)word;
	size_t *apart = calloc(1, 8192);
	size_t offset = 0;

	/* The only arena links to itself. */
	while (offset < 4096 && (word[offset / 8] >= unsorted || unsorted - word[offset / 8] > 128))
		offset += 8;
	if (!apart || offset == 4096)
		abort();
	apart[offset / 8] = (size_t)apart;
	((size_t *)unsorted)[offset / 8] = (size_t)apart;
}

/*
 * A heap that may not be written, though small free blocks wait to be joined. Its end is found by
 * trying, since flmem refuses programs with threads that call sbrk().
 */
static void protected(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *first, *end;

	fastbins();
	first = (char *)((uintptr_t)blocks[0] & ~(page - 1));
	for (end = first; mprotect(end, page, PROT_READ) == 0; end += page)
		continue;
	if (end == first)
		abort();
}

/* Like protected(), a while after the program has begun to compute. */
static void protected_later(void)
{
	const clock_t begun = clock();

	printf("ready %d\n", (int)getpid());
	while (clock() - begun < CLOCKS_PER_SEC)
		continue;
	protected();
}

static const struct {
	const char *name;
	void (*make)(void);
} states[] = {
	{"fresh", fresh},
	{"top", top},
	{"fragmented", fragmented},
	{"pinned", pinned},
	{"fastbins", fastbins},
	{"tcache", tcache},
	{"mmapped", mmapped},
	{"released", released},
	{"locked", locked},
	{"arenas", arenas},
	{"busy", busy},
	{"taking", taking},
	{"corrupted", corrupted},
	{"cyclic", cyclic},
	{"dense", dense},
	{"small-pages", small_pages},
	{"many", many},
	{"vast", vast},
	{"bin-loop", bin_loop},
	{"bin-stray", bin_stray},
	{"bin-size", bin_size},
	{"fast-loop", fast_loop},
	{"top-absurd", top_absurd},
	{"ring-apart", ring_apart},
	{"protected", protected},
	{"protected-later", protected_later},
};

int main(int argc, char **argv)
{
	char line[64];
	size_t i = 0;

	/* The array is not on the heap that is read. */
	static void *room[BLOCKS_MAX];

	blocks = room;
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc < 2)
		return 2;
	if (argc > 2)
		wanted = strtoul(argv[2], NULL, 10) * MIB;
	while (i < sizeof(states) / sizeof(states[0]) && strcmp(states[i].name, argv[1]) != 0)
		i++;
	if (i == sizeof(states) / sizeof(states[0]))
		return 2;
	states[i].make();
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin))
		printf("held %zu threads %d\n", held, threads);
	return 0;
}
