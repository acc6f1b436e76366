/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_LIVE_CURSES_H
#define FLMEM_CLI_LIVE_CURSES_H

/* Declares ncurses, which is loaded only when a live view opens. */

#include <stdbool.h>

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>

#include <flmem/error.h>

/* These are declared here because term.h also defines common words as macros. */
extern char *tigetstr(const char *name);

/* X(name): the functions that are used. */
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

/* Loads the library. Returns true if it is present and complete; else `err` has what is missing. */
bool live_curses_load(struct flmem_error *err);

/* Returns the window of the whole screen. */
WINDOW *live_curses_screen(void);

#endif
