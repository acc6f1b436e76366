/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_CORRECTIONS_H
#define FLMEM_CLI_CORRECTIONS_H

/* Writes the files of recommend --fix. */

#include <flmem/recommend.h>

#include "cmd.h"

/*
 * Writes all files that can be written. Returns 0, the common code if all failed alike, or
 * FLMEM_EPARTLY.
 */
int corrections_write(const struct cmd *cmd, const struct flmem_corrections *corrections);

#endif
