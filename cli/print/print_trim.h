/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_TRIM_H
#define FLMEM_CLI_PRINT_TRIM_H

/* What a trim released, in one phrase; shared by trim, its log, and watch. */

#include <flmem/trim.h>

#define RELEASE_MAX 512

/*
 * "501 MiB released, RSS 830 MiB -> 329 MiB"; if the program has taken much of it again, at least
 * what was seen to be released, and how much RSS has grown besides. For a trim that was made.
 */
const char *format_release(const struct flmem_trim_result *result, char out[RELEASE_MAX]);

#endif
