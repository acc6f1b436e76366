/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_HELP_H
#define FLMEM_CLI_HELP_H

/* Help texts, all made from the command and option tables. Each returns exit status 0. */

#include <stdio.h>

struct cmd;

int help_overview(FILE *out);
int help_command(const struct cmd *cmd, FILE *out);
int help_exit_codes(FILE *out);

#endif
