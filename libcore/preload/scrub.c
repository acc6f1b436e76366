/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libflmem_scrub.so, for `flmem start --no-inherit-preload`. It stands last in LD_PRELOAD, behind
 * the library it belongs to. Before main() it takes both entries out of the environment again, so
 * that the program runs with that library and its children start without it.
 *
 * It uses no library function at all: it must load into whatever the program was built with.
 */

#include <stddef.h>

#include "preload/wrappers.h"

#define NAME	 "libflmem_scrub.so"
#define VARIABLE "LD_PRELOAD="

/* Another constructor may have moved the environment already. */
extern char **environ __attribute__((weak));

static size_t length_of(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

static int starts(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix)
		text++, prefix++;
	return !*prefix;
}

static int same(const char *a, const char *b)
{
	return starts(a, b) && !a[length_of(b)];
}

static const char *file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

/* A program that becomes another one keeps the entries for that one. */
static int is_wrapper(const char *program)
{
	static const char names[][16] = {
#define WRAPPER_NAME(name) name,
		FLMEM_WRAPPERS(WRAPPER_NAME)
#undef WRAPPER_NAME
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (same(file_name(program), names[i]))
			return 1;
	return 0;
}

static size_t entry_start(const char *list, size_t end)
{
	while (end && list[end - 1] != ':' && list[end - 1] != ' ')
		end--;
	return end;
}

/* Cuts the list in front of the last two entries; 1 when nothing is left, 0 when it stays. */
static int cut(char *list)
{
	size_t own = entry_start(list, length_of(list));
	size_t library = own ? entry_start(list, own - 1) : 0;

	if (!own || !same(file_name(list + own), NAME))
		return 0;
	if (!library)
		return 1;
	list[library - 1] = '\0';
	return 0;
}

static void clean(char **environment)
{
	char **kept = environment;

	if (!environment)
		return;
	for (; *environment; environment++)
		if (!starts(*environment, VARIABLE) || !cut(*environment + sizeof(VARIABLE) - 1))
			*kept++ = *environment;
	*kept = NULL;
}

/* glibc hands main()'s arguments to the constructors of libraries too. */
__attribute__((constructor)) static void scrub(int argc, char **argv, char **environment)
{
	if (argc > 0 && is_wrapper(argv[0]))
		return;
	clean(environment);
	if (&environ && environ != environment)
		clean(environ);
}
