/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_LIVE_RESTORE_H
#define FLMEM_CLI_LIVE_RESTORE_H

/*
 * Restores the terminal if a signal that curses does not handle ends the process. Otherwise the
 * terminal would keep echo off, the alternate screen and a hidden cursor.
 */

/* Saves the terminal settings and installs handlers. Call before curses initialises. */
void live_restore_prepare(void);

/* From now on the handlers also leave the alternate screen. Call after curses has initialised. */
void live_restore_arm(void);

/* Removes the handlers. Call after curses has restored the terminal. */
void live_restore_disarm(void);

#endif
