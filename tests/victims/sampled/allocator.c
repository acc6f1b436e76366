// SPDX-License-Identifier: Apache-2.0
/*
 * A library with its own allocator, whose blocks must not reach free() of another one. SIZED:
 * it has no malloc(), but the free_sized() that the C library of the program lacks. OWN_IFUNC: its
 * functions are chosen by resolvers. PATCHED: it defines none, but has put its own functions into
 * its entries of the global offset table.
 */
#include <stdbool.h>
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

/* Nobody calls it, so its entry is not bound. */
void *pvalloc(size_t size);

EXPORT void *take_pages(size_t size)
{
	return pvalloc(size);
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
#ifdef PATCHED
/* Changes the entry that the code of the PLT jumps to: ff 25, and the distance to the entry. */
static bool patch(const unsigned char *plt, void *function)
{
	int32_t distance;

	if (plt[0] != 0xff || plt[1] != 0x25)
		return false;
	memcpy(&distance, plt + 2, sizeof(distance));
	*(void **)(plt + 6 + distance) = function;
	return true;
}

__attribute__((constructor)) static void patch_own_entries(void)
{
	const unsigned char *plt[2];

	__asm__("leaq malloc@PLT(%%rip), %0" : "=r"(plt[0]));
	__asm__("leaq free@PLT(%%rip), %0" : "=r"(plt[1]));
	if (!patch(plt[0], (void *)take_block) || !patch(plt[1], (void *)check_block))
		abort();
}
#elif defined OWN_IFUNC
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
