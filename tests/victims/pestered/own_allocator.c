/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with its own allocator, whose blocks other functions take as well: reallocarray()
 * of the C library, which calls realloc(), and free_sized() where there is one.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 2000

static _Alignas(16) unsigned char pool[16 << 20];
static size_t used;
static unsigned freed;

extern void *reallocarray(void *block, size_t count, size_t size);
extern void free_sized(void *block, size_t size) __attribute__((weak));

void *malloc(size_t size)
{
	size_t room = (size + 31) & ~(size_t)15, at = used;

	if (size > sizeof(pool) || room > sizeof(pool) - at)
		return NULL;
	used += room;
	memcpy(pool + at, &size, sizeof(size));
	return pool + at + 16;
}

void free(void *block)
{
	freed += block != NULL;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* memory that was never used before */
}

void *realloc(void *block, size_t size)
{
	void *new = malloc(size);
	size_t old;

	if (!block || !new)
		return new;
	memcpy(&old, (unsigned char *)block - 16, sizeof(old));
	return memcpy(new, block, old < size ? old : size);
}

int main(void)
{
	char *text = malloc(100);
	unsigned before;

	memcpy(text, "survived", sizeof("survived"));
	for (size_t i = 0; i < ROUNDS; i++)
		text = reallocarray(text, 50, 2 + i % 9);
	before = freed;
	if (free_sized)
		free_sized(malloc(100), 100);
	if (free_sized && freed != before + 1)
		return 3;
	puts(text);
	return 0;
}
