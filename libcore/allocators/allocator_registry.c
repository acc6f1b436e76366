/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/allocator_registry.h"

#include <string.h>

#include "allocators/module_search.h"
#include "base/text/text.h"

/* Number of importers whose GOT is read; after these only the lookup order decides. */
#define IMPORTERS_MAX 4U

const struct flmem_allocator_ops *const flmem_allocators[] = {
#define ALLOCATOR_ROW(name) &flmem_allocator_##name,
	FLMEM_ALLOCATOR_TABLES(ALLOCATOR_ROW)
#undef ALLOCATOR_ROW
		NULL,
};

static const struct flmem_allocator_ops allocator_registry_unknown = {
	.kind = FLMEM_ALLOCATOR_UNKNOWN,
	.trim_advice =
		"flmem does not know this allocator; see its documentation for a way to release "
		"memory",
};

/* Whether the file name is that of a library of this allocator. */
static bool is_allocator_library(const struct flmem_allocator_ops *ops,
				 const struct flmem_module *module)
{
	const char *name = flmem_text_basename(module->path);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(ops->files) && ops->files[i]; i++)
		if (!module->main && strstr(name, ops->files[i]))
			return true;
	return false;
}

static void fill_recognition(const struct flmem_view *view, const struct flmem_module *module,
			     struct flmem_recognition *known)
{
	for (size_t i = 0; flmem_allocators[i]; i++) {
		struct flmem_allocator *row = &known->rows[known->count];

		if (known->count == FLMEM_ARRAY_SIZE(known->rows))
			break;
		*row = (struct flmem_allocator){0};
		if (!flmem_allocators[i]->recognise(view, module, row))
			continue;
		row->ops = flmem_allocators[i];
		row->linkage = is_allocator_library(row->ops, module) ? FLMEM_LINKAGE_SHARED
								      : FLMEM_LINKAGE_STATIC;
		known->count++;
	}
	known->has_rows = true;
}

static struct flmem_allocator *add_allocator(struct flmem_allocator_list *list,
					     const struct flmem_allocator *found,
					     const struct flmem_module *module)
{
	struct flmem_allocator *row = &list->rows[list->count];

	if (list->count == FLMEM_ARRAY_SIZE(list->rows)) {
		list->is_cut = true;
		return NULL;
	}
	*row = *found;
	row->module = module;
	row->serves_malloc = false;
	list->count++;
	return row;
}

static void recognise_in_module(const struct flmem_view *view, const struct flmem_module *module,
				struct flmem_allocator_list *list)
{
	struct flmem_recognition *known = flmem_module_recognition(module);

	if (!known)
		return;
	if (!known->has_rows)
		fill_recognition(view, module, known);
	for (size_t i = 0; i < known->count; i++)
		add_allocator(list, &known->rows[i], module);
}

static bool has_allocator(const struct flmem_allocator_list *list,
			  const struct flmem_module *module)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].module == module)
			return true;
	return false;
}

/*
 * Finds the module that calls to malloc reach, from the GOT slot of the first module that imports
 * malloc. When a program at a fixed address takes the address of malloc, the address is that of its
 * PLT entry, and the slots of the libraries point there; a program that serves malloc exports it,
 * else its libraries would not reach it.
 */
static const struct flmem_module *find_got_server(const struct flmem_modules *modules)
{
	for (size_t i = 0; i < modules->rank_count && i < IMPORTERS_MAX; i++) {
		const struct flmem_module *target =
			flmem_module_got_target(modules->by_rank[i], "malloc");

		if (target && (!target->main || flmem_module_exports(target, "malloc")))
			return target;
	}
	return NULL;
}

/*
 * The module that plain malloc reaches: the first definition in lookup order. The slot may point
 * elsewhere, to an allocator that replaced it later or to a file that cannot be read; then the slot
 * is right. If it points to something else (a profiler's hook), that code calls on.
 */
static const struct flmem_module *find_server(const struct flmem_modules *modules,
					      const struct flmem_allocator_list *list)
{
	const struct flmem_module *ordered = flmem_modules_find_malloc(modules);
	const struct flmem_module *program = flmem_modules_main(modules), *bound;

	if (!ordered) {
		bool linked_in = program && (flmem_module_is_static(program) ||
					     flmem_module_exports(program, "malloc"));

		return linked_in ? program : NULL;
	}
	bound = find_got_server(modules);
	if (bound && (has_allocator(list, bound) || !flmem_module_image(bound, NULL)))
		return bound;
	return ordered;
}

/* Rates how well an allocator in the serving module matches plain malloc. */
static int rate_allocator(const struct flmem_allocator *row)
{
	switch (row->ops->kind) {
	case FLMEM_ALLOCATOR_GO:
	case FLMEM_ALLOCATOR_JAVA:
		return 0; /* the allocator's heap is separate from malloc */
	case FLMEM_ALLOCATOR_GLIBC:
	case FLMEM_ALLOCATOR_MUSL:
		/*
		 * A libc's malloc is linked into a program only when nothing else there defines
		 * that name, so then the other allocators use other names.
		 */
		return 3;
	default:
		return !row->prefix ? 1 : !*row->prefix ? 2 : 0;
	}
}

static struct flmem_allocator *find_best_in(struct flmem_allocator_list *list,
					    const struct flmem_module *server)
{
	struct flmem_allocator *best = NULL;

	for (size_t i = 0; i < list->count; i++) {
		struct flmem_allocator *row = &list->rows[i];

		if (row->module == server &&
		    rate_allocator(row) > (best ? rate_allocator(best) : 0))
			best = row;
	}
	return best;
}

static void mark_server(const struct flmem_modules *modules, struct flmem_allocator_list *list)
{
	const struct flmem_module *server = find_server(modules, list);
	struct flmem_allocator *row = server ? find_best_in(list, server) : NULL;

	if (!row && server && flmem_module_defines(server, "malloc"))
		row = add_allocator(list,
				    &(struct flmem_allocator){
					    .ops = &allocator_registry_unknown,
					    .linkage = server->main ? FLMEM_LINKAGE_STATIC
								    : FLMEM_LINKAGE_SHARED,
					    .evidence =
						    "it defines malloc, but flmem recognises no "
						    "known allocator in it",
				    },
				    server);
	if (row)
		row->serves_malloc = true;
}

/*
 * Opening the 300 libraries of a PyTorch process would take longer than everything else. malloc
 * comes from a library up to `last` in lookup order, the first that defines it. Later ones were
 * opened at run time: libraries of an allocator are recognised by their file names, and an
 * allocator that is linked into another library exports no names.
 */
static bool is_worth_opening(const struct flmem_modules *modules, const struct flmem_module *module,
			     const struct flmem_module *last)
{
	if (module->main || !modules->has_link_map || !last)
		return true;
	if (module->lookup_rank >= 0 && module->lookup_rank <= last->lookup_rank)
		return true;
	for (size_t i = 0; flmem_allocators[i]; i++)
		if (is_allocator_library(flmem_allocators[i], module))
			return true;
	return false;
}

void flmem_allocators_find(const struct flmem_view *view, struct flmem_allocator_list *ret_list)
{
	const struct flmem_modules *modules = view->modules;
	const struct flmem_module *last = flmem_modules_find_malloc(modules);

	*ret_list = (struct flmem_allocator_list){0};
	for (size_t i = 0; i < modules->count; i++)
		if (is_worth_opening(modules, &modules->rows[i], last))
			recognise_in_module(view, &modules->rows[i], ret_list);
	mark_server(modules, ret_list);
}

const struct flmem_allocator *flmem_allocators_serving(const struct flmem_allocator_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].serves_malloc)
			return &list->rows[i];
	return NULL;
}

void flmem_allocator_add_syscalls(const struct flmem_allocator *found,
				  struct flmem_syscall_list *list)
{
	flmem_syscall_list_add(list, found->ops->syscalls ? found->ops->syscalls(found) : NULL);
}
