/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_PRINT_JSON_H
#define FLMEM_CLI_PRINT_PRINT_JSON_H

#include <flmem/error.h>

/*
 * Prints and frees a report of flmem_report_*_json(). A NULL text means that memory is out: returns
 * FLMEM_EFAILED.
 */
int print_json(char *text, struct flmem_error *err);

#endif
