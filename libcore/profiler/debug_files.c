/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/debug_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/output_place.h>
#include <flmem/plugin.h>

#include "base/cleanup.h"
#include "elf/image_private.h"
#include "elf/symbolize.h"
#include "proc/files/guarded_file.h"

#define DEBUG_PATH_MAX 128
#define DEBUG_ROOT     "/usr/lib/debug"

/* The client library of debuginfod(8), of elfutils 0.178 and later. */
static const struct flmem_plugin debuginfod = {
	.sonames = {"libdebuginfod.so.1"},
	.missing = "DEBUGINFOD_URLS needs libdebuginfod (Debian: libdebuginfod1)",
	.stays = true,
};

static bool read_guarded_image(const void *context, uint64_t offset, void *out, size_t length)
{
	/* No other image uses this note, so it may be changed through the context. */
	return flmem_guarded_file_read((struct flmem_guarded_file *)(uintptr_t)context, offset, out,
				       length);
}

static struct flmem_image *open_guarded_image(struct flmem_guarded_file *file)
{
	const struct flmem_image_source source = {
		.read = read_guarded_image,
		.context = file,
		.size = (uint64_t)flmem_guarded_file_status(file)->st_size,
	};
	struct flmem_image *image = NULL;

	if (flmem_image_open_source(&source, &image, NULL))
		return NULL;
	flmem_image_set_note(image, file);
	return image;
}

struct flmem_image *flmem_symbol_image_open(const char *path, struct stat *ret_status, bool *silent)
{
	FLMEM_AUTO_GUARDED_FILE struct flmem_guarded_file *file = NULL;
	struct flmem_image *image = NULL;
	int rc = flmem_guarded_file_open(path, &file), fd;

	if (rc) {
		*silent |= rc == -ETIMEDOUT;
		return NULL;
	}
	*ret_status = *flmem_guarded_file_status(file);
	fd = flmem_guarded_file_take(file);
	if (fd >= 0)
		return flmem_image_open(fd, &image, NULL) ? NULL : image;
	image = open_guarded_image(file);
	*silent |= flmem_guarded_file_is_silent(file);
	if (image)
		file = NULL; /* the image owns it now, in its note */
	return image;
}

bool flmem_symbol_image_is_silent(const struct flmem_image *image)
{
	const struct flmem_guarded_file *file = image ? flmem_image_note(image) : NULL;

	return file && flmem_guarded_file_is_silent(file);
}

bool flmem_symbol_image_matches(struct flmem_image *image, const struct flmem_heap_module *module)
{
	unsigned char id[FLMEM_BUILD_ID_MAX];
	size_t size = flmem_image_build_id(image, id, sizeof(id));

	return size && size == module->build_id_size && memcmp(id, module->build_id, size) == 0;
}

static struct flmem_image *keep_matching(struct flmem_image *image,
					 const struct flmem_heap_module *module)
{
	if (!image || flmem_symbol_image_matches(image, module))
		return image;
	flmem_image_free(image);
	return NULL;
}

static struct flmem_image *open_matching(const char *path, const struct flmem_heap_module *module,
					 bool *silent)
{
	struct stat status;

	return keep_matching(flmem_symbol_image_open(path, &status, silent), module);
}

static struct flmem_image *open_by_build_id(const struct flmem_heap_module *module, bool *silent)
{
	char path[DEBUG_PATH_MAX] = DEBUG_ROOT "/.build-id/";
	size_t at = strlen(path);

	for (uint32_t i = 0; i < module->build_id_size; i++)
		at += (size_t)snprintf(path + at, sizeof(path) - at, "%02x%s", module->build_id[i],
				       i ? "" : "/");
	snprintf(path + at, sizeof(path) - at, ".debug");
	return module->build_id_size > 1 && !*silent ? open_matching(path, module, silent) : NULL;
}

/* Reads the debug link, which must be a plain file name. */
static bool read_debug_link(struct flmem_image *own, char name[NAME_MAX + 1])
{
	Elf64_Shdr section;
	size_t length;

	if (!own || !flmem_image_section(own, ".gnu_debuglink", &section) ||
	    section.sh_type != SHT_PROGBITS)
		return false;
	length = section.sh_size < NAME_MAX ? section.sh_size : NAME_MAX;
	memset(name, 0, NAME_MAX + 1);
	return flmem_image_read(own, section.sh_offset, name, length) && name[0] &&
	       !strchr(name, '/');
}

static struct flmem_image *open_by_link(const struct flmem_heap_module *module,
					struct flmem_image *own, bool *silent)
{
	static const char *const places[][2] = {{"", "/"}, {"", "/.debug/"}, {DEBUG_ROOT, "/"}};
	const char *slash = strrchr(module->path, '/');
	char name[NAME_MAX + 1], path[PATH_MAX];
	struct flmem_image *image = NULL;
	bool beside = false; /* do not ask the folder of the file itself, which does not answer */

	if (!slash || !read_debug_link(own, name))
		return NULL;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(places) && !image; i++) {
		int length =
			snprintf(path, sizeof(path), "%s%.*s%s%s", places[i][0],
				 (int)(slash - module->path), module->path, places[i][1], name);

		bool *asked = places[i][0][0] ? silent : &beside;

		if (length > 0 && (size_t)length < sizeof(path) && !*asked)
			image = open_matching(path, module, asked);
	}
	return image;
}

/* True if the cache folder of the client library (see its manual) answers. */
static bool has_cache(void)
{
	static const struct {
		const char *variable, *below;
	} places[] = {
		{"DEBUGINFOD_CACHE_PATH", ""},
		{"HOME", "/.debuginfod_client_cache"},
		{"XDG_CACHE_HOME", "/debuginfod_client"},
		{"HOME", "/.cache/debuginfod_client"},
	};
	char path[PATH_MAX];

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(places); i++) {
		const char *value = getenv(places[i].variable);
		int length = snprintf(path, sizeof(path), "%s%s/file", value ? value : "",
				      places[i].below);

		if (!value || !*value)
			continue;
		if (length < 0 || (size_t)length >= sizeof(path) ||
		    flmem_output_place_check(path, NULL))
			return false;
		if (!i)
			return true;
	}
	return true;
}

/*
 * Fetches the debug file from a server. The client library caches downloads, and waits at most
 * DEBUGINFOD_TIMEOUT.
 */
static struct flmem_image *open_from_server(const struct flmem_heap_module *module)
{
	int (*find)(void *client, const unsigned char *id, int size, char **ret_path);
	void *(*begin)(void);
	void (*end)(void *client);
	const struct flmem_plugin_symbol symbols[] = {
		{{"debuginfod_begin"}, &begin, false},
		{{"debuginfod_find_debuginfo"}, &find, false},
		{{"debuginfod_end"}, &end, false},
	};
	const char *urls = getenv("DEBUGINFOD_URLS");
	FLMEM_AUTO_FREE char *path = NULL;
	bool silent = false;
	void *client;
	int fd;

	if (!urls || !urls[0] || !module->build_id_size || !has_cache() ||
	    flmem_plugin_load(&debuginfod, symbols, FLMEM_ARRAY_SIZE(symbols), NULL, NULL))
		return NULL;
	client = begin();
	if (!client)
		return NULL;
	fd = find(client, module->build_id, (int)module->build_id_size, &path);
	end(client);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && path ? open_matching(path, module, &silent) : NULL;
}

struct flmem_image *flmem_debug_file_open(const struct flmem_heap_module *module,
					  struct flmem_image *own, bool *silent)
{
	struct flmem_image *image = open_by_build_id(module, silent);

	if (!image && module->path && !module->silent && module->build_id_size)
		image = open_by_link(module, own, silent);
	return image ? image : open_from_server(module);
}
