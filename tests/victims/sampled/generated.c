/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates in a function that is called from generated code, as programs with a JIT compiler do,
 * in a process with many mappings. Prints how many ms of the processor that takes: called directly,
 * and from there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAPPINGS 2000U
#define CALLS	 20000U
#define BLOCK	 65536U
#define POINTER	 6 /* place of the function's address in the code */

static __attribute__((noinline)) void allocate(void)
{
	void *volatile block = malloc(BLOCK);

	free(block);
}

/* Gives every other page other rights, so that each page is a mapping. */
static int make_mappings(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, MAPPINGS * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < MAPPINGS; i += 2)
		if (mprotect(pages + i * page, page, PROT_NONE))
			return -1;
	return 0;
}

/* push %rbp; mov %rsp, %rbp; movabs $allocate, %rax; call *%rax; pop %rbp; ret */
static void (*generate_caller(void))(void)
{
	unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,	  0,	0,
				0,    0,    0,	  0,	0,    0xff, 0xd0, 0x5d, 0xc3};
	void (*const function)(void) = allocate;
	void *page = mmap(NULL, sizeof(code), PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	memcpy(code + POINTER, &function, sizeof(function));
	memcpy(page, code, sizeof(code));
	return (void (*)(void))page;
}

static long measure(void (*function)(void))
{
	clock_t start = clock();

	for (unsigned i = 0; i < CALLS; i++)
		function();
	return (long)((clock() - start) / (CLOCKS_PER_SEC / 1000));
}

int main(void)
{
	void (*generated)(void) = generate_caller();

	if (!generated || make_mappings())
		return 1;
	printf("%ld", measure(allocate));
	printf(" %ld\n", measure(generated));
	return 0;
}
