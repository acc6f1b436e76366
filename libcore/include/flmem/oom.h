/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OOM_H
#define FLMEM_OOM_H

/*
 * Results of reading logs for memory that ran out. A kernel log is the text of dmesg or journalctl
 * -k, of kernels 3.10 to 6.18, with any line prefix; it reports processes that the kernel killed.
 * The log of a job reports GPU memory that ran out. Names and paths are untrusted text: escape
 * before printing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/value.h>

#define FLMEM_OOM_NAME_MAX  64	/* the kernel limits names to 15 bytes; dmesg escapes them */
#define FLMEM_OOM_GROUP_MAX 256 /* buffer for the path of a control group; longer paths are cut */

/* One report of a kill, up to its line "Killed process". */
struct flmem_oom_kill {
	unsigned line; /* line number in the text, from 1 */
	pid_t pid;
	char name[FLMEM_OOM_NAME_MAX];
	bool of_group; /* a control group reached its limit; else the host is out of memory */
	char group[FLMEM_OOM_GROUP_MAX]; /* path of the control group; "": not in the log */
	/* Memory of the killed process. */
	struct flmem_u64 total_vm_bytes, anon_bytes, file_bytes, shmem_bytes;
	/* Use and limit of the control group. */
	struct flmem_u64 usage_bytes, limit_bytes;
	/*
	 * Number of candidate tasks, and the share of the killed process in their resident pages.
	 */
	struct flmem_u64 tasks, share_percent;
};

struct flmem_oom_log {
	struct flmem_oom_kill last; /* the last kill; with memory.oom.group the chosen process */
	size_t kills;		    /* number of kills in the text */
};

/*
 * Reports of PyTorch's "CUDA out of memory", in both of its forms, or of the CUDA runtime's error,
 * which has no figures.
 */
struct flmem_gpu_oom {
	size_t count;  /* number of lines that report it */
	unsigned line; /* line number of the last report, which the other fields describe */
	struct flmem_u64 device;
	struct flmem_u64 tried_bytes, total_bytes, free_bytes;
	/* PyTorch's memory on the device: in tensors; in its pool but unused. */
	struct flmem_u64 allocated_bytes, unused_bytes;
};

#endif
