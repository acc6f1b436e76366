/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_ATTACHED_H
#define FLMEM_OPS_PROFILE_ATTACHED_H

/* The parts of attaching. */

#include <flmem/attach.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "ops/profile/attached_paths.h"
#include "ops/target/inspection.h"
#include "preload/sampler_state.h"
#include "proc/files/fs_user.h"
#include "remote/seccomp/syscalls.h"

/* The sampler that a process has loaded; `module` is NULL if there is none. */
struct flmem_attached {
	const struct flmem_module *module;
	/* Verified copy: texts are terminated, numbers are in range. */
	struct flmem_sampler_state state;
};

/*
 * Reads the sampler of a process. FLMEM_EUNSUPPORTED if its version differs, FLMEM_EFAILED if its
 * memory cannot be read.
 */
int flmem_attached_read(const struct flmem_target_inspection *target,
			struct flmem_attached *ret_attached, struct flmem_error *err);

/* Verifies a state in bytes that the process sent. Errors as for flmem_attached_read(). */
int flmem_attached_state_parse(const void *bytes, size_t length, int pid,
			       struct flmem_sampler_state *ret_state, struct flmem_error *err);

/* Adds one borrow of a thread to the result; 0: there was none. */
void flmem_attached_add_stop(struct flmem_attach_result *result, uint64_t stopped_us);

/* Copies to the result what has loaded the sampler, and the counts of entries. */
void flmem_attached_take(const struct flmem_attached *attached, struct flmem_attach_result *result);

/* FLMEM_EUNSAFE if the process is already sampled. */
int flmem_attached_refuse_sampled(const struct flmem_process *process,
				  const struct flmem_attached *attached, bool can_detach,
				  struct flmem_error *err);

/*
 * Checks that the sampler is loaded completely. A child that was forked while its parent loaded the
 * sampler may have a copy that was never relocated: its constructors have not run, and never will.
 * Those of a sampler that another flmem is loading at this moment will run.
 */
int flmem_attached_check_loaded(const struct flmem_process *process,
				const struct flmem_attached *attached, struct flmem_error *err);

/*
 * Adds to a failed detach that it can be repeated, which is harmless: an idle sampler refuses the
 * order. Returns `rc`.
 */
int flmem_attached_explain_detach(int rc, pid_t pid, struct flmem_error *err);

/*
 * Checks the memory limits: the process maps all of the profile, and the program may need what
 * remains below its limits.
 */
int flmem_attached_room_check(const struct flmem_process *process, uint64_t limit_bytes,
			      struct flmem_error *err);

/*
 * Adds the reason why the process created no socket, read from its memory, if a socket was
 * requested.
 */
void flmem_attached_explain_socket(const struct flmem_target_inspection *target,
				   const struct flmem_attached *attached,
				   struct flmem_attach_result *result);

/* Returns what has loaded the sampler, as in flmem_attach_result; NULL: there is none. */
const char *flmem_attached_loaded_by(const struct flmem_attached *attached);

/* System calls that the process makes to load the sampler, and in malloc() from then on. */
extern const struct flmem_syscall_table flmem_attached_syscalls;

/* FLMEM_EUNSUPPORTED if a thread has seccomp filters that the others do not have. */
int flmem_attached_threads_check(const struct flmem_process *process, struct flmem_error *err);

/*
 * The file of a profile, created with the rights of the target. flmem_attached_file_clear() removes
 * it, if it still has its name, and restores the file that it replaced.
 */
struct flmem_attached_file {
	int directory;			       /* directory of the file; -1: none */
	int created;			       /* descriptor of the file (O_PATH); -1: none */
	struct flmem_fs_user user;	       /* user of the process */
	struct stat place;		       /* status of the directory */
	char path[FLMEM_ATTACH_PATH_MAX];      /* path of the file for flmem */
	char seen_path[FLMEM_ATTACH_PATH_MAX]; /* path of the file for the process */
	char replaced[FLMEM_TEMPORARY_NAME];   /* temporary name of the replaced file; "": none */
};

#define FLMEM_ATTACHED_FILE_INIT               \
	{                                      \
		.directory = -1, .created = -1 \
	}

/*
 * Creates the file. FLMEM_EUSAGE for an unsuitable place, or one that the process does not see or
 * may not write to.
 */
int flmem_attached_file_create(const struct flmem_process *process,
			       const struct flmem_profile_request *request, bool is_mapped,
			       struct flmem_attached_file *ret_file, struct flmem_error *err);
/*
 * Checks, without writing anything, that a file to be mapped could be created. Errors as for
 * flmem_attached_file_create().
 */
int flmem_attached_file_check(const struct flmem_process *process,
			      const struct flmem_profile_request *request, struct flmem_error *err);
void flmem_attached_file_clear(struct flmem_attached_file *file);
/*
 * Keeps the file, and removes the one that it replaced. Use it instead of
 * flmem_attached_file_clear().
 */
void flmem_attached_file_keep(struct flmem_attached_file *file);

/* The profile file that a sampled process names; it is opened once. */
struct flmem_attached_profile {
	const char *path; /* owned by the caller */
	int error;	  /* -errno of the last read, or 0 */
	struct flmem_attached_view view;
};

void flmem_attached_profile_open(const struct flmem_process *process, const char *path,
				 struct flmem_attached_profile *ret_profile);
void flmem_attached_profile_close(struct flmem_attached_profile *profile);

/* Writes the path of a profile for flmem: the process may have another root. */
void flmem_attached_profile_name(const struct flmem_process *process,
				 const struct flmem_attached_profile *profile, char *out,
				 size_t size);

/*
 * Returns true if the file was deleted, renamed or cut, or if another file had its name when it was
 * opened.
 */
bool flmem_attached_profile_is_elsewhere(const struct flmem_process *process,
					 const struct flmem_attached_profile *profile);

/*
 * Does the same as flmem_attached_profile_is_elsewhere(), for a sampler that was detached. It also
 * returns true if the file does not say that sampling has ended, because something had changed the
 * file and sampling ended by itself.
 */
bool flmem_attached_profile_has_left(const struct flmem_process *process,
				     struct flmem_attached_profile *profile);

#define FLMEM_AUTO_ATTACHED_PROFILE FLMEM_AUTO(flmem_attached_profile_close)
#define FLMEM_AUTO_ATTACHED_FILE    FLMEM_AUTO(flmem_attached_file_clear)

#endif
