/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HOST_H
#define FLMEM_HOST_H

/*
 * Facts and features of this host: the report of `flmem detect` without a target. All entries are
 * read or tested at the time of the call; running processes are not touched. Release the report
 * with its clear function.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/inventory.h>
#include <flmem/roles.h>
#include <flmem/value.h>

/* Permission for an operation on this host; the texts are static. */
struct flmem_permission {
	bool allowed;
	const char *why;
	const char *remedy; /* how to permit the operation; NULL if it is allowed */
};

/* A row of the platform table: a feature, whether it works here, and the reason. */
struct flmem_feature {
	const char *name; /* static text */
	bool works;
	char *why;
};

struct flmem_host_report {
	char *libc; /* C library of this host's programs, "glibc" or "musl"; NULL: unknown */
	char *libc_version; /* "2.36"; NULL: unknown */
	char *kernel;	    /* "6.1.0-18-amd64" */
	char *architecture; /* "x86_64" */
	struct flmem_u64 page_bytes;
	/* "always", "madvise" or "never"; NULL: the kernel has no transparent huge pages. */
	char *thp_mode;
	struct flmem_u64 memory_total_bytes;
	struct flmem_u64 memory_available_bytes;
	struct flmem_u64 swap_total_bytes;
	struct flmem_u64 swap_free_bytes;
	/* Lowest memory limit of the control groups from this process up to the root. */
	struct flmem_u64 cgroup_max_bytes;
	struct flmem_u64 cgroup_used_bytes;
	int yama_level; /* kernel.yama.ptrace_scope, 0 to 3; -1: this kernel has no Yama */
	struct flmem_permission trim_own;    /* trimming processes of this user */
	struct flmem_permission trim_others; /* trimming processes of other users */
	struct flmem_installed_allocator *installed;
	size_t installed_count;
	char *gpu_driver;   /* version of the driver, or NULL */
	char *gpu_unknown;  /* reason why no GPU is listed, or NULL */
	char *cuda_driver;  /* newest CUDA version that the driver supports, "12.5", or NULL */
	char *cuda_runtime; /* version of the CUDA runtime library, "12.9", or NULL */
	char *cuda_runtime_unknown; /* reason why no version is reported, or NULL */
	struct flmem_gpu *gpus;
	size_t gpu_count;
	struct flmem_feature *features;
	size_t feature_count;
};

/*
 * Reads the facts about this host. Values that cannot be determined are unknown, with their reason.
 * The call starts a few short-lived children (to test system calls for which a sandbox may kill the
 * caller) and loads the libraries of the NVIDIA driver and of the CUDA runtime if present.
 * FLMEM_EUNSUPPORTED without /proc, FLMEM_EFAILED if memory is out. Release with
 * flmem_host_report_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_host_read(struct flmem_host_report *ret_report,
					       struct flmem_error *err);

/* Frees what the report owns and zeroes the struct. */
FLMEM_API void flmem_host_report_clear(struct flmem_host_report *report);

#endif
