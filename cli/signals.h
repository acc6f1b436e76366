/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_SIGNALS_H
#define FLMEM_CLI_SIGNALS_H

/* Sets the signal dispositions of flmem itself. */

/* Ignores SIGPIPE and SIGXFSZ: a closed pipe and a limit (ulimit -f) are failed writes. */
void signals_prepare(void);

/*
 * Blocks SIGINT and SIGTERM and returns a descriptor from which they can be read; -1 if the kernel
 * refuses.
 */
int signals_catch_end(void);

/* Restores the dispositions that flmem inherited. Call before exec. */
void signals_restore(void);

#endif
