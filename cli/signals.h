/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_SIGNALS_H
#define FLMEM_CLI_SIGNALS_H

/* The process's own signal dispositions. */

/* A closed pipe is reported like any other failed write, never by a signal in mid-work. */
void signals_prepare(void);

/*
 * Makes the signals that ask for an end (SIGINT, SIGTERM) readable on the descriptor that is
 * returned, instead of acted on; -1 where the kernel refuses.
 */
int signals_catch_end(void);

/*
 * Puts the dispositions back that flmem was started with. To be called before it becomes another
 * program.
 */
void signals_restore(void);

#endif
