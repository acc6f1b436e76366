/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/module_search.h"

#include <string.h>

#include "preload/sampler_state.h"

#define MARKER_MAX 64U

static const struct {
	char first;
	const char *rest;
	size_t length; /* length of the remaining text */
} marker_texts[] = {
#define MARKER_ROW(name, first, rest) {first, rest, sizeof(rest) - 1},
	FLMEM_MARKERS(MARKER_ROW)
#undef MARKER_ROW
};

static struct flmem_marker make_marker(size_t index, char text[MARKER_MAX])
{
	text[0] = marker_texts[index].first;
	memcpy(text + 1, marker_texts[index].rest, marker_texts[index].length);
	return (struct flmem_marker){text, marker_texts[index].length + 1};
}

static uint32_t find_all_markers(struct flmem_image *image)
{
	char texts[FLMEM_MARKER_COUNT][MARKER_MAX];
	struct flmem_marker markers[FLMEM_MARKER_COUNT];

	for (size_t i = 0; i < FLMEM_MARKER_COUNT; i++)
		markers[i] = make_marker(i, texts[i]);
	return flmem_image_find_markers(image, markers, FLMEM_MARKER_COUNT);
}

bool flmem_module_exports(const struct flmem_module *module, const char *name)
{
	struct flmem_image *image = flmem_module_image(module, NULL);

	return image && flmem_image_find_dynamic(image, name, &(struct flmem_symbol){0});
}

/* The exported names of the sampler prove nothing: any library may export them. */
bool flmem_module_is_sampler(const struct flmem_module *module)
{
	static const char expected[] = FLMEM_SAMPLER_MARK;
	struct flmem_image *image = flmem_module_image(module, NULL);
	struct flmem_symbol mark;
	char found[sizeof(expected)];

	return image && flmem_module_exports(module, FLMEM_SAMPLER_STATE_SYMBOL) &&
	       flmem_module_exports(module, FLMEM_SAMPLER_ORDER_SYMBOL) &&
	       flmem_image_find_dynamic(image, FLMEM_SAMPLER_MARK_SYMBOL, &mark) &&
	       flmem_image_read_address(image, mark.value, found, sizeof(found)) &&
	       memcmp(found, expected, sizeof(found)) == 0;
}

const struct flmem_module *flmem_modules_find_malloc(const struct flmem_modules *modules)
{
	for (size_t i = 0; i < modules->rank_count; i++)
		if (flmem_module_exports(modules->by_rank[i], "malloc") &&
		    !flmem_module_is_sampler(modules->by_rank[i]))
			return modules->by_rank[i];
	return NULL;
}

bool flmem_module_is_deep(const struct flmem_module *module)
{
	return module->main || (flmem_module_exports(module, "malloc") &&
				!flmem_module_exports(module, "__libc_start_main"));
}

struct flmem_recognition *flmem_module_recognition(const struct flmem_module *module)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	struct flmem_recognition *known = image ? flmem_image_note(image) : NULL;

	if (known && known->main == module->main)
		return known;
	known = image ? calloc(1, sizeof(*known)) : NULL;
	if (!known)
		return NULL;
	known->main = module->main;
	known->deep = flmem_module_is_deep(module);
	flmem_image_set_note(image, known);
	return known;
}

uint32_t flmem_module_markers(const struct flmem_module *module)
{
	struct flmem_recognition *known = flmem_module_recognition(module);

	if (!known || !known->deep)
		return 0;
	if (!known->has_markers) {
		known->markers = find_all_markers(flmem_module_image(module, NULL));
		known->has_markers = true;
	}
	return known->markers;
}

bool flmem_module_has_marker(const struct flmem_module *module, enum flmem_marker_index marker)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	char text[MARKER_MAX];
	struct flmem_marker bytes = make_marker(marker, text);

	if (flmem_module_markers(module) & 1U << marker)
		return true;
	return image && !flmem_module_is_deep(module) &&
	       flmem_image_find_bytes(image, bytes.bytes, bytes.length, 0) >= 0;
}

bool flmem_module_defines(const struct flmem_module *module, const char *name)
{
	struct flmem_recognition *known = flmem_module_recognition(module);
	struct flmem_image *image = flmem_module_image(module, NULL);

	if (!known || !image || !known->deep)
		return flmem_module_exports(module, name);
	return flmem_image_find_any(image, name, &(struct flmem_symbol){0});
}

bool flmem_module_is_static(const struct flmem_module *module)
{
	const struct flmem_image *image = flmem_module_image(module, NULL);

	return module->main && image && !flmem_image_has_interpreter(image);
}

/* A search for texts that follow a prefix. */
struct text_search {
	size_t lead_length;
	const char *accept;
	char *version;
};

static bool copy_marker_text(struct flmem_image *image, uint64_t offset, void *data)
{
	struct text_search *search = data;
	char text[FLMEM_ALLOCATOR_VERSION_MAX] = "";
	size_t length = sizeof(text) - 1;

	/* The text may be at the end of the file. */
	while (length && !flmem_image_read(image, offset + search->lead_length, text, length))
		length /= 2;
	text[length] = '\0';
	text[strspn(text, search->accept)] = '\0';
	if (!*text)
		return false;
	memcpy(search->version, text, sizeof(text));
	return true;
}

bool flmem_module_text_after_marker(const struct flmem_module *module,
				    enum flmem_marker_index marker, const char *accept,
				    char version[FLMEM_ALLOCATOR_VERSION_MAX])
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	char text[MARKER_MAX];
	struct flmem_marker lead = make_marker(marker, text);
	struct text_search search = {lead.length, accept, version};

	return image &&
	       flmem_image_search(image, lead.bytes, lead.length, copy_marker_text, &search);
}
