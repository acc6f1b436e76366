/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_DETECT_ARGV_ENV_H
#define FLMEM_OPS_DETECT_DETECT_ARGV_ENV_H

/* The part of a report that comes from the command line and the environment of a process. */

#include <stdbool.h>

#include <flmem/detect.h>
#include <flmem/error.h>

struct flmem_relatives;
struct flmem_process;

/*
 * Reads the command line (redacted), the framework and role that it and the environment show, the
 * settings, and the directory of temporary files. `*ret_denied`: the caller has no access to the
 * environment, so the report lacks settings, and a role that only the environment shows.
 */
int flmem_detect_argv_env(const struct flmem_process *process, struct flmem_relatives *relatives,
			  struct flmem_process_report *report, bool *ret_denied,
			  struct flmem_error *err);

#endif
