/* SPDX-License-Identifier: Apache-2.0 */
#include "live_curses.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define LIBRARY "libncursesw.so.6"

struct live_curses nc;
static WINDOW **screen;

#define LIVE_CURSES_ROW(name) {#name, offsetof(struct live_curses, name)},
static const struct {
	const char *name;
	size_t offset;
} rows[] = {LIVE_CURSES(LIVE_CURSES_ROW)};
#undef LIVE_CURSES_ROW

bool live_curses_load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
	screen = (WINDOW **)dlsym(library, "stdscr");
	for (size_t i = 0; screen && i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *function = dlsym(library, rows[i].name);

		if (!function)
			return false;
		memcpy((char *)&nc + rows[i].offset, &function, sizeof(function));
	}
	return screen;
}

WINDOW *live_curses_screen(void)
{
	return *screen;
}
