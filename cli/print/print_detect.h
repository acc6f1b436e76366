/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_DETECT_H
#define FLMEM_CLI_PRINT_DETECT_H

#include <stdio.h>

#include <flmem/detect.h>

/* Prints one process as a screen of text, several as a table. */
void print_detect(const struct flmem_detect_report *report, FILE *out);

#endif
