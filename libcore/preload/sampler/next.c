/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the next allocator, and serves malloc() while it is being found. */

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/sampler/got.h"
#include "preload/sampler/hooks.h"
#include "preload/sampler/restricted.h"
#include "preload/sampler/sampler.h"

#define ARENA_ALIGN 16U

char sampler_arena[SAMPLER_ARENA_SIZE] __attribute__((aligned(16)));
static size_t arena_used;
/*
 * This is volatile because dlsym() is declared as a leaf: the compiler may assume that it does not
 * call back into this file.
 */
static volatile bool is_resolving;
static bool is_loaded; /* the sampler was loaded later, into a running program */

/*
 * Allocates from the arena. The size of each block precedes it. Blocks are zeroed and never freed.
 */
static void *arena_allocate(size_t size)
{
	size_t room = (size + 2 * ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	size_t at;

	if (size > SAMPLER_ARENA_SIZE)
		return NULL;
	at = __atomic_fetch_add(&arena_used, room, __ATOMIC_RELAXED);
	if (at + room > SAMPLER_ARENA_SIZE) {
		errno = ENOMEM;
		return NULL;
	}
	memcpy(sampler_arena + at, &size, sizeof(size));
	__atomic_store_n(
		&sampler_filter[sampler_filter_slot((uintptr_t)sampler_arena + at + ARENA_ALIGN)],
		UINT8_MAX, __ATOMIC_RELAXED);
	return sampler_arena + at + ARENA_ALIGN;
}

void *sampler_arena_resize(void *address, size_t size)
{
	size_t old;
	void *new = sampler_next.malloc(size);

	memcpy(&old, (char *)address - ARENA_ALIGN, sizeof(old));
	if (new)
		memcpy(new, address, old < size ? old : size);
	return new;
}

static void *early_malloc(size_t size)
{
	if (is_resolving)
		return arena_allocate(size);
	sampler_hooks_resolve();
	return sampler_next.malloc == early_malloc ? arena_allocate(size)
						   : sampler_next.malloc(size);
}

static void *early_calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	if (is_resolving)
		return arena_allocate(bytes);
	sampler_hooks_resolve();
	return sampler_next.calloc == early_calloc ? arena_allocate(bytes)
						   : sampler_next.calloc(count, size);
}

static void *early_realloc(void *address, size_t size)
{
	if (!address)
		return early_malloc(size);
	sampler_hooks_resolve();
	return sampler_next.realloc == early_realloc ? NULL : sampler_next.realloc(address, size);
}

static void early_free(void *address)
{
	sampler_hooks_resolve();
	if (address && sampler_next.free != early_free)
		sampler_next.free(address);
}

static void *early_mmap(void *at, size_t length, int access, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, at, length, access, flags, fd, offset);
}

static int early_munmap(void *at, size_t length)
{
	return (int)syscall(SYS_munmap, at, length);
}

static void *early_mremap(void *at, size_t old_length, size_t length, int flags, ...)
{
	void *target = NULL;
	va_list rest;

	if (flags & MREMAP_FIXED) {
		va_start(rest, flags);
		target = va_arg(rest, void *);
		va_end(rest);
	}
	return (void *)syscall(SYS_mremap, at, old_length, length, flags, target);
}

struct sampler_next sampler_next = {
	.malloc = early_malloc,
	.calloc = early_calloc,
	.realloc = early_realloc,
	.free = early_free,
	.mmap = early_mmap,
	.mmap64 = early_mmap,
	.munmap = early_munmap,
	.mremap = early_mremap,
};

void *sampler_next_dlopen, *sampler_next_dlsym;

/* Finds the next function of a name. POSIX lets a data pointer hold a function; ISO C does not. */
static void find_next(const char *name, void *ret_function)
{
	void *found = is_loaded ? (void *)sampler_symbol_find(name, NULL)
				: sampler_look_up(RTLD_NEXT, name);

	if (found)
		memcpy(ret_function, &found, sizeof(found));
}

/* Finds the code range of the allocator: calls of mmap() from this range are the allocator's. */
static int find_owner_range(struct dl_phdr_info *info, size_t size, void *context)
{
	uintptr_t wanted = (uintptr_t)sampler_next.malloc, start = UINTPTR_MAX, end = 0;

	(void)size;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_LOAD)
			continue;
		if (info->dlpi_addr + part->p_vaddr < start)
			start = info->dlpi_addr + part->p_vaddr;
		if (info->dlpi_addr + part->p_vaddr + part->p_memsz > end)
			end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
	}
	if (wanted < start || wanted >= end)
		return 0;
	sampler_next.owner_start = start;
	sampler_next.owner_end = end;
	return 1;
}

static const struct {
	const char *name;
	size_t offset;
} next_rows[] = {
#define SAMPLER_ROW(function) {#function, offsetof(struct sampler_next, function)},
	SAMPLER_NEXT_ROWS(SAMPLER_ROW)
#undef SAMPLER_ROW
};

/* Finds the program's own allocator, whose blocks are not those of the next one. */
static void find_own_allocator(struct sampler_next *found)
{
	uintptr_t own_free = sampler_first_definition("free");

	if (sampler_first_definition("realloc") != (uintptr_t)sampler_own_realloc)
		find_next("reallocarray", &found->reallocarray);
	if (own_free && own_free != (uintptr_t)sampler_own_free)
		memcpy(&found->program_free, &own_free, sizeof(own_free));
}

void sampler_hooks_resolve(void)
{
	struct sampler_next found = sampler_next;
	static volatile bool done;

	if (done || is_resolving)
		return;
	is_resolving = true;
	for (size_t i = 0; i < sizeof(next_rows) / sizeof(next_rows[0]); i++)
		find_next(next_rows[i].name, (char *)&found + next_rows[i].offset);
	find_next("dlopen", &sampler_next_dlopen);
	find_next("dlsym", &sampler_next_dlsym);
	find_next("prctl", &sampler_next_prctl);
	find_next("syscall", &sampler_next_syscall);
	if (!is_loaded)
		find_own_allocator(&found);
	sampler_next = found;
	done = true;
	is_resolving = false;
	sampler_walk(find_owner_range, NULL);
}

void sampler_hooks_resolve_loaded(void)
{
	is_loaded = true;
	sampler_hooks_resolve();
}

/*
 * Checks the function: a library that was loaded later may have its own, if the program has none.
 */
bool sampler_hooks_pass_on(const char *name, uintptr_t function)
{
	uintptr_t next = function;

	for (size_t i = 0; i < sizeof(next_rows) / sizeof(next_rows[0]); i++)
		if (strcmp(next_rows[i].name, name) == 0)
			memcpy(&next, (const char *)&sampler_next + next_rows[i].offset,
			       sizeof(next));
	return next == function;
}

/*
 * Only calls that get to the sampler count: in a preloaded sampler, those of a program with its own
 * malloc() do not.
 */
void sampler_hooks_owner(char *out, size_t size)
{
	const uintptr_t first = is_loaded ? 0 : sampler_first_definition("malloc");
	Dl_info info;
	void *function;

	memcpy(&function, &sampler_next.malloc, sizeof(function));
	if (first && first != (uintptr_t)sampler_own_malloc)
		function = (void *)first;
	if (dladdr(function, &info) && info.dli_fname)
		sampler_copy_text(out, size, info.dli_fname);
}
