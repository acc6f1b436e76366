/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_EXCHANGE_H
#define FLMEM_CLI_PRINT_EXCHANGE_H

#include <flmem/exchange_client.h>

/* Prints the state of an exchange on stdout. */
void print_exchange_status(const struct flmem_exchange_status *status);

#endif
