/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the file of a mapping: through the target's root, map_files or its exe link; without the
 * file, reads the mapped memory instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "elf/modules_private.h"

/*
 * Bytes compared at the start of a file: the ELF header, the program headers, and usually the build
 * id. Without a build id, compilers of another version give the same headers to other code, but
 * hardly the same symbols, which follow: then all of the first mapping is compared.
 */
#define HEAD_BYTES  65536U
#define WHOLE_BYTES (UINT64_C(16) << 20)
#define STEP_BYTES  8192U
#define LEAST_BYTES 1024U

/* Kind and owner of the note that has the build id. */
static const char build_id_note[] = "\3\0\0\0GNU";

static bool is_mapped_at(const struct flmem_module *module, int fd, const struct flmem_map *head,
			 size_t offset, bool *has_build_id)
{
	const struct flmem_process *process = module->owner->process;
	const size_t length = head->end - head->start - offset;
	unsigned char mapped[STEP_BYTES], stored[STEP_BYTES];
	ssize_t got =
		pread(fd, stored, length < sizeof(stored) ? length : sizeof(stored), (off_t)offset);

	if (got < (ssize_t)(offset ? 0 : LEAST_BYTES))
		return false;
	*has_build_id |= memmem(stored, (size_t)got, build_id_note, sizeof(build_id_note)) != NULL;
	return !flmem_process_read_memory(process, head->start + offset, mapped, (size_t)got) &&
	       memcmp(mapped, stored, (size_t)got) == 0;
}

/* Reports whether the file begins with the bytes that the process has mapped. */
static bool has_same_head(const struct flmem_module *module, int fd)
{
	const struct flmem_map *head = flmem_maps_find(module->owner->maps, module->start);
	bool has_build_id = false;
	uint64_t end, at;

	if (!head || head->offset || !(head->flags & FLMEM_MAP_READ))
		return false;
	end = head->end - head->start;
	for (at = 0; at < end && at < (has_build_id ? HEAD_BYTES : WHOLE_BYTES); at += STEP_BYTES)
		if (!is_mapped_at(module, fd, head, at, &has_build_id))
			return false;
	return has_build_id || at >= end;
}

/*
 * On btrfs and overlayfs stat() reports another device than maps, on some overlays also another
 * inode, so compare the content when they differ.
 */
static bool is_mapped_file(const struct flmem_module *module, int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	if (status.st_ino == module->inode && status.st_dev == module->device)
		return true;
	return has_same_head(module, fd);
}

/* Opens the file itself through a magic link of /proc/PID, even after it was moved or removed. */
static int open_magic_link(const struct flmem_module *module, const char *name)
{
	FLMEM_AUTO_CLOSE int fd = openat(module->owner->process->dirfd, name,
					 O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0 || !is_mapped_file(module, fd))
		return -1;
	return FLMEM_TAKE_FD(fd);
}

static int open_by_map(const struct flmem_module *module)
{
	char name[64];

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, module->map->start,
		 module->map->end);
	return open_magic_link(module, name);
}

int flmem_module_open_file(const struct flmem_module *module, const char **ret_why)
{
	FLMEM_AUTO_CLOSE int by_name = -ENOENT;
	int fd;

	if (!module->deleted)
		by_name = flmem_process_open_file(module->owner->process, module->path);
	if (by_name >= 0 && is_mapped_file(module, by_name))
		return FLMEM_TAKE_FD(by_name);
	fd = open_by_map(module);
	if (fd < 0 && module->main)
		fd = open_magic_link(module, "exe");
	if (fd >= 0)
		return fd;
	if (by_name == -EACCES || by_name == -EPERM)
		*ret_why = "access to its file is denied";
	else if (by_name == -EMFILE || by_name == -ENFILE)
		*ret_why = "too many files are open";
	else
		*ret_why = "its file was removed or replaced; CAP_SYS_ADMIN could still read it";
	return -1;
}

static bool is_of_module(const struct flmem_module *module, const struct flmem_map *map)
{
	return map->start >= module->start && map->end <= module->end &&
	       map->inode == module->inode && map->device == module->device &&
	       map->flags & FLMEM_MAP_READ;
}

/*
 * Finds the mapping that holds a file offset. A page that two segments share is mapped twice; the
 * first mapping is the one that is never written to.
 */
static const struct flmem_map *find_map_of_offset(const struct flmem_module *module,
						  uint64_t offset)
{
	const struct flmem_maps *maps = module->owner->maps;
	const struct flmem_map *map = flmem_maps_find(maps, module->start);

	for (; map && map < maps->rows + maps->count && map->start < module->end; map++)
		if (is_of_module(module, map) && offset >= map->offset &&
		    offset - map->offset < map->end - map->start)
			return map;
	return NULL;
}

static bool read_mapped(const void *context, uint64_t offset, void *out, size_t length)
{
	const struct flmem_module *module = context;
	unsigned char *to = out;

	while (length) {
		const struct flmem_map *map = find_map_of_offset(module, offset);
		uint64_t inside, left;
		size_t step;

		if (!map)
			return false;
		inside = offset - map->offset;
		left = map->end - map->start - inside;
		step = left < length ? (size_t)left : length;
		if (flmem_process_read_memory(module->owner->process, map->start + inside, to,
					      step))
			return false;
		to += step;
		offset += step;
		length -= step;
	}
	return true;
}

int flmem_module_open_memory(const struct flmem_module *module, struct flmem_image **ret_image)
{
	const struct flmem_maps *maps = module->owner->maps;
	const struct flmem_map *map = flmem_maps_find(maps, module->start);
	struct flmem_image_source source = {
		.read = read_mapped, .context = module, .bias = module->start};

	for (; map && map < maps->rows + maps->count && map->start < module->end; map++)
		if (is_of_module(module, map) &&
		    map->offset + (map->end - map->start) > source.size)
			source.size = map->offset + (map->end - map->start);
	return flmem_image_open_source(&source, ret_image, NULL);
}
