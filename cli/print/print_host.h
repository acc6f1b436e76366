/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_HOST_H
#define FLMEM_CLI_PRINT_HOST_H

#include <stdio.h>

#include <flmem/host.h>

/* Prints the report of the host as text for people. */
void print_host(const struct flmem_host_report *host, FILE *out);

#endif
