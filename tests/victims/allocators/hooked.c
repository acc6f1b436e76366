/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives its allocator a function that takes a lock of the program, and waits for each byte of its
 * input with that lock: a call on this thread that runs the function never ends. Says "go on" for
 * each byte. With a number, jemalloc gets the function for that arena; with "extension", tcmalloc
 * calls it instead of releasing memory; with "none", nobody.
 */
#define _GNU_SOURCE /* for dlvsym() */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 4000

/* extent_purge_t and extent_hooks_t of jemalloc 5. */
typedef bool purge_hook(void *, void *, size_t, size_t, size_t, unsigned);

struct hooks {
	void *alloc, *dalloc, *destroy, *commit, *decommit;
	purge_hook *purge_lazy, *purge_forced;
	void *split, *merge;
};

/* SysAllocator of gperftools: two destructors, then Alloc(). */
typedef void *system_alloc(void *, size_t, size_t *, size_t);

struct system_allocator {
	void *const *functions;
};

/* Present in a static build; otherwise found by name. */
__attribute__((weak)) int mallctl(const char *name, void *old, size_t *length, void *new,
				  size_t new_length);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void wait_for_lock(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

/* The parameters are jemalloc's. NOLINTNEXTLINE(readability-function-size) */
static bool purge(void *hooks, void *at, size_t size, size_t offset, size_t length, unsigned arena)
{
	(void)hooks, (void)at, (void)size, (void)offset, (void)length, (void)arena;
	wait_for_lock();
	return true;
}

static bool hook_jemalloc(const char *arena)
{
	static struct hooks own;
	struct hooks *hooks;
	size_t length = sizeof(hooks);
	char name[64];

	snprintf(name, sizeof(name), "arena.%s.extent_hooks", arena);
	if (mallctl("arena.0.extent_hooks", &hooks, &length, NULL, 0))
		return false;
	own = *hooks;
	own.purge_lazy = own.purge_forced = purge;
	hooks = &own;
	return mallctl(name, NULL, NULL, &hooks, sizeof(hooks)) == 0;
}

static void free_later(bool force, unsigned long long beat, void *unused)
{
	(void)force, (void)beat, (void)unused;
	wait_for_lock();
}

static bool hook_mimalloc(void *function)
{
	void (*set)(void (*)(bool, unsigned long long, void *), void *);

	memcpy(&set, &function, sizeof(set));
	set(free_later, NULL);
	return true;
}

static struct system_allocator *first;

static void *allocate(void *self, size_t size, size_t *actual, size_t alignment)
{
	system_alloc *next;

	(void)self;
	wait_for_lock();
	memcpy(&next, &first->functions[2], sizeof(next));
	return next(first, size, actual, alignment);
}

static bool hook_tcmalloc(struct system_allocator **place)
{
	static void *functions[3];
	static struct system_allocator own = {functions};
	system_alloc *function = allocate;

	first = *place;
	memcpy(&functions[2], &function, sizeof(function));
	*place = &own;
	return true;
}

/* The class MallocExtension of gperftools 2.10: ReleaseToSystem() and ReleaseFreeMemory(). */
static bool hook_extension(void)
{
	static void *functions[32];
	static struct system_allocator own = {functions};
	void *instance = dlsym(RTLD_DEFAULT, "_ZN15MallocExtension8instanceEv");
	void *reg = dlsym(RTLD_DEFAULT, "_ZN15MallocExtension8RegisterEPS_");
	struct system_allocator *(*get)(void);
	void (*set)(struct system_allocator *), (*function)(void) = wait_for_lock;

	if (!instance || !reg)
		return false;
	memcpy(&get, &instance, sizeof(get));
	memcpy(&set, &reg, sizeof(set));
	memcpy(functions, get()->functions, 19 * sizeof(*functions));
	memcpy(&functions[17], &function, sizeof(function));
	memcpy(&functions[18], &function, sizeof(function));
	set(&own);
	return true;
}

static bool hook_glibc(const char *name)
{
	void (*function)(void) = wait_for_lock;
	void *place = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.2.5");

	if (place)
		memcpy(place, &function, sizeof(function));
	return place;
}

static bool hook(const char *where)
{
	void *mimalloc = dlsym(RTLD_DEFAULT, "mi_register_deferred_free");
	void *tcmalloc = dlsym(RTLD_DEFAULT, "tcmalloc_sys_alloc");

	if (strcmp(where, "none") == 0)
		return true;
	if (strcmp(where, "extension") == 0)
		return hook_extension();
	if (mallctl)
		return hook_jemalloc(where);
	if (mimalloc)
		return hook_mimalloc(mimalloc);
	return tcmalloc ? hook_tcmalloc(tcmalloc) : hook_glibc(where);
}

int main(int argc, char **argv)
{
	static void *blocks[BLOCKS];
	char byte;

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(8000), 1, 8000);
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	if (!hook(argc > 1 ? argv[1] : "0"))
		return 2;
	pthread_mutex_lock(&lock);
	(void)!write(STDOUT_FILENO, "ready\n", 6);
	while (read(STDIN_FILENO, &byte, 1) == 1) {
		pthread_mutex_unlock(&lock);
		(void)!write(STDOUT_FILENO, "go on\n", 6);
		pthread_mutex_lock(&lock);
	}
	return 0;
}
