/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_MAPS_H
#define FLMEM_PROC_MAPS_H

/*
 * Mappings of a process: /proc/PID/maps as a sorted array, from Linux 6.11 on without its text. The
 * kernel returns them in pieces, so they may change in between; those that are not in ascending
 * order are dropped. The page [vsyscall], which is not in the address space of the process, may be
 * missing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"

struct flmem_process;

enum {
	FLMEM_MAP_READ = 1,
	FLMEM_MAP_WRITE = 2,
	FLMEM_MAP_EXEC = 4,
	FLMEM_MAP_SHARED = 8,
};

struct flmem_map {
	uint64_t start, end; /* `end` is the first byte after the mapping */
	uint64_t offset;     /* offset of the mapping in the file */
	uint64_t inode;	     /* 0: no file */
	dev_t device;
	unsigned flags; /* FLMEM_MAP_* */
	/* Path or [heap], [stack], [anon:x]; "" if there is none; owned by the maps. */
	const char *name;
};

struct flmem_maps {
	struct flmem_map *rows;
	size_t count;
	char *text; /* text into which the names point; several rows may share one */
};

/* Reads the mappings. Limits that no real process exceeds: 64 MiB of text, 2^20 mappings. */
int flmem_maps_read(const struct flmem_process *process, struct flmem_maps *ret_maps,
		    struct flmem_error *err);

/* Parses the text of a maps file, taking ownership of it (also on failure). */
int flmem_maps_parse(char *text, struct flmem_maps *ret_maps, struct flmem_error *err);

void flmem_maps_clear(struct flmem_maps *maps);

#define FLMEM_AUTO_MAPS FLMEM_AUTO(flmem_maps_clear)

/* Returns the mapping that contains the address, or NULL. */
const struct flmem_map *flmem_maps_find(const struct flmem_maps *maps, uint64_t address);

/* Name that the kernel gives to the stack of the main thread. */
#define FLMEM_MAP_MAIN_STACK "[stack]"

/* Returns true for a mapping of a file that was replaced or removed since ("(deleted)"). */
bool flmem_map_is_deleted(const struct flmem_map *map);

/*
 * Return true if the mapping, or any mapping, is the sampler of heap profiles, by the name of its
 * file.
 */
bool flmem_map_is_sampler(const struct flmem_map *map);
bool flmem_maps_have_sampler(const struct flmem_maps *maps);

#endif
