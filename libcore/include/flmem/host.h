/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HOST_H
#define FLMEM_HOST_H

/* What this host offers: the report of `flmem detect` without a target. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/roles.h>
#include <flmem/value.h>

/* An allocator library that is installed and could be preloaded. */
struct flmem_installed_allocator {
	enum flmem_allocator_kind kind;
	char *path;
};

struct flmem_gpu {
	char *name;
	struct flmem_u64 total_bytes;
	struct flmem_u64 used_bytes;
};

/* One row of the platform table: a feature, whether it works here, and why (not). */
struct flmem_feature {
	const char *name; /* static */
	bool works;
	const char *why; /* static */
};

struct flmem_host_report {
	char *libc;	    /* "glibc", "musl" */
	char *libc_version; /* "2.36" */
	char *kernel;	    /* "6.1.0-18-amd64" */
	char *architecture; /* "x86_64" */
	struct flmem_u64 page_bytes;
	char *thp_mode; /* always, madvise, never; NULL: kernel without it */
	struct flmem_u64 memory_total_bytes;
	struct flmem_u64 memory_available_bytes;
	struct flmem_u64 swap_total_bytes;
	struct flmem_u64 swap_free_bytes;
	struct flmem_u64 cgroup_max_bytes;
	struct flmem_u64 cgroup_used_bytes;
	int yama_level;	   /* 0..3, -1: this kernel has no Yama */
	bool may_trim_own; /* processes of this user */
	bool may_trim_others;
	const char *trim_why; /* static: what decides it, and how to open it */
	struct flmem_installed_allocator *installed;
	size_t installed_count;
	char *gpu_driver;	 /* version, or NULL */
	const char *gpu_unknown; /* static: why no GPU is listed, or NULL */
	struct flmem_gpu *gpus;
	size_t gpu_count;
	struct flmem_feature *features;
	size_t feature_count;
};

FLMEM_API int flmem_host_read(struct flmem_host_report *ret_report, struct flmem_error *err);

FLMEM_API void flmem_host_report_clear(struct flmem_host_report *report);

#endif
