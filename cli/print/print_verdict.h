/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_VERDICT_H
#define FLMEM_CLI_PRINT_VERDICT_H

#include <stdio.h>

#include <flmem/detect.h>

/* Prints a bar of RSS by class, then the verdict, its reasons, and the next commands. */
void print_verdict(const struct flmem_process_report *report, FILE *out);

#endif
