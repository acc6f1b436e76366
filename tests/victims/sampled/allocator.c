// SPDX-License-Identifier: Apache-2.0
/*
 * A library with an allocator of its own, whose blocks must not reach free() of another one. SIZED:
 * it has no malloc(), but the free_sized() that the C library of the program lacks. OWN_IFUNC: its
 * functions are chosen by resolvers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT	  __attribute__((visibility("default")))
#define ALIGNMENT 16U

static const uint64_t mark = UINT64_C(0x6b636f6c42796d21);
static char pool[1U << 20] __attribute__((aligned(ALIGNMENT)));
static size_t used;

static void *take_block(size_t size)
{
	size_t room = (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	char *block = pool + used;

	if (room > sizeof(pool) - used)
		return NULL;
	used += room;
	memcpy(block, &mark, sizeof(mark));
	return block + ALIGNMENT;
}

static void check_block(void *block)
{
	if (block && memcmp((char *)block - ALIGNMENT, &mark, sizeof(mark)) != 0)
		abort();
}

#ifdef SIZED
EXPORT void free_sized(void *block, size_t size)
{
	(void)size;
	check_block(block);
}

EXPORT void *keep_block(void)
{
	return take_block(100);
}

EXPORT void drop_block(void *block)
{
	free_sized(block, 100);
}
#else
#ifdef OWN_IFUNC
static void *(*find_malloc(void))(size_t)
{
	return take_block;
}

static void (*find_free(void))(void *)
{
	return check_block;
}

EXPORT void *malloc(size_t size) __attribute__((ifunc("find_malloc")));
EXPORT void free(void *block) __attribute__((ifunc("find_free")));
#else
EXPORT void *malloc(size_t size)
{
	return take_block(size);
}

EXPORT void free(void *block)
{
	check_block(block);
}
#endif

EXPORT void *keep_block(void)
{
	return malloc(100);
}

EXPORT void drop_block(void *block)
{
	free(block);
}
#endif
