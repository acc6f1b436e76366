/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_SERVER_OPTIONS_H
#define FLMEM_OPS_EXCHANGE_SERVER_OPTIONS_H

/*
 * Checks the options of a server: that they are valid, and the same as those of the state
 * directory.
 */

#include "ops/exchange/server/server_state.h"

int flmem_exchange_check_options(const struct flmem_exchange_serve_options *options,
				 struct flmem_error *err);

/* FLMEM_EUSAGE if the state directory is of a server with other options. */
int flmem_exchange_compare_options(struct flmem_exchange *x, struct flmem_error *err);

/* Writes the options to the state directory, once they are known to work. */
int flmem_exchange_keep_options(struct flmem_exchange *x, struct flmem_error *err);

/* Reads the files with tokens and with names of certificates. */
int flmem_exchange_read_credentials(struct flmem_exchange *x, struct flmem_error *err);

#endif
