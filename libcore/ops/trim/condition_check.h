/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TRIM_CONDITION_CHECK_H
#define FLMEM_OPS_TRIM_CONDITION_CHECK_H

#include <sys/types.h>

#include <flmem/condition.h>

/*
 * Whether the condition holds for the process now. Reads only as much as is needed to decide, and
 * borrows a thread only for what nothing else can tell. *ret_why as for flmem_condition_check().
 */
enum flmem_truth flmem_condition_holds(const struct flmem_condition *when, pid_t pid,
				       bool assume_seccomp, const char **ret_why);

#endif
