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

/* The sampler that a process has loaded; `module` NULL: none. */
struct flmem_attached {
	const struct flmem_module *module;
	struct flmem_sampler_state state; /* checked: texts end, numbers are in range */
};

/* FLMEM_EUNSUPPORTED: one of another version; FLMEM_EFAILED: its memory cannot be read. */
int flmem_attached_read(const struct flmem_target_inspection *target,
			struct flmem_attached *ret_attached, struct flmem_error *err);

/* From bytes of the process; the same errors. */
int flmem_attached_state_parse(const void *bytes, size_t length, int pid,
			       struct flmem_sampler_state *ret_state, struct flmem_error *err);

/* Loaded by what, and the entries. */
/* One more hold of a thread; 0: there was none. */
void flmem_attached_add_stop(struct flmem_attach_result *result, uint64_t stopped_us);

void flmem_attached_take(const struct flmem_attached *attached, struct flmem_attach_result *result);

/* FLMEM_EUNSAFE: it is sampled already. */
int flmem_attached_refuse_sampled(const struct flmem_process *process,
				  const struct flmem_attached *attached, bool can_detach,
				  struct flmem_error *err);

/*
 * A child that was forked while its parent loaded the sampler may have a copy that was never
 * relocated: then its constructors have not run, and will not. Those of a sampler that another
 * flmem is loading at this moment will run.
 */
int flmem_attached_check_loaded(const struct flmem_process *process,
				const struct flmem_attached *attached, struct flmem_error *err);

/* Asking twice is harmless: an order to a sampler that is idle is refused. */
int flmem_attached_explain_detach(int rc, pid_t pid, struct flmem_error *err);

/* The process maps all of the profile, and the program may need what is left below its limits. */
int flmem_attached_room_check(const struct flmem_process *process, uint64_t limit_bytes,
			      struct flmem_error *err);

/* Why the process created no socket, read from its memory, if one was requested. */
void flmem_attached_explain_socket(const struct flmem_target_inspection *target,
				   const struct flmem_attached *attached,
				   struct flmem_attach_result *result);

/* What has loaded it, as in flmem_attach_result; NULL: there is none. */
const char *flmem_attached_loaded_by(const struct flmem_attached *attached);

/* The system calls of the process in malloc() from then on, and for loading the sampler. */
extern const struct flmem_syscall_table flmem_attached_syscalls;

/* FLMEM_EUNSUPPORTED: a thread has seccomp filters that the others do not have. */
int flmem_attached_threads_check(const struct flmem_process *process, struct flmem_error *err);

/*
 * The file of a profile, created with the rights of the target. Clearing removes it, if it has its
 * name still, and gives the file that it has replaced its name back.
 */
struct flmem_attached_file {
	int directory;			       /* -1: none */
	int created;			       /* the file, as O_PATH; -1: none */
	struct flmem_fs_user user;	       /* of the process */
	struct stat place;		       /* of the directory */
	char path[FLMEM_ATTACH_PATH_MAX];      /* as flmem names it */
	char seen_path[FLMEM_ATTACH_PATH_MAX]; /* as the process does */
	char replaced[FLMEM_TEMPORARY_NAME];   /* the file that was there; "": none */
};

/* FLMEM_EUSAGE: the place, or one that the process does not see or may not write. */
#define FLMEM_ATTACHED_FILE_INIT               \
	{                                      \
		.directory = -1, .created = -1 \
	}

int flmem_attached_file_create(const struct flmem_process *process,
			       const struct flmem_profile_request *request, bool is_mapped,
			       struct flmem_attached_file *ret_file, struct flmem_error *err);
/* The same of a file to be mapped, as far as it is known without writing anything. */
int flmem_attached_file_check(const struct flmem_process *process,
			      const struct flmem_profile_request *request, struct flmem_error *err);
void flmem_attached_file_clear(struct flmem_attached_file *file);
/* The same, but the file stays, and what it has replaced is removed. */
void flmem_attached_file_keep(struct flmem_attached_file *file);

/* The profile that a sampled process names; opened once. */
struct flmem_attached_profile {
	const char *path; /* the caller's */
	int error;	  /* negative errno of when it was last read, or 0 */
	struct flmem_attached_view view;
};

void flmem_attached_profile_open(const struct flmem_process *process, const char *path,
				 struct flmem_attached_profile *ret_profile);
void flmem_attached_profile_close(struct flmem_attached_profile *profile);

/* The path of a profile as flmem has it: the process may have another root. */
void flmem_attached_profile_name(const struct flmem_process *process,
				 const struct flmem_attached_profile *profile, char *out,
				 size_t size);

/* Whether it was deleted, renamed or cut, or another file had its name when it was opened. */
bool flmem_attached_profile_is_elsewhere(const struct flmem_process *process,
					 const struct flmem_attached_profile *profile);

/*
 * The same now that the sampler was detached. Where sampling had ended by itself, since something
 * had changed the file, it does not say that it has ended.
 */
bool flmem_attached_profile_has_left(const struct flmem_process *process,
				     struct flmem_attached_profile *profile);

#define FLMEM_AUTO_ATTACHED_PROFILE FLMEM_AUTO(flmem_attached_profile_close)
#define FLMEM_AUTO_ATTACHED_FILE    FLMEM_AUTO(flmem_attached_file_clear)

#endif
