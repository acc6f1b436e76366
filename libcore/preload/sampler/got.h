/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_GOT_H
#define FLMEM_PRELOAD_SAMPLER_GOT_H

/*
 * Redirects the calls of a running program. Entries of the global offset tables (GOT) of its
 * objects that lead to a function of the allocator are made to lead to the sampler's function. All
 * of this runs in ordinary threads outside of the allocator, because it calls the dynamic linker.
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

/*
 * X(name): functions after whose calls newly opened objects are searched for. Only dlopen() of a
 * preloaded sampler is exported, for RTLD_DEEPBIND.
 */
#define SAMPLER_LINKER_HOOKS(X) \
	X(dlopen)               \
	X(dlsym)

/* X(name): functions by which a program may restrict its system calls. */
#define SAMPLER_KERNEL_HOOKS(X) \
	X(prctl)                \
	X(syscall)

/* These are the addresses of the sampler's own functions, even if others have the same names. */
#define SAMPLER_ROW(name) extern const char sampler_own_##name[] HIDDEN;
SAMPLER_HOOKS(SAMPLER_ROW)
SAMPLER_LINKER_HOOKS(SAMPLER_ROW)
SAMPLER_KERNEL_HOOKS(SAMPLER_ROW)
#undef SAMPLER_ROW

/* This is an object as the dynamic linker has loaded it. */
struct sampler_object {
	uintptr_t base, start, end;
	uintptr_t sealed_start, sealed_end; /* the part made read-only after loading (RELRO) */
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Half) * versions;
	const uint32_t *hash;	  /* DT_GNU_HASH; NULL: none */
	const uint32_t *old_hash; /* DT_HASH; NULL: none */
	const ElfW(Rela) * tables[2];
	size_t counts[2];
	bool is_main;
};

/*
 * objects.c: reads the tables of an object. Returns false for an object without them, the sampler
 * itself and the dynamic linker.
 */
HIDDEN bool sampler_object_read(const struct dl_phdr_info *info, struct sampler_object *ret);
/*
 * Returns the number of symbols of that name that the object defines, of any kind and version: a
 * call that is not bound yet may lead to each. *ret_function is the function that it defines by
 * default, or 0.
 */
HIDDEN unsigned sampler_object_define(const struct sampler_object *object, const char *name,
				      uintptr_t *ret_function);
/*
 * Finds the code range of a function that the object defines. Returns false where it does not
 * define it.
 */
HIDDEN bool sampler_object_function(const struct dl_phdr_info *info, const char *name,
				    uintptr_t *ret_start, uintptr_t *ret_end);
/*
 * Returns the address that the program gets for a name: that of the first function; 0: none.
 * `ret_count` gets the number of definitions.
 */
HIDDEN uintptr_t sampler_symbol_find(const char *name, unsigned *ret_count);
/*
 * Calls dlsym(), but only for names that some object defines. An error would stay behind, which the
 * next call of dlsym() gives to free(); a preloaded free() that then calls dlsym() itself would
 * never end.
 */
HIDDEN void *sampler_look_up(void *scope, const char *name);
/* Returns the address of the first definition, which may be the sampler's. */
HIDDEN uintptr_t sampler_first_definition(const char *name);
/*
 * Returns whether no other library has the sampler's own names: `profile run` preloads one that
 * samples at once.
 */
HIDDEN bool sampler_is_alone(void);
/*
 * Returns whether the program already calls the functions of the sampler, because it was preloaded.
 */
HIDDEN bool sampler_is_interposed(void);

/* protection.c: reads the mappings of the process, while the linker's list is locked. */
struct sampler_area {
	uintptr_t start, end;
	int access; /* bits of PROT_ */
};

struct sampler_areas {
	struct sampler_area *rows; /* NULL: they could not be read */
	size_t count;
};

HIDDEN bool sampler_areas_read(struct sampler_areas *ret_areas);
HIDDEN void sampler_areas_free(struct sampler_areas *areas);
/* Returns the PROT_ bits of an address, or -1 where nothing is mapped. */
HIDDEN int sampler_areas_access(const struct sampler_areas *areas, uintptr_t address);

/*
 * seen_objects.c: a set of objects, by their program headers. sampler_seen_add() returns false when
 * the set is full.
 */
HIDDEN bool sampler_seen_has(const ElfW(Phdr) * headers);
HIDDEN bool sampler_seen_add(const ElfW(Phdr) * headers);
HIDDEN void sampler_seen_clear(void);

/*
 * fork_handlers.c: registers handlers, after which a walk over the linker's list and a fork exclude
 * each other. Walks may be nested.
 */
HIDDEN void sampler_walk_prepare(void);
/* Does the same in a running process: it also waits until forks that began before have ended. */
HIDDEN void sampler_walk_prepare_late(void);
HIDDEN void sampler_walk_begin(void);
/* Begins a walk, unless another thread forks: then it returns false, and nothing is begun. */
HIDDEN bool sampler_walk_try(void);
HIDDEN void sampler_walk_end(void);
/* Calls dl_iterate_phdr(), by itself or within a walk that was begun. */
HIDDEN void sampler_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context);

/*
 * got.c: redirects the entries. Returns NULL, or why nothing was changed. `python` is an address of
 * the interpreter, whose own entries must lead where those of the program do.
 */
HIDDEN const char *sampler_got_redirect(uintptr_t python, struct flmem_sampler_entries *entries);
/*
 * Redirects again, if any entry was not bound: a linker that was binding an entry while it was
 * redirected may have overwritten it with the function itself.
 */
HIDDEN void sampler_got_redirect_again(uintptr_t python, struct flmem_sampler_entries *entries);
/*
 * Restores every entry that still leads to the sampler, and returns how many could not be restored.
 * If `ret_unseen` is not NULL, it gets the number of entries that bypassed the sampler, mostly of
 * libraries loaded later.
 */
HIDDEN uint64_t sampler_got_restore(uint64_t *ret_unseen);
/*
 * Redirects the entries of new objects. It is called before dlopen() and dlsym(), in a thread that
 * has called dlopen().
 */
HIDDEN void sampler_got_catch_up(void);
/*
 * Redirects the entries of a new object. The object calls it in the thread that loads it. It waits
 * for no fork.
 */
HIDDEN void sampler_got_object_begins(void);

#endif
