/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbols.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "elf/image.h"
#include "elf/names.h"

#define DEBUG_PATH_MAX 128

struct naming {
	struct flmem_heap_frame *const *frames;
	struct flmem_heap_texts *texts;
	bool failed;
};

static void set_name(void *context, size_t index, const char *name, size_t length)
{
	struct naming *naming = context;
	const char *kept = flmem_heap_texts_keep(naming->texts, name, length);

	naming->failed |= !kept;
	naming->frames[index]->function = kept;
	naming->frames[index]->unresolved = NULL;
}

static struct flmem_image *open_symbol_image(const char *path)
{
	struct flmem_image *image = NULL;
	struct stat status;
	int fd = flmem_file_place_open_regular(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, &status);

	if (fd < 0 || flmem_image_open(fd, &image, NULL))
		return NULL;
	return image;
}

static bool is_same_build(struct flmem_image *image, const struct flmem_heap_module *module)
{
	unsigned char id[FLMEM_BUILD_ID_MAX];
	size_t size = flmem_image_build_id(image, id, sizeof(id));

	return size && size == module->build_id_size && memcmp(id, module->build_id, size) == 0;
}

/* The file with the symbols that a package keeps apart (gdb manual, "Separate Debug Files"). */
static struct flmem_image *open_debug_file(const struct flmem_heap_module *module)
{
	char path[DEBUG_PATH_MAX] = "/usr/lib/debug/.build-id/";
	size_t at = strlen(path);

	for (uint32_t i = 0; i < module->build_id_size; i++)
		at += (size_t)snprintf(path + at, sizeof(path) - at, "%02x%s", module->build_id[i],
				       i ? "" : "/");
	snprintf(path + at, sizeof(path) - at, ".debug");
	return module->build_id_size > 1 ? open_symbol_image(path) : NULL;
}

static const char *name_from_file(const struct flmem_heap_module *module,
				  const struct flmem_addresses *addresses)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image =
		module->path ? open_symbol_image(module->path) : NULL;

	if (!module->path)
		return "the file of the code is not known";
	if (!image)
		return "the file of the code cannot be read here";
	if (module->build_id_size && !is_same_build(image, module))
		return "the file of the code has changed since (another build-id)";
	flmem_image_name_addresses(image, addresses);
	return "the file has no symbol for this code";
}

static int compare_offsets(const void *a, const void *b)
{
	const struct flmem_address *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

bool flmem_heap_symbols_resolve(const struct flmem_heap_module *module,
				struct flmem_heap_frame *const *frames, size_t count,
				struct flmem_heap_texts *texts)
{
	FLMEM_AUTO_FREE struct flmem_address *rows = calloc(count, sizeof(*rows));
	FLMEM_AUTO_IMAGE struct flmem_image *debug = open_debug_file(module);
	struct naming naming = {frames, texts, false};
	const struct flmem_addresses addresses = {rows, count, set_name, &naming};
	const char *unresolved;

	if (!rows)
		return false;
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct flmem_address){.value = frames[i]->offset, .index = i};
	qsort(rows, count, sizeof(*rows), compare_offsets);
	unresolved = name_from_file(module, &addresses);
	/* Symbols of the debug file include those of static functions. */
	if (debug && is_same_build(debug, module))
		flmem_image_name_addresses(debug, &addresses);
	for (size_t i = 0; i < count; i++)
		if (!frames[i]->function)
			frames[i]->unresolved = unresolved;
	return !naming.failed;
}
