/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/frame_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/symbolize.h"
#include "profiler/debug_files.h"
#include "profiler/demangle.h"

struct frame_naming {
	struct flmem_heap_frame *const *frames;
	struct flmem_string_pool *texts;
	bool failed;
};

static void set_name(void *context, size_t index, const char *name, size_t length)
{
	struct frame_naming *naming = context;
	char plain[FLMEM_DEMANGLED_MAX];
	bool demangled = flmem_demangle(name, length, plain);
	const char *kept = flmem_string_pool_keep(naming->texts, demangled ? plain : name,
						  demangled ? strlen(plain) : length);

	naming->failed |= !kept;
	naming->frames[index]->function = kept;
	naming->frames[index]->unresolved = NULL;
}

static const char *name_from_file(const struct flmem_heap_module *module, struct flmem_image *image,
				  bool debug_silent, const struct flmem_addresses *addresses)
{
	if (!module->path)
		return "the file of the code is not known";
	if (module->silent)
		return FLMEM_HEAP_FILE_SILENT;
	if (!image)
		return "the file of the code cannot be read here";
	if (module->build_id_size && !flmem_symbol_image_matches(image, module))
		return "the file of the code has changed since (another build-id)";
	flmem_image_name_addresses(image, addresses);
	return debug_silent ? FLMEM_HEAP_DEBUG_SILENT : "the file has no symbol for this code";
}

/* Forgets names after an incomplete read: another symbol may be the right one. */
static void forget_names(struct flmem_heap_frame *const *frames, size_t count, const char **ret_why)
{
	for (size_t i = 0; i < count; i++)
		frames[i]->function = NULL;
	*ret_why = FLMEM_HEAP_FILE_SILENT;
}

static int compare_offsets(const void *a, const void *b)
{
	const struct flmem_address *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

static struct flmem_image *open_module_image(const struct flmem_heap_module *module, bool *silent)
{
	struct stat status;

	if (!module->path || *silent)
		return NULL;
	return flmem_symbol_image_open(module->path, &status, silent);
}

bool flmem_heap_symbols_resolve(const struct flmem_heap_module *module,
				struct flmem_heap_frame *const *frames, size_t count,
				struct flmem_string_pool *texts, bool *debug_silent)
{
	FLMEM_AUTO_FREE struct flmem_address *rows = calloc(count, sizeof(*rows));
	bool silent = module->silent;
	FLMEM_AUTO_IMAGE struct flmem_image *own = open_module_image(module, &silent);
	FLMEM_AUTO_IMAGE struct flmem_image *debug =
		flmem_debug_file_open(module, own, debug_silent);
	struct frame_naming naming = {frames, texts, false};
	const struct flmem_addresses addresses = {rows, count, set_name, &naming};
	const char *unresolved;

	if (!rows)
		return false;
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct flmem_address){.value = frames[i]->offset, .index = i};
	qsort(rows, count, sizeof(*rows), compare_offsets);
	unresolved = name_from_file(module, own, *debug_silent, &addresses);
	/* Symbols of the debug file include those of static functions. */
	if (debug)
		flmem_image_name_addresses(debug, &addresses);
	if (silent)
		unresolved = FLMEM_HEAP_FILE_SILENT;
	if (flmem_symbol_image_is_silent(own) || flmem_symbol_image_is_silent(debug))
		forget_names(frames, count, &unresolved);
	for (size_t i = 0; i < count; i++)
		if (!frames[i]->function)
			frames[i]->unresolved = unresolved;
	return !naming.failed;
}
