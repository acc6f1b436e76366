/* SPDX-License-Identifier: Apache-2.0 */
#include "live/live_curses.h"

#include <flmem/plugin.h>

struct live_curses nc;
static WINDOW **screen;

static const struct flmem_plugin live_curses_plugin = {
	.sonames = {"libncursesw.so.6"},
	.missing = "the live view needs ncurses (Debian: libncursesw6)",
};

#define LIVE_CURSES_ROW(name) {.names = {#name}, .slot = &nc.name},
static const struct flmem_plugin_symbol live_curses_symbols[] = {
	{.names = {"stdscr"}, .slot = &screen}, LIVE_CURSES(LIVE_CURSES_ROW)};
#undef LIVE_CURSES_ROW

bool live_curses_load(struct flmem_error *err)
{
	return !flmem_plugin_load(&live_curses_plugin, live_curses_symbols,
				  sizeof(live_curses_symbols) / sizeof(live_curses_symbols[0]),
				  NULL, err);
}

WINDOW *live_curses_screen(void)
{
	return *screen;
}
