/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_TROUBLESHOOT_H
#define FLMEM_CLI_PRINT_TROUBLESHOOT_H

/* Prints the lists of `recommend --troubleshoot` as text. */

#include <stdio.h>

#include <flmem/troubleshoot.h>

/* Prints each list as numbered steps with state, evidence and next command. */
void print_troubleshooting(const struct flmem_troubleshoot_report *troubles, FILE *out);

#endif
