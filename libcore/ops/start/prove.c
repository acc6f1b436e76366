/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/launch.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <flmem/text.h>

#include "allocators/allocator.h"
#include "allocators/module_search.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "elf/libc.h"
#include "elf/modules.h"
#include "elf/view.h"
#include "proc/command.h"
#include "proc/maps.h"
#include "remote/probe_child.h"

/* True for a mapping of the library that LD_PRELOAD names, directly or through links. */
static bool maps_library(const struct flmem_map *map, const char *library)
{
	FLMEM_AUTO_FREE char *real = NULL;
	struct stat status;

	if (library[0] != '/')
		return flmem_text_starts(flmem_text_basename(map->name), "libjemalloc");
	if (stat(library, &status) < 0)
		return false;
	if (map->inode == status.st_ino && map->device == status.st_dev)
		return true;
	/* On overlay file systems the mapping shows the device of a lower layer. */
	real = realpath(library, NULL);
	return real && strcmp(map->name, real) == 0;
}

static const struct flmem_map *find_mapped_library(const struct flmem_maps *maps,
						   const char *library)
{
	for (size_t i = 0; i < maps->count; i++)
		if (maps->rows[i].inode && maps_library(&maps->rows[i], library))
			return &maps->rows[i];
	return NULL;
}

/*
 * A set-user-ID program runs in the loader's secure mode, which drops LD_PRELOAD; a traced one may
 * be denied the privilege, so the test start alone does not show it (ld.so(8), execve(2)).
 */
static bool gains_privilege(const struct flmem_probe_child *child)
{
	FLMEM_AUTO_CLOSE int fd = openat(child->process.dirfd, "exe", O_PATH | O_CLOEXEC);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return false;
	if ((status.st_mode & S_ISUID) && status.st_uid != geteuid())
		return true;
	if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getegid())
		return true;
	return geteuid() != 0 && getxattr(child->program, "security.capability", NULL, 0) > 0;
}

/* Returns why LD_PRELOAD cannot work in this program, or NULL if no reason is known. */
static const char *find_obstacle(const struct flmem_probe_child *child)
{
	if (!child->wide)
		return "it is a 32-bit program, and the library is not";
	if (!child->has_loader)
		return "it is statically linked and ignores LD_PRELOAD";
	if (gains_privilege(child))
		return "it gains privileges when it starts (set-user-ID or capabilities), and then "
		       "ignores LD_PRELOAD";
	return NULL;
}

static int report_not_loaded(const struct flmem_probe_child *child, const char *library,
			     const char *said, struct flmem_error *err)
{
	char line[256];

	snprintf(line, sizeof(line), "%.*s", (int)strcspn(said, "\n"), said);
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "%s does not load into '%s'%s%s",
			       library, child->program, line[0] ? ": " : "", line);
}

/* Returns the module's allocator that has the plain name malloc; NULL if flmem does not know it. */
static const struct flmem_allocator *find_allocator_in(const struct flmem_allocator_list *list,
						       const struct flmem_module *module)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].module == module &&
		    (!list->rows[i].prefix || !*list->rows[i].prefix))
			return &list->rows[i];
	return NULL;
}

static const struct flmem_module *find_module(const struct flmem_modules *modules, const char *path)
{
	for (size_t i = 0; i < modules->count; i++)
		if (strcmp(modules->rows[i].path, path) == 0)
			return &modules->rows[i];
	return NULL;
}

/*
 * Checks which malloc is first in the lookup order: before main() most calls are not bound yet, and
 * the order decides what they will reach.
 */
static int check_order(const struct flmem_probe_child *child, const struct flmem_modules *modules,
		       const char *library, const struct flmem_module **ret_server,
		       struct flmem_error *err)
{
	const struct flmem_module *module = find_module(modules, library);
	const struct flmem_module *server = flmem_modules_lookup(modules, "malloc", NULL);

	if (module && !flmem_module_exports(module, "malloc"))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "%s loads into '%s', but defines no malloc", library,
				       child->program);
	if (!server)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "cannot determine which library serves malloc in '%s'",
				       child->program);
	if (strcmp(server->path, library) != 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "%s loads into '%s', but malloc is served by %s, which "
				       "comes first",
				       library, child->program, server->path);
	*ret_server = server;
	return 0;
}

/* Checks that the library is jemalloc, by its content, not by its name. */
static int check_kind(const struct flmem_probe_child *child, const struct flmem_view *view,
		      const struct flmem_module *server, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_allocator_list *list = calloc(1, sizeof(*list));
	const struct flmem_allocator *found;

	if (!list)
		return flmem_error_nomem(err, "cannot store the allocators");
	flmem_allocators_find(view, list);
	found = find_allocator_in(list, server);
	if (found && found->ops->kind == FLMEM_ALLOCATOR_JEMALLOC)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "%s serves malloc in '%s', but it is %s, not jemalloc; name a "
			       "jemalloc library",
			       server->path, child->program,
			       found && found->ops->kind != FLMEM_ALLOCATOR_UNKNOWN
				       ? flmem_allocator_name(found->ops->kind)
				       : "an unknown allocator");
}

/* Checks whether plain malloc reaches the mapped library, and whether that is jemalloc. */
static int check_malloc(const struct flmem_probe_child *child, const struct flmem_maps *maps,
			const struct flmem_map *found, struct flmem_error *err)
{
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	FLMEM_AUTO_MODULES struct flmem_modules modules = {0};
	const struct flmem_view view = {&child->process, maps, &modules};
	const struct flmem_module *server = NULL;
	int rc;

	if (!cache)
		return flmem_error_nomem(err, "cannot read the modules of '%s'", child->program);
	rc = flmem_modules_load(&child->process, maps, cache, &modules, err);
	if (rc)
		return flmem_error_prefix(err, rc, "cannot prove what serves malloc in '%s'",
					  child->program);
	rc = check_order(child, &modules, found->name, &server, err);
	return rc ? rc : check_kind(child, &view, server, err);
}

/*
 * Checks that the scrubber loads as well if the list has it. In a shell it would remove the
 * allocator from the program that the script starts.
 */
static int check_scrubber(const struct flmem_probe_child *child, const struct flmem_maps *maps,
			  char *const *environment, struct flmem_error *err)
{
	static const char name[] = "libflmem_scrub.so";
	bool wanted = false;

	for (; *environment; environment++)
		wanted |= flmem_text_starts(*environment, "LD_PRELOAD=") &&
			  strstr(*environment, name);
	if (!wanted)
		return 0;
	if (flmem_command_is_shell(child->program))
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"the command runs in the shell '%s', and without an inherited "
			"preload, the programs that it starts would run without "
			"jemalloc; name the program itself",
			child->program);
	for (size_t i = 0; i < maps->count; i++)
		if (strcmp(flmem_text_basename(maps->rows[i].name), name) == 0)
			return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "%s does not load into '%s', so its children would inherit the "
			       "preload",
			       name, child->program);
}

static int fill_proof(const struct flmem_probe_child *child, const struct flmem_map *found,
		      const char *said, struct flmem_preload_proof *proof, struct flmem_error *err)
{
	proof->is_shell = flmem_command_is_shell(child->program);
	proof->program = strdup(child->program);
	proof->library = strdup(found->name);
	proof->stderr_text = strdup(said);
	if (proof->program && proof->library && proof->stderr_text)
		return 0;
	return flmem_error_nomem(err, "cannot store the proof");
}

static int check_child(const struct flmem_probe_child *child, const char *library,
		       char *const *environment, struct flmem_preload_proof *proof,
		       struct flmem_error *err)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	const struct flmem_map *found;
	char said[FLMEM_PROBE_CHILD_OUTPUT_MAX];
	const char *why = find_obstacle(child);
	int rc;

	if (why)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "jemalloc cannot be preloaded into '%s': %s", child->program,
				       why);
	rc = flmem_maps_read(&child->process, &maps, err);
	if (rc)
		return rc;
	flmem_probe_child_output(child, said, sizeof(said));
	found = find_mapped_library(&maps, library);
	if (!found)
		return report_not_loaded(child, library, said, err);
	rc = check_malloc(child, &maps, found, err);
	if (!rc)
		rc = check_scrubber(child, &maps, environment, err);
	return rc ? rc : fill_proof(child, found, said, proof, err);
}

/*
 * Explains a failure whose cause the loader's message does not name: the library is for another C
 * library than the program's.
 */
static int explain_other_libc(const struct flmem_probe_child *child, const char *library, int rc,
			      struct flmem_error *err)
{
	enum flmem_allocator_kind needed = flmem_libc_of_library(library);
	struct flmem_libc libc = {0};

	if (needed == FLMEM_ALLOCATOR_UNKNOWN ||
	    flmem_libc_of_program(child->program, &libc, NULL) || libc.kind == needed)
		return rc;
	return flmem_error_prefix(
		err, rc,
		"%s is built for %s, but '%s' runs with %s; name a library that is "
		"built for %s",
		library, flmem_allocator_name(needed), child->program,
		flmem_allocator_name(libc.kind), flmem_allocator_name(libc.kind));
}

int flmem_launch_prove(const struct flmem_settings *settings, char *const *argv,
		       char *const *environment, struct flmem_preload_proof *ret_proof,
		       struct flmem_error *err)
{
	FLMEM_AUTO_PROBE_CHILD struct flmem_probe_child child = FLMEM_PROBE_CHILD_INIT;
	struct flmem_preload_proof proof = {0};
	uint64_t start = flmem_clock_us();
	int rc;

	if (!settings->jemalloc_library)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "the settings preload no jemalloc");
	rc = flmem_probe_child_start(argv, environment, &child, err);
	if (!rc)
		rc = check_child(&child, settings->jemalloc_library, environment, &proof, err);
	if (rc == FLMEM_EUNSUPPORTED)
		rc = explain_other_libc(&child, settings->jemalloc_library, rc, err);
	if (rc) {
		flmem_preload_proof_clear(&proof);
		return rc;
	}
	proof.took_us = flmem_clock_us() - start;
	*ret_proof = proof;
	return 0;
}

void flmem_preload_proof_clear(struct flmem_preload_proof *proof)
{
	free(proof->program);
	free(proof->library);
	free(proof->stderr_text);
	*proof = (struct flmem_preload_proof){0};
}
