/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Builds libflmem_scrub.so, for `flmem start --no-inherit-preload`. It is the last entry of
 * LD_PRELOAD, after the library it belongs to. Before main() it removes both entries from the
 * environment, so that the program runs with that library and its children start without it.
 *
 * It uses no library function at all: it must load into a program with any C library.
 */

#include <stddef.h>

#include "preload/wrappers.h"

#define NAME	 "libflmem_scrub.so"
#define VARIABLE "LD_PRELOAD="

/* This names the current environment, which another constructor may have moved. */
extern char **environ __attribute__((weak));

static size_t text_length(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

static int starts_with(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix)
		text++, prefix++;
	return !*prefix;
}

static int is_equal_text(const char *a, const char *b)
{
	return starts_with(a, b) && !a[text_length(b)];
}

static const char *file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

/*
 * Returns whether the program is a wrapper (env, nice): it executes another program, which needs
 * the entries.
 */
static int is_wrapper_name(const char *program)
{
	static const char names[][16] = {
#define WRAPPER_NAME(name) name,
		FLMEM_WRAPPERS(WRAPPER_NAME)
#undef WRAPPER_NAME
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_equal_text(file_name(program), names[i]))
			return 1;
	return 0;
}

static size_t find_entry_start(const char *list, size_t end)
{
	while (end && list[end - 1] != ':' && list[end - 1] != ' ')
		end--;
	return end;
}

/*
 * Cuts the list before the last two entries. Returns 1 when the list is then empty, 0 when it is
 * unchanged.
 */
static int cut_entries(char *list)
{
	size_t own = find_entry_start(list, text_length(list));
	size_t library = own ? find_entry_start(list, own - 1) : 0;

	if (!own || !is_equal_text(file_name(list + own), NAME))
		return 0;
	if (!library)
		return 1;
	list[library - 1] = '\0';
	return 0;
}

static void clean_environment(char **environment)
{
	char **kept = environment;

	if (!environment)
		return;
	for (; *environment; environment++)
		if (!starts_with(*environment, VARIABLE) ||
		    !cut_entries(*environment + sizeof(VARIABLE) - 1))
			*kept++ = *environment;
	*kept = NULL;
}

/* glibc passes main()'s arguments to the constructors of libraries, too. */
__attribute__((constructor)) static void scrub_preload(int argc, char **argv, char **environment)
{
	if (argc > 0 && is_wrapper_name(argv[0]))
		return;
	clean_environment(environment);
	if (&environ && environ != environment)
		clean_environment(environ);
}
