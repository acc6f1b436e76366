/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_CPU_QUOTA_H
#define FLMEM_PROC_LIMITS_CPU_QUOTA_H

/*
 * Limits of processor time of control groups (cpu.max of version 2, cpu.cfs_quota_us of version 1).
 * A group that has used its quota gets no processor until the next period.
 */

#include <stdbool.h>
#include <stdint.h>

struct flmem_process;

struct flmem_cpu_quota {
	uint64_t least_us; /* the smallest quota of the groups; UINT64_MAX: none is visible */
	uint64_t longest_period_us; /* of the groups that have a quota; 0: none has */
};

/* Reads the quotas of the process's groups. The mounts are those below `rootfd`. */
struct flmem_cpu_quota flmem_cpu_quota_read(int rootfd, const struct flmem_process *process);

/* The same for the calling process. */
struct flmem_cpu_quota flmem_cpu_quota_read_own(void);

/*
 * Returns true if the groups of version 1 give real-time threads of the process a budget
 * (cpu.rt_runtime_us); a thread that has used it gets no processor until the next period.
 */
bool flmem_cpu_quota_limits_real_time(int rootfd, const struct flmem_process *process);

/* The same for the calling process; true, too, if that cannot be read. */
bool flmem_cpu_quota_limits_own_real_time(void);

#endif
