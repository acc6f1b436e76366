/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TRIM_CONDITION_CHECK_H
#define FLMEM_OPS_TRIM_CONDITION_CHECK_H

#include <sys/types.h>

#include <flmem/condition.h>

/*
 * Checks whether the condition is true for the process now. Reads only as much as the decision
 * needs, and borrows a thread only if no other read can decide it. *ret_why as for
 * flmem_condition_check().
 */
enum flmem_truth flmem_condition_holds(const struct flmem_condition *when, pid_t pid,
				       bool assume_seccomp, const char **ret_why);

#endif
