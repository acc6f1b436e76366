/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unseen ONE TWO: what the sampler does not see, and takes for nothing that it is not. A function
 * allocates 3000 bytes while the process may open no file, and once more when it may. Then TWO
 * allocates 5000 bytes at the place of ONE, which the C library has unloaded by itself, as
 * iconv_close() does.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/resource.h>

static void *volatile sink;

__attribute__((noinline)) static void allocate_here(void)
{
	sink = malloc(3000);
}

static int allocate_twice(void)
{
	struct rlimit most, none;

	if (getrlimit(RLIMIT_NOFILE, &most))
		return -1;
	none = (struct rlimit){0, most.rlim_max};
	for (int i = 0; i < 2; i++) {
		if (setrlimit(RLIMIT_NOFILE, i ? &most : &none))
			return -1;
		allocate_here();
	}
	return 0;
}

/* Returns the address of the function. */
static void *allocate_in(void *library, size_t size)
{
	void *(*function)(size_t), *at = library ? dlsym(library, "library_allocate") : NULL;

	if (!at)
		return NULL;
	*(void **)&function = at;
	sink = function(size);
	return at;
}

/* Calls the function of the C library, after the sampler. */
static int close_unseen(void *library)
{
	int (*function)(void *);
	void *at = dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "dlclose");

	if (!at)
		return -1;
	*(void **)&function = at;
	return function(library);
}

int main(int argc, char **argv)
{
	void *library, *first, *second;

	if (argc != 3 || allocate_twice())
		return 3;
	library = dlopen(argv[1], RTLD_NOW);
	first = allocate_in(library, 4000);
	if (!first || close_unseen(library))
		return 3;
	second = allocate_in(dlopen(argv[2], RTLD_NOW), 5000);
	/* A library at another place proves nothing. */
	return second && labs((char *)second - (char *)first) < 4096 ? 0 : 4;
}
