/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRESSURE_H
#define FLMEM_PRESSURE_H

/*
 * Memory pressure of a process's control group, as counted by the kernel: memory.events and
 * memory.pressure of version 2 (Documentation/admin-guide/cgroup-v2.rst, accounting/psi.rst), with
 * version 1 memory.failcnt and memory.oom_control. Counters increase for the lifetime of the group.
 */

#include <stdbool.h>

#include <flmem/value.h>

struct flmem_pressure {
	struct flmem_u64 high;	   /* times the kernel throttled it above its high mark */
	struct flmem_u64 max;	   /* times it reached its limit */
	struct flmem_u64 oom;	   /* times reclaim failed */
	struct flmem_u64 oom_kill; /* processes that the kernel killed */
	/* Share of the last 10 s in which some, or all, tasks waited for memory: 1/100 percent. */
	struct flmem_u64 some_avg10_hundredths;
	struct flmem_u64 full_avg10_hundredths;
	struct flmem_u64 some_total_us; /* total time in which some tasks waited for memory */
	/* The last three fields are those of the host, as the group has none. */
	bool stalls_of_host;
};

#endif
