/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_GROUP_PEAK_H
#define FLMEM_PROC_LIMITS_GROUP_PEAK_H

/*
 * Measures the highest memory of a control group between two moments, exactly, because the kernel
 * counts it: memory.peak of version 2. Since Linux 6.12 a write resets it for later reads through
 * the same descriptor only (Documentation/admin-guide/cgroup-v2.rst, "memory.peak"), so no other
 * process sees the reset. The peak includes all processes of the group, their page cache and what
 * the kernel charges.
 */

#include <stdbool.h>

#include <flmem/value.h>

#include "base/cleanup.h"

struct flmem_cgroups;
struct flmem_process;

struct flmem_group_peak {
	int fd;		     /* descriptor of memory.peak; -1: none */
	const char *unknown; /* static: why there is none, or NULL */
	bool reset;	     /* the peak was reset since it was opened */
};

#define FLMEM_GROUP_PEAK_INIT                                               \
	{                                                                   \
		.fd = -1, .unknown = "only a live watch of rounds reads it" \
	}

/*
 * Opens the peak of the process's group. It never fails: a peak that cannot be opened for resetting
 * is unknown with its reason.
 */
void flmem_group_peak_open(struct flmem_cgroups *cgroups, const struct flmem_process *process,
			   struct flmem_group_peak *ret_peak);

void flmem_group_peak_close(struct flmem_group_peak *peak);

#define FLMEM_AUTO_GROUP_PEAK FLMEM_AUTO(flmem_group_peak_close)

/* Restarts from the current memory of the group. A peak that cannot be reset is closed. */
void flmem_group_peak_reset(struct flmem_group_peak *peak);

/* Reads the peak since the last reset. */
struct flmem_u64 flmem_group_peak_read(const struct flmem_group_peak *peak);

#endif
