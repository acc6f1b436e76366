/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OUTPUT_PLACE_H
#define FLMEM_OUTPUT_PLACE_H

/*
 * Checks places for files that a command writes after long work. Any thread may call this; nothing
 * is kept.
 */

#include <flmem/error.h>

/*
 * Checks the folder of a file that is to be written. FLMEM_EFAILED if it is on a file system whose
 * server does not respond: a write would block forever. Any other error is left to the writer. The
 * folder may stop responding later.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_output_place_check(const char *path, struct flmem_error *err);

#endif
