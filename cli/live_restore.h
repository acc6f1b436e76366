/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_LIVE_RESTORE_H
#define FLMEM_CLI_LIVE_RESTORE_H

/*
 * Gives the terminal back when a signal ends the process that curses does not see: it would be left
 * without echo, on another screen, without a cursor.
 */

/* Remembers the terminal as it is, and watches for signals. Before curses takes the terminal. */
void live_restore_prepare(void);

/* The signals also leave the other screen; once curses knows the terminal. */
void live_restore_arm(void);

/* All is as it was before. After curses has given the terminal back. */
void live_restore_disarm(void);

#endif
