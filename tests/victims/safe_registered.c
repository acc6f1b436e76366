/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that keeps blocks registered with a device after it has freed them, as libraries for
 * fast networks do, and sets its allocator to keep all memory for that. A byte on standard input
 * lets it allocate such a block again and read into it through the registration.
 *	safe_registered [default|arena|busy]
 * default: the allocator may give memory back, and the program unregisters a block before it frees
 * it. arena: so it does, but another arena of jemalloc keeps all memory. busy: nothing is
 * registered, and the allocator keeps all memory.
 */
#include "safe_common.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define BLOCK	   ((size_t)1 << 20)
#define PAGE	   4096
#define BLOCKS_MAX 64
#define TEXT	   32768 /* a pipe has more room: the kernel needs no separate thread */
#define ENTRIES	   4
#define FILL	   0x5a
#define NOT_HERE   77

struct device {
	int ring, input;
	char *queue; /* queue of submissions */
	struct io_uring_sqe *entries;
	struct io_uring_params params;
};

static void *map_ring(const struct device *device, size_t bytes, off_t part)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, device->ring, part);

	if (at == MAP_FAILED)
		victim_die("mmap");
	return at;
}

static void open_device(struct device *device)
{
	static char text[TEXT];
	int ends[2];

	device->ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &device->params);
	if (device->ring < 0)
		exit(NOT_HERE);
	device->queue = map_ring(device, device->params.sq_off.array + ENTRIES * sizeof(unsigned),
				 IORING_OFF_SQ_RING);
	device->entries = map_ring(device, ENTRIES * sizeof(*device->entries), IORING_OFF_SQES);
	memset(text, FILL, sizeof(text));
	if (pipe(ends) != 0 || write(ends[1], text, TEXT) != TEXT)
		victim_die("pipe");
	device->input = ends[0];
}

static void register_block(const struct device *device, void *block)
{
	const struct iovec block_vector = {.iov_base = block, .iov_len = BLOCK};

	if (syscall(SYS_io_uring_register, device->ring, IORING_REGISTER_BUFFERS, &block_vector,
		    1) != 0)
		exit(NOT_HERE);
}

static void read_registered(const struct device *device, void *block)
{
	unsigned *tail = (unsigned *)(void *)(device->queue + device->params.sq_off.tail);
	unsigned *array = (unsigned *)(void *)(device->queue + device->params.sq_off.array);

	device->entries[0] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ_FIXED,
		.fd = device->input,
		.addr = (uint64_t)(uintptr_t)block,
		.len = TEXT,
	};
	array[0] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, device->ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		victim_die("io_uring_enter");
}

/* Allocates a block at that place; jemalloc begins large ones anywhere in their first page. */
static unsigned char *allocate_again(uintptr_t before)
{
	for (size_t i = 0; i < BLOCKS_MAX; i++) {
		unsigned char *block = malloc(BLOCK);

		if (block && (uintptr_t)block / PAGE == before / PAGE)
			return block;
	}
	victim_die("no block is at the same place");
	return NULL;
}

static void use_again(const struct device *device, uintptr_t before)
{
	unsigned char *block = allocate_again(before), *at;
	uintptr_t after = (uintptr_t)block;

	memset(block, 0, BLOCK);
	at = block + (after < before ? before - after : 0);
	read_registered(device, at);
	for (size_t i = 0; i < TEXT; i++)
		if (at[i] != FILL)
			victim_die("what the device wrote is not in the block");
}

static void create_keeping_arena(void)
{
	int (*mallctl)(const char *, void *, size_t *, void *, size_t);
	size_t length = sizeof(unsigned);
	ssize_t never = -1;
	unsigned arena;
	char name[64];

	*(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
	if (!mallctl || mallctl("arenas.create", &arena, &length, NULL, 0) != 0)
		victim_die("mallctl");
	snprintf(name, sizeof(name), "arena.%u.dirty_decay_ms", arena);
	if (mallctl(name, NULL, NULL, &never, sizeof(never)) != 0)
		victim_die("mallctl");
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	bool is_kept = strcmp(way, "default") != 0 && strcmp(way, "arena") != 0,
	     is_registered = strcmp(way, "busy") != 0;
	struct device device = {0};
	void *block, *behind;
	volatile uintptr_t before; /* the compiler warns about a copy of a freed pointer */
	char byte;

	victim_open();
	mallopt(M_MMAP_MAX, 0);
	if (is_kept)
		mallopt(M_TRIM_THRESHOLD, -1);
	if (strcmp(way, "arena") == 0)
		create_keeping_arena();
	open_device(&device);
	block = malloc(BLOCK);
	behind = malloc(BLOCK);
	if (!block || !behind)
		victim_die("malloc");
	memset(block, 1, BLOCK);
	memset(behind, 1, BLOCK);
	if (is_registered)
		register_block(&device, is_kept ? block : behind);
	before = (uintptr_t)block;
	free(block);
	victim_ready();
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		;
	if (is_registered && is_kept)
		use_again(&device, before);
	printf("go on\n");
	fflush(stdout);
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		;
	return 1;
}
