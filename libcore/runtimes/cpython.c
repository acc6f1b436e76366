/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

#define TRIES 64 /* limit of checked occurrences of a marker */

static bool is_interpreter(const struct flmem_module *module)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	struct flmem_symbol symbol;

	return image && flmem_image_find_dynamic(image, "Py_GetVersion", &symbol);
}

static const struct flmem_module *find_python_module(const struct flmem_modules *modules)
{
	const struct flmem_module *program = flmem_modules_main(modules);

	for (size_t i = 0; i < modules->count; i++) {
		const struct flmem_module *module = &modules->rows[i];

		if (flmem_text_starts(flmem_text_basename(module->path), "libpython") &&
		    is_interpreter(module))
			return module;
	}
	/* Try the program last: one that is linked to libpython may export a copy of a symbol. */
	return program && is_interpreter(program) ? program : NULL;
}

void flmem_cpython_set_version(struct flmem_cpython *python, uint32_t hex)
{
	static const struct {
		unsigned level;
		const char *text;
	} levels[] = {{0xa, "a"}, {0xb, "b"}, {0xc, "rc"}};
	unsigned level = hex >> 4 & 0xf, serial = hex & 0xf;
	int used;

	python->major = (int)(hex >> 24);
	python->minor = (int)(hex >> 16 & 0xff);
	python->micro = (int)(hex >> 8 & 0xff);
	python->pre_release = level != 0xf;
	used = snprintf(python->version, sizeof(python->version), "%d.%d.%d", python->major,
			python->minor, python->micro);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(levels); i++)
		if (level == levels[i].level)
			snprintf(python->version + used, sizeof(python->version) - (size_t)used,
				 "%s%u", levels[i].text, serial);
}

static bool read_version_symbol(struct flmem_image *image, struct flmem_cpython *python)
{
	struct flmem_symbol symbol;
	uint32_t hex;

	if (!flmem_image_find_dynamic(image, "Py_Version", &symbol) ||
	    !flmem_image_read_address(image, symbol.value, &hex, sizeof(hex)) || hex >> 24 < 3)
		return false;
	flmem_cpython_set_version(python, hex);
	return true;
}

/* Parses one or two digits and returns their end; NULL for none or more. */
static const char *parse_two_digits(const char *text, int *ret_number)
{
	int number = 0, digits = 0;

	for (; text[digits] >= '0' && text[digits] <= '9' && digits < 3; digits++)
		number = number * 10 + (text[digits] - '0');
	if (!digits || digits > 2)
		return NULL;
	*ret_number = number;
	return text + digits;
}

/* Parses "2.7" or "3.9" after a name like libpython or python; `rest` is the text after it. */
static const char *parse_series(const char *text, struct flmem_cpython *python)
{
	int major, minor;

	text = parse_two_digits(text, &major);
	if (!text || *text != '.')
		return NULL;
	text = parse_two_digits(text + 1, &minor);
	if (!text || (major != 2 && major != 3))
		return NULL;
	python->major = major;
	python->minor = minor;
	return text;
}

static bool find_series_in_name(const char *name, struct flmem_cpython *python)
{
	static const char *const starts[] = {"libpython", "python"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(starts); i++)
		if (flmem_text_starts(name, starts[i]) &&
		    parse_series(name + strlen(starts[i]), python))
			return true;
	return false;
}

/*
 * Finds the series in a text of the interpreter, the name of its library directory: "lib/python3.9"
 * or "python3.9".
 */
static bool find_series_in_text(struct flmem_image *image, struct flmem_cpython *python)
{
	static const char marker[] = "python";
	int64_t at = 0;

	for (int i = 0; i < TRIES; i++) {
		char text[16] = "";
		const char *rest;

		at = flmem_image_find_bytes(image, marker, strlen(marker), (uint64_t)at);
		if (at < 0)
			return false;
		at += (int64_t)strlen(marker);
		if (!flmem_image_read(image, (uint64_t)at, text, sizeof(text) - 1))
			continue;
		rest = parse_series(text, python);
		if (rest && !*rest)
			return true;
	}
	python->major = python->minor = 0;
	return false;
}

/*
 * Parses what follows "3.9." in memory: the micro version and "+", "a1", "b1" or "rc1", then a NUL.
 */
static bool parse_micro(const char *text, int *ret_micro)
{
	const char *rest = parse_two_digits(text, ret_micro);

	if (!rest)
		return false;
	if (*rest == '+')
		rest++;
	rest += strspn(rest, "abrc");
	rest += strspn(rest, "0123456789");
	return !*rest;
}

/*
 * Reads the micro version. PY_VERSION is a separate string, but the linker may have stored it as
 * the end of a longer one (a prefix like /opt/3.9.18). Texts about other releases look the same, so
 * the result counts only if it is unique.
 */
static void read_micro(struct flmem_image *image, struct flmem_cpython *python)
{
	char marker[16], found[16] = "";
	int64_t at = 0;
	int micro = -1;

	snprintf(marker, sizeof(marker), "%d.%d.", python->major, python->minor);
	for (int i = 0; i < TRIES; i++) {
		char text[12] = "";
		int number;

		at = flmem_image_find_bytes(image, marker, strlen(marker), (uint64_t)at);
		if (at < 0)
			break;
		at += (int64_t)strlen(marker);
		if (!flmem_image_read(image, (uint64_t)at, text, sizeof(text) - 1) ||
		    !parse_micro(text, &number) || strcmp(text, found) == 0)
			continue;
		if (found[0])
			return;
		snprintf(found, sizeof(found), "%s", text);
		micro = number;
	}
	if (micro < 0)
		return;
	python->micro = micro;
	snprintf(python->version, sizeof(python->version), "%s%s", marker, found);
}

bool flmem_cpython_find(const struct flmem_view *view, struct flmem_cpython *ret_python)
{
	struct flmem_cpython python = {.micro = -1};
	struct flmem_image *image;

	python.module = find_python_module(view->modules);
	image = python.module ? flmem_module_image(python.module, NULL) : NULL;
	if (!image)
		return false;
	if (!read_version_symbol(image, &python) &&
	    (find_series_in_name(flmem_text_basename(python.module->path), &python) ||
	     find_series_in_text(image, &python))) {
		snprintf(python.version, sizeof(python.version), "%d.%d", python.major,
			 python.minor);
		read_micro(image, &python);
	}
	*ret_python = python;
	return true;
}
