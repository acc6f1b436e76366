/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_TRIM_H
#define FLMEM_CLI_PRINT_TRIM_H

/* Describes what a trim released, in one phrase that trim, its log, and watch share. */

#include <flmem/trim.h>

#define RELEASE_MAX 512

/*
 * Describes a trim that was made: "501 MiB released, RSS 830 MiB -> 329 MiB". If the program has
 * taken much of it again, this names at least what was seen to be released, and how much RSS has
 * grown besides.
 */
const char *format_release(const struct flmem_trim_result *result, char out[RELEASE_MAX]);

#endif
