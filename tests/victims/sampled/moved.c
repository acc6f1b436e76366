/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/*
 * Mappings that are moved, grow, or fail to be unmapped: moved [GROWING|many]. It prints lines as
 * `sampled` does; each case is a function, so it has its own site.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE   ((size_t)4096)
#define ACCESS (PROT_READ | PROT_WRITE)
#define OWN    (MAP_PRIVATE | MAP_ANONYMOUS)
#define MANY   ((size_t)9000)

static char *must_map(void *map)
{
	if (map == MAP_FAILED)
		_exit(3);
	return map;
}

static void must_be(int is_so)
{
	if (!is_so)
		_exit(4);
}

/* The functions are neither inlined nor reordered, as nothing is optimised. */
static void unmap_in_vain(void)
{
	char *map = must_map(mmap(NULL, 4 * PAGE, ACCESS, OWN, -1, 0));

	must_be(munmap(map + 1, PAGE) == -1);
	must_be(munmap(map, 0) == -1);
	must_be(munmap(map, SIZE_MAX) == -1);
	/* There are other mappings after it. */
	must_be(munmap(map, ((size_t)1 << 56) + PAGE) == -1);
	must_be(mremap(map, 4 * PAGE, 0, MREMAP_MAYMOVE) == MAP_FAILED);
}

static void unmap_odd_lengths(void)
{
	char *map = must_map(mmap(NULL, 1024 * PAGE + 100, ACCESS, OWN, -1, 0));

	must_be(munmap(map, 1024 * PAGE + 1) == 0);
}

static void move_middle(void)
{
	char *map = must_map(mmap(NULL, 8 * PAGE, ACCESS, OWN, -1, 0));
	char *room = must_map(mmap(NULL, 4 * PAGE, PROT_NONE, OWN, -1, 0));

	must_map(mremap(map + 2 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room));
	must_be(munmap(map + PAGE, 2 * PAGE) == 0); /* one page of it is left */
	must_be(munmap(room + PAGE, 2 * PAGE) == 0);
}

static void replace_middle(void)
{
	char *map = must_map(mmap(NULL, 8 * PAGE, ACCESS, OWN, -1, 0));
	char *other = must_map(mmap(NULL, 2 * PAGE, ACCESS, OWN, -1, 0));

	must_map(mremap(other, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map + 3 * PAGE));
	must_be(munmap(map + 7 * PAGE, PAGE) == 0);
}

static void grow_twice(void)
{
	char *map = must_map(mmap(NULL, 2 * PAGE, ACCESS, OWN, -1, 0));

	map = must_map(mremap(map, 2 * PAGE, 6 * PAGE, MREMAP_MAYMOVE));
	map = must_map(mremap(map, 6 * PAGE, 16 * PAGE, MREMAP_MAYMOVE));
	must_be(munmap(map + PAGE, 6 * PAGE) == 0);
}

static void shrink(void)
{
	char *map = must_map(mmap(NULL, 8 * PAGE, ACCESS, OWN, -1, 0));

	must_map(mremap(map, 8 * PAGE, 2 * PAGE, 0));
}

/* The mapping that grows is one of a file, beside shared memory. */
static void grow_file(void)
{
	int fd = memfd_create("grown", MFD_CLOEXEC);
	char *file, *map;

	must_be(fd >= 0 && ftruncate(fd, (off_t)(8 * PAGE)) == 0);
	file = must_map(mmap(NULL, PAGE, ACCESS, MAP_SHARED, fd, 0));
	must_map(mremap(file, PAGE, 8 * PAGE, MREMAP_MAYMOVE));
	map = must_map(mmap(NULL, PAGE, ACCESS, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	must_map(mremap(map, PAGE, 3 * PAGE, MREMAP_MAYMOVE));
}

static void grow_small(void)
{
	char *map = must_map(mmap(NULL, PAGE, ACCESS, OWN, -1, 0));

	must_map(mremap(map, PAGE, 8 * PAGE, MREMAP_MAYMOVE));
}

/* Each mapping takes the place of the one before it, more often than the sampler knows mappings. */
static void replace_often(void)
{
	char *map = must_map(mmap(NULL, PAGE, ACCESS, OWN, -1, 0));

	for (size_t i = 0; i < MANY; i++)
		must_map(mmap(map, PAGE, ACCESS, OWN | MAP_FIXED, -1, 0));
}

/*
 * More mappings than the sampler knows at a time; one half of each stays, and of each second one
 * nothing.
 */
static void halve_many(void)
{
	static char *maps[MANY];

	for (size_t i = 0; i < MANY; i++)
		maps[i] = must_map(mmap(NULL, 2 * PAGE, ACCESS, OWN, -1, 0));
	for (size_t i = 0; i < MANY; i++)
		must_be(munmap(maps[i] + PAGE, PAGE) == 0);
	for (size_t i = 0; i < MANY; i += 2)
		must_be(munmap(maps[i], PAGE) == 0);
}

static void print_site(const char *name, void (*function)(void), size_t allocated, size_t live,
		       size_t count)
{
	printf("site %s %p %zu %zu %zu\n", name, (void *)(uintptr_t)function, allocated, live,
	       count);
}

static const struct {
	const char *name;
	void (*run)(void);
	size_t allocated, live;
} cases[] = {
	{"in_vain", unmap_in_vain, 4 * PAGE, 4 * PAGE},
	{"odd", unmap_odd_lengths, 1024 * PAGE + 100, 0},
	{"middle", move_middle, 8 * PAGE, 5 * PAGE},
	{"replace", replace_middle, 10 * PAGE, 7 * PAGE},
	{"often", replace_often, (MANY + 1) * PAGE, PAGE},
	{"grow", grow_twice, 16 * PAGE, 10 * PAGE},
	{"shrink", shrink, 8 * PAGE, 2 * PAGE},
	{"file", grow_file, 3 * PAGE, 3 * PAGE},
};

int main(int argc, char **argv)
{
	static char output[1 << 12]; /* not from malloc(), which would count it */
	size_t growing = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	if (argc > 1 && !growing) {
		halve_many();
		return 0;
	}
	setvbuf(stdout, output, _IOFBF, sizeof(output));
	for (size_t i = 0; !growing && i < sizeof(cases) / sizeof(cases[0]); i++) {
		cases[i].run();
		print_site(cases[i].name, cases[i].run, cases[i].allocated, cases[i].live, 0);
	}
	for (size_t i = 0; i < growing; i++)
		grow_small();
	print_site("small", grow_small, growing * 8 * PAGE, growing * 8 * PAGE, growing * 2);
	print_site("end", (void (*)(void))(uintptr_t)print_site, 0, 0, 0);
	return 0;
}
