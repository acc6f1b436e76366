/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_LIVE_CURSES_H
#define FLMEM_CLI_LIVE_CURSES_H

/* ncurses, loaded only when a live view opens. */

#include <stdbool.h>

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>

#include <flmem/error.h>

/* From term.h, which also defines common words as macros. */
extern char *tigetstr(const char *name);

/* The functions used. */
#define LIVE_CURSES(X)        \
	X(cbreak)             \
	X(curs_set)           \
	X(delscreen)          \
	X(doupdate)           \
	X(endwin)             \
	X(getmaxx)            \
	X(getmaxy)            \
	X(has_colors)         \
	X(init_pair)          \
	X(keypad)             \
	X(newterm)            \
	X(nodelay)            \
	X(noecho)             \
	X(set_escdelay)       \
	X(start_color)        \
	X(tigetstr)           \
	X(use_default_colors) \
	X(waddnwstr)          \
	X(wattr_set)          \
	X(werase)             \
	X(wgetch)             \
	X(wmove)              \
	X(wnoutrefresh)

struct live_curses {
#define LIVE_CURSES_MEMBER(name) __typeof__ (&(name))(name);
	LIVE_CURSES(LIVE_CURSES_MEMBER)
#undef LIVE_CURSES_MEMBER
};

extern struct live_curses nc;

/* True if the library is present and complete; else `err` has what is missing. */
bool live_curses_load(struct flmem_error *err);

/* The whole screen. */
WINDOW *live_curses_screen(void);

#endif
