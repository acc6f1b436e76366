/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_HOOKS_H
#define FLMEM_PRELOAD_SAMPLER_HOOKS_H

/* The functions of the next allocator, to which the sampler forwards every call. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * X(function): those of struct sampler_next that are found by their own names; malloc is the first.
 */
#define SAMPLER_NEXT_ROWS(X)  \
	X(malloc)             \
	X(calloc)             \
	X(realloc)            \
	X(free)               \
	X(free_sized)         \
	X(free_aligned_sized) \
	X(memalign)           \
	X(posix_memalign)     \
	X(aligned_alloc)      \
	X(valloc)             \
	X(pvalloc)            \
	X(mmap)               \
	X(mmap64)             \
	X(munmap)             \
	X(mremap)             \
	X(dlclose)

struct sampler_next {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	void *(*memalign)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	void *(*mmap64)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	int (*dlclose)(void *);
	/*
	 * These two are NULL unless the program defines its own realloc() or free(). reallocarray()
	 * of the C library calls the program's realloc(); free_sized() has to call the program's
	 * free() if there is no next one.
	 */
	void *(*reallocarray)(void *, size_t, size_t);
	void (*program_free)(void *);
	uintptr_t owner_start, owner_end; /* range of the code that malloc() is in */
};

extern struct sampler_next sampler_next __attribute__((visibility("hidden")));
/* The trampolines jump here; C code does not call these. */
extern void *sampler_next_dlopen __attribute__((visibility("hidden")));
extern void *sampler_next_dlsym __attribute__((visibility("hidden")));

/*
 * Finds the functions of the next allocator. Until then a small arena serves the allocations of the
 * dynamic linker itself.
 */
__attribute__((visibility("hidden"))) void sampler_hooks_resolve(void);
/*
 * Does the same for a library that was loaded into a running program: it finds the functions of the
 * program.
 */
__attribute__((visibility("hidden"))) void sampler_hooks_resolve_loaded(void);
/*
 * Returns whether a call that is redirected from this function is forwarded to exactly this
 * function.
 */
__attribute__((visibility("hidden"))) bool sampler_hooks_pass_on(const char *name,
								 uintptr_t function);

/* Returns whether the hooks are defined under the names of the functions that they replace. */
static inline bool sampler_can_interpose(void)
{
#ifdef SAMPLER_HIDES_HOOKS
	return false;
#else
	return true;
#endif
}

/* Writes the path of the file that contains the next malloc() to `out`, cut to `size` bytes. */
__attribute__((visibility("hidden"))) void sampler_hooks_owner(char *out, size_t size);

/*
 * This is the small arena, which no allocator knows. Its pages are added to the filter permanently.
 */
#define SAMPLER_ARENA_SIZE (64U << 10)
extern char sampler_arena[SAMPLER_ARENA_SIZE] __attribute__((visibility("hidden")));

static inline int sampler_arena_has(const void *address)
{
	return (uintptr_t)address - (uintptr_t)sampler_arena < SAMPLER_ARENA_SIZE;
}

__attribute__((visibility("hidden"))) void *sampler_arena_resize(void *address, size_t size);

#endif
