/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_GOT_H
#define FLMEM_PRELOAD_SAMPLER_GOT_H

/*
 * Redirects the calls of a running program: the entries of the global offset tables (GOT) of its
 * objects that lead to a function of the allocator then lead to the sampler's. All of it runs in
 * ordinary threads outside of the allocator, because it calls the dynamic linker.
 */

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/sampler/hooks.h"
#include "preload/sampler/sampler.h"
#include "preload/sampler_state.h"

/* X(name): functions that a program calls and the sampler replaces; malloc is first. */
#define SAMPLER_HOOKS(X)     \
	SAMPLER_NEXT_ROWS(X) \
	X(reallocarray)

/* Only redirected, not exported: after them, newly opened objects are searched for. */
#define SAMPLER_LINKER_HOOKS(X) \
	X(dlopen)               \
	X(dlsym)

/* Functions by which a program may restrict its system calls. */
#define SAMPLER_KERNEL_HOOKS(X) \
	X(prctl)                \
	X(syscall)

/* The addresses of the sampler's own functions, even if others have the same names. */
#define SAMPLER_ROW(name) extern const char sampler_own_##name[] HIDDEN;
SAMPLER_HOOKS(SAMPLER_ROW)
SAMPLER_LINKER_HOOKS(SAMPLER_ROW)
SAMPLER_KERNEL_HOOKS(SAMPLER_ROW)
#undef SAMPLER_ROW

/* An object as the dynamic linker has loaded it. */
struct sampler_object {
	uintptr_t base, start, end;
	uintptr_t sealed_start, sealed_end; /* made read-only once it is loaded (RELRO) */
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Half) * versions;
	const uint32_t *hash;	  /* DT_GNU_HASH */
	const uint32_t *old_hash; /* DT_HASH */
	const ElfW(Rela) * tables[2];
	size_t counts[2];
	bool is_main;
};

/* objects.c: false for what has no such tables, the sampler itself and the dynamic linker. */
HIDDEN bool sampler_object_read(const struct dl_phdr_info *info, struct sampler_object *ret);
/*
 * The number of symbols of that name that it defines, of any kind and version: a call that is not
 * bound yet may lead to each. *ret_function: the function that it defines by default, or 0.
 */
HIDDEN unsigned sampler_object_define(const struct sampler_object *object, const char *name,
				      uintptr_t *ret_function);
/* The code range of a function that the object defines; false: it does not define it. */
HIDDEN bool sampler_object_function(const struct dl_phdr_info *info, const char *name,
				    uintptr_t *ret_start, uintptr_t *ret_end);
/*
 * What the program gets for a name, the first function; 0: none. `ret_count`: number of
 * definitions.
 */
HIDDEN uintptr_t sampler_symbol_find(const char *name, unsigned *ret_count);
/*
 * dlsym(), but for names that no object defines: an error would stay behind, which the next call of
 * dlsym() gives to free(); one that is preloaded and then asks dlsym() itself would never end.
 */
HIDDEN void *sampler_look_up(void *scope, const char *name);
/* The first definition, of the sampler too. */
HIDDEN uintptr_t sampler_first_definition(const char *name);
/* No other library has the sampler's own names: `profile run` preloads one that samples at once. */
HIDDEN bool sampler_is_alone(void);
/* Whether the program already calls the functions of the sampler, because it was preloaded. */
HIDDEN bool sampler_is_interposed(void);

/* protection.c: the mappings of the process, while the linker's list is locked. */
struct sampler_area {
	uintptr_t start, end;
	int access; /* PROT_ */
};

struct sampler_areas {
	struct sampler_area *rows; /* NULL: could not be read */
	size_t count;
};

HIDDEN bool sampler_areas_read(struct sampler_areas *ret_areas);
HIDDEN void sampler_areas_free(struct sampler_areas *areas);
/* PROT_ of an address, or -1. */
HIDDEN int sampler_areas_access(const struct sampler_areas *areas, uintptr_t address);

/* seen_objects.c: objects by their program headers; false: there is no room. */
HIDDEN bool sampler_seen_has(const ElfW(Phdr) * headers);
HIDDEN bool sampler_seen_add(const ElfW(Phdr) * headers);
HIDDEN void sampler_seen_clear(void);

/*
 * fork_handlers.c: once prepared, a walk over the linker's list and a fork exclude each other.
 * Walks may be nested.
 */
HIDDEN void sampler_walk_prepare(void);
/* The same in a running process: waits until forks that began before have ended. */
HIDDEN void sampler_walk_prepare_late(void);
HIDDEN void sampler_walk_begin(void);
/* False, and nothing is begun, while another thread forks. */
HIDDEN bool sampler_walk_try(void);
HIDDEN void sampler_walk_end(void);
/* dl_iterate_phdr(), by itself or within a walk that was begun. */
HIDDEN void sampler_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context);

/*
 * got.c: NULL, or why nothing was changed. `python` is an address of the interpreter, whose own
 * entries have to lead where those of the program do.
 */
HIDDEN const char *sampler_got_redirect(uintptr_t python, struct flmem_sampler_entries *entries);
/*
 * A linker that was binding an entry while it was redirected may have overwritten it with the
 * function itself: redirects again, if any entry was not bound.
 */
HIDDEN void sampler_got_redirect_again(uintptr_t python, struct flmem_sampler_entries *entries);
/*
 * Restores every entry that is still the sampler's; returns how many could not be restored. If
 * `ret_unseen` is not NULL: entries that bypassed the sampler, mostly of libraries loaded later.
 */
HIDDEN uint64_t sampler_got_restore(uint64_t *ret_unseen);
/* Called before dlopen() and dlsym(), in a thread that has called dlopen(). */
HIDDEN void sampler_got_catch_up(void);
/* Called by a new object, in the thread that loads it. Waits for no fork. */
HIDDEN void sampler_got_object_begins(void);

#endif
