/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_ATTACHED_H
#define FLMEM_OPS_PROFILE_ATTACHED_H

/* The parts of attaching. */

#include <flmem/attach.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "ops/target/inspection.h"
#include "preload/sampler_state.h"
#include "remote/seccomp/syscalls.h"

/* The sampler that a process has loaded; `module` NULL: none. */
struct flmem_attached {
	const struct flmem_module *module;
	struct flmem_sampler_state state; /* checked: texts end, numbers are in range */
};

/* FLMEM_EUNSUPPORTED: one of another version; FLMEM_EFAILED: its memory cannot be read. */
int flmem_attached_read(const struct flmem_target_inspection *target,
			struct flmem_attached *ret_attached, struct flmem_error *err);

/* What has loaded it, as in flmem_attach_result; NULL: there is none. */
const char *flmem_attached_loaded_by(const struct flmem_attached *attached);

/* What the process does in malloc() from then on, and to load the sampler. */
extern const struct flmem_syscall_table flmem_attached_syscalls;

/* FLMEM_EUNSUPPORTED: a thread has seccomp filters that the others do not have. */
int flmem_attached_threads_check(const struct flmem_process *process, struct flmem_error *err);

/*
 * The file of a profile, created with the rights of the target. Clearing removes it, and gives the
 * file that it has replaced its name back.
 */
struct flmem_attached_file {
	int directory;			       /* -1: none */
	char path[FLMEM_ATTACH_PATH_MAX];      /* as flmem names it */
	char seen_path[FLMEM_ATTACH_PATH_MAX]; /* as the process does */
	char replaced[FLMEM_TEMPORARY_NAME];   /* the file that was there; "": none */
};

/* FLMEM_EUSAGE: the place, or one that the process does not see or may not write. */
#define FLMEM_ATTACHED_FILE_INIT \
	{                        \
		.directory = -1  \
	}

int flmem_attached_file_create(const struct flmem_process *process,
			       const struct flmem_profile_request *request, bool is_mapped,
			       struct flmem_attached_file *ret_file, struct flmem_error *err);
/* The same as far as it is known without writing anything. */
int flmem_attached_file_check(const struct flmem_process *process,
			      const struct flmem_profile_request *request, bool is_mapped,
			      struct flmem_error *err);
void flmem_attached_file_clear(struct flmem_attached_file *file);
/* The same, but the file stays, and what it has replaced is removed. */
void flmem_attached_file_keep(struct flmem_attached_file *file);

#define FLMEM_AUTO_ATTACHED_FILE FLMEM_AUTO(flmem_attached_file_clear)

#endif
