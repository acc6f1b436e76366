/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_release.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "frameworks/files.h"

#define LISTED_BYTES_MAX 65536U

/* The pins that were found so far. */
struct pins {
	const char *package;
	struct flmem_version_number release;
	bool differ;
};

/* Behind the name of the package and "[extras]"; NULL: another name. */
static const char *behind_name(const char *text, const char *at, const char *package)
{
	static const char others[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

	if (at > text && strchr(others, at[-1]))
		return NULL;
	at += strlen(package);
	if (*at == '[')
		at += strcspn(at, "]\n");
	at += *at == ']';
	return at + strspn(at, " ");
}

/* "== 2.9.0", which "==2.9.*" is no single version of. */
static void note_pin(struct pins *pins, const char *text)
{
	char version[32];
	struct flmem_version_number found;
	size_t length;

	if (!flmem_text_starts(text, "=="))
		return;
	text += 2 + strspn(text + 2, " ");
	length = strspn(text, "0123456789.");
	if (!length || length >= sizeof(version) || text[length] == '*')
		return;
	snprintf(version, sizeof(version), "%.*s", (int)length, text);
	if (flmem_version_number_parse(version, &found, NULL))
		return;
	pins->differ |=
		pins->release.count && flmem_version_number_compare(&pins->release, &found) != 0;
	pins->release = found;
}

static void note_line_pins(struct pins *pins, const char *text, const char *line, size_t length)
{
	const char *at = line, *end = line + length;

	if (line[strspn(line, " \t")] == '#')
		return;
	while ((at = memmem(at, (size_t)(end - at), pins->package, strlen(pins->package)))) {
		const char *behind = behind_name(text, at, pins->package);

		if (behind && *behind == '=')
			note_pin(pins, behind);
		at += strlen(pins->package);
	}
}

static void note_pins(struct pins *pins, const char *text)
{
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");

		note_line_pins(pins, text, line, length);
		line += length + (line[length] == '\n');
	}
}

/* A list beside the files, which has no rules itself. */
static void note_listed_pins(struct pins *pins, const char *folder, const char *name)
{
	FLMEM_AUTO_FILE_PLACE struct flmem_file_place place = FLMEM_FILE_PLACE_INIT;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_FREE char *path = NULL;
	FLMEM_AUTO_CLOSE int fd = -1;
	struct stat status;

	if (asprintf(&path, "%s/%s", folder, name) < 0) {
		path = NULL;
		return;
	}
	if (flmem_file_place_open(path, &place))
		return;
	fd = flmem_file_place_open_regular(place.directory, place.name, O_RDONLY, &status);
	if (fd >= 0 && !flmem_io_read_all(fd, LISTED_BYTES_MAX, &text))
		note_pins(pins, text.data);
}

struct flmem_version_number flmem_recommend_pinned(const struct flmem_bundle *bundle,
						   const char *file, const char *package)
{
	static const char *const lists[] = {"requirements.txt", "pyproject.toml", "environment.yml",
					    "environment.yaml", "Dockerfile"};
	FLMEM_AUTO_FREE char *folder = flmem_file_folder(file);
	struct pins pins = {.package = package};

	for (size_t i = 0; i < bundle->count; i++)
		note_pins(&pins, bundle->inputs[i].document.text.data);
	for (size_t i = 0; i < bundle->other_count; i++)
		note_pins(&pins, bundle->others[i].document.text.data);
	for (size_t i = 0; folder && i < FLMEM_ARRAY_SIZE(lists); i++)
		note_listed_pins(&pins, folder, lists[i]);
	return pins.differ ? (struct flmem_version_number){0} : pins.release;
}
