/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_TRIM_H
#define FLMEM_CLI_PRINT_TRIM_H

/* Describes what a trim released, in one phrase that trim, its log, and watch share. */

#include <flmem/trim.h>

#define RELEASE_MAX 512

/*
 * Describes a trim that was made: "501 MiB released, RSS 830 MiB -> 329 MiB". If the program has
 * allocated much of it again, the phrase has the release that was measured ("at least"), and the
 * memory that the program has taken meanwhile.
 */
const char *format_release(const struct flmem_trim_result *result, char out[RELEASE_MAX]);

#endif
