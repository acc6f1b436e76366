/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_pinned_version.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "frameworks/files.h"

#define LISTED_BYTES_MAX 65536U

/* The pinned versions found so far. */
struct pinned_release {
	const char *package;
	struct flmem_version_number release;
	bool differ;
};

/* Returns the text after the name of the package and "[extras]"; NULL if this is another name. */
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

/*
 * Returns the place of a version after "==", "~=", or "=" of conda and poetry; NULL if there is
 * none, or a range.
 */
static const char *behind_operator(const char *text)
{
	if (flmem_text_starts(text, "==") || flmem_text_starts(text, "~="))
		text += 2;
	else if (*text == '=')
		text++;
	else
		return NULL;
	text += strspn(text, " ");
	return text + (*text == '"' || *text == '\'');
}

/* Notes a pin such as "== 2.9.0"; for "==2.9.*" and "~=2.9.0" the last part is unknown. */
static void note_pin(struct pinned_release *pins, const char *text)
{
	bool compatible = *text == '~';
	struct flmem_version_number found;
	char version[32];
	size_t length;

	text = behind_operator(text);
	length = text ? strspn(text, "0123456789.") : 0;
	if (!length || length >= sizeof(version))
		return;
	snprintf(version, sizeof(version), "%.*s", (int)length, text);
	if (compatible && strrchr(version, '.'))
		*strrchr(version, '.') = '\0';
	if (flmem_version_number_parse(version, &found, NULL) || found.count < 2)
		return;
	pins->differ |=
		pins->release.count && flmem_version_number_compare(&pins->release, &found) != 0;
	if (found.count > pins->release.count)
		pins->release = found;
}

static void note_line_pins(struct pinned_release *pins, const char *text, const char *line,
			   size_t length)
{
	size_t name = strlen(pins->package);

	if (line[strspn(line, " \t")] == '#')
		return;
	for (size_t i = 0; i + name < length; i++) {
		const char *behind = strncasecmp(line + i, pins->package, name) == 0
					     ? behind_name(text, line + i, pins->package)
					     : NULL;

		if (behind)
			note_pin(pins, behind);
	}
}

static void note_pins(struct pinned_release *pins, const char *text)
{
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");

		note_line_pins(pins, text, line, length);
		line += length + (line[length] == '\n');
	}
}

/* Notes the pins of a list beside the files, which has no rules itself. */
static void note_listed_pins(struct pinned_release *pins, const char *folder, const char *name)
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
	struct pinned_release pins = {.package = package};

	for (size_t i = 0; i < bundle->count; i++)
		note_pins(&pins, bundle->inputs[i].document.text.data);
	for (size_t i = 0; i < bundle->other_count; i++)
		note_pins(&pins, bundle->others[i].document.text.data);
	for (size_t i = 0; folder && i < FLMEM_ARRAY_SIZE(lists); i++)
		note_listed_pins(&pins, folder, lists[i]);
	return pins.differ ? (struct flmem_version_number){0} : pins.release;
}
