/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OOM_H
#define FLMEM_OOM_H

/*
 * What a kernel's log says of processes that it has killed for want of memory: the text of dmesg or
 * of journalctl -k, of kernels 3.10 to 6.18, whatever stands in front of the lines. Names and paths
 * are untrusted text: escape before printing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/value.h>

#define FLMEM_OOM_NAME_MAX  64	/* the kernel's are 15 bytes, escaped by dmesg */
#define FLMEM_OOM_GROUP_MAX 256 /* of the path; longer ones are cut */

/* One report, down to the line "Killed process". */
struct flmem_oom_kill {
	unsigned line; /* of the text */
	pid_t pid;
	char name[FLMEM_OOM_NAME_MAX];
	bool of_group;			 /* a control group met its limit; else the host did */
	char group[FLMEM_OOM_GROUP_MAX]; /* that one; "": not told */
	/* Of the process that was killed. */
	struct flmem_u64 total_vm_bytes, anon_bytes, file_bytes, shmem_bytes;
	/* Of the group. */
	struct flmem_u64 usage_bytes, limit_bytes;
	/* The tasks that it could choose from, and the share of their resident pages it held. */
	struct flmem_u64 tasks, share_percent;
};

struct flmem_oom_log {
	struct flmem_oom_kill last; /* of memory.oom.group, the one that was chosen */
	size_t kills;		    /* all that the text tells of */
};

#endif
