/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRESSURE_H
#define FLMEM_PRESSURE_H

/*
 * How short of memory a process's control group is, as the kernel counts it: memory.events and
 * memory.pressure of version 2 (Documentation/admin-guide/cgroup-v2.rst, accounting/psi.rst), with
 * version 1 memory.failcnt and memory.oom_control. Counters go up for as long as the group is
 * there.
 */

#include <stdbool.h>

#include <flmem/value.h>

struct flmem_pressure {
	struct flmem_u64 high;	   /* times it was throttled above its high mark */
	struct flmem_u64 max;	   /* times it ran into its limit */
	struct flmem_u64 oom;	   /* times nothing could be reclaimed there */
	struct flmem_u64 oom_kill; /* processes that the kernel killed for it */
	/* Share of the last 10 s in which some, or all, tasks waited for memory: 1/100 percent. */
	struct flmem_u64 some_avg10_hundredths;
	struct flmem_u64 full_avg10_hundredths;
	struct flmem_u64 some_total_us; /* all such time so far */
	bool stalls_of_host;		/* the last three are the host's, for the group has none */
};

#endif
