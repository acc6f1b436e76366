/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_DETECT_ARGV_ENV_H
#define FLMEM_OPS_DETECT_DETECT_ARGV_ENV_H

/* The part of a report that is told by the words that a process was started with. */

#include <stdbool.h>

#include <flmem/detect.h>
#include <flmem/error.h>

struct flmem_relatives;
struct flmem_process;

/*
 * Reads its command line, redacted, who it is by that and by its environment, its settings, and
 * where its temporary files go. `*ret_denied`: the caller may not read its environment, so that the
 * report is not told of settings, and the role may lack what only the environment tells.
 */
int flmem_detect_argv_env(const struct flmem_process *process, struct flmem_relatives *relatives,
			  struct flmem_process_report *report, bool *ret_denied,
			  struct flmem_error *err);

#endif
