/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the file of a profile for a running process. The process opens the file itself, so it
 * must see and own it: the file is created with the rights of the process, and without those of
 * flmem.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/forked_task.h"
#include "base/portable.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "ops/profile/attached.h"
#include "ops/profile/attached_paths.h"
#include "ops/profile/prepare.h"
#include "ops/profile/profile_place.h"
#include "proc/status.h"
#include "proc/time_namespace.h"

#define CREATE_TIMEOUT_US 20000000U /* time to allocate all blocks on a slow disk */
#define REMOVE_TIMEOUT_US 2000000U
#define WORDS_MAX	  256U

#ifndef SYS_faccessat2 /* added in Linux 5.8 */
#define SYS_faccessat2 439
#endif

/* Work that a child process does with the target's rights. */
struct profile_work {
	int directory, created; /* directory, and the file as O_PATH; -1: none */
	char path[FLMEM_ATTACH_PATH_MAX];
	char name[NAME_MAX + 1];
	struct flmem_profile_header header;
	struct stat status; /* status of the file */
	struct flmem_error err;
	/* Temporary name of the file that was there; "": none. */
	char replaced[FLMEM_TEMPORARY_NAME];
	bool force, is_mapped;
};

static int refuse_attached_place(struct profile_work *work, int error)
{
	return flmem_error_set(&work->err, flmem_code_of_open(error), error,
			       "cannot write '%s' as the user of the process; choose a directory "
			       "in which it may create files",
			       work->path);
}

static struct flmem_file_place place_of_work(const struct profile_work *work)
{
	return (struct flmem_file_place){
		.directory = work->directory, .path = work->path, .name = work->name};
}

/*
 * Returns true if the old file may be replaced; it may have become a device or a socket since it
 * was checked.
 */
static bool is_replaceable(int directory, const char *name)
{
	struct stat old;

	return fstatat(directory, name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	       flmem_file_is_replaceable(&old);
}

/*
 * Exchanges the old profile with the new one. The old file keeps the temporary name until the
 * process has accepted the new one, since it may still refuse.
 */
static bool exchange_old_profile(struct profile_work *work, struct flmem_temporary *new)
{
	const int directory = work->directory;

	if (!work->force || !is_replaceable(directory, work->name) ||
	    flmem_file_rename(directory, new->name, directory, work->name, RENAME_EXCHANGE) < 0)
		return false;
	memcpy(work->replaced, new->name, sizeof(work->replaced));
	new->name[0] = '\0';
	(void)flmem_file_place_sync(directory); /* the profile itself is not flushed either */
	return true;
}

/* Keeps the file open, so that no other file gets its inode number. */
static int hold_created(struct profile_work *work, int fd)
{
	work->created = flmem_io_reopen(fd, O_PATH);
	if (work->created >= 0 && fstat(fd, &work->status) == 0)
		return 0;
	return flmem_error_set(&work->err, FLMEM_EFAILED, errno, "cannot read '%s'", work->path);
}

static int create_attached_profile(void *context)
{
	FLMEM_AUTO_TEMPORARY struct flmem_temporary new = FLMEM_TEMPORARY_INIT;
	struct profile_work *work = context;
	const struct flmem_file_place place = place_of_work(work);
	int rc = flmem_temporary_create(work->directory, 0600, &new);

	if (rc)
		return refuse_attached_place(work, -rc);
	rc = flmem_profile_file_fill(new.fd, &work->header, work->is_mapped, work->path,
				     &work->err);
	if (!rc)
		rc = hold_created(work, new.fd);
	if (rc)
		return rc;
	if (exchange_old_profile(work, &new))
		return 0;
	return flmem_temporary_publish(&place, &new, work->force, &work->err);
}

/* Removes the profile, unless its name now belongs to another file. */
static int remove_attached_profile(void *context)
{
	const struct profile_work *work = context;
	const int directory = work->directory;
	const bool is_there = flmem_file_place_is_named(work->created, directory, work->name);

	if (work->replaced[0])
		flmem_file_rename(directory, work->replaced, directory, work->name,
				  is_there ? 0 : RENAME_NOREPLACE);
	else if (is_there)
		unlinkat(directory, work->name, 0);
	return 0;
}

static int remove_replaced_file(void *context)
{
	const struct profile_work *work = context;

	return unlinkat(work->directory, work->replaced, 0) ? -errno : 0;
}

/* Removes a file that was created too late. */
static void undo_attached_profile(void *context)
{
	struct profile_work *work = context;

	if (work->created >= 0)
		remove_attached_profile(work);
}

/* Reads the command line, which is untrusted: words separated by NULs. */
static void fill_target_command(const struct flmem_process *process,
				struct flmem_profile_header *header)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	char *words[WORDS_MAX + 1] = {0};
	size_t count = 0;

	if (flmem_process_read(process, "cmdline", &text) || !text.length)
		return;
	flmem_buf_putc(&text, '\0');
	if (text.failed)
		return;
	for (size_t at = 0; at + 1 < text.length && count < WORDS_MAX;) {
		words[count++] = text.data + at;
		at += strlen(text.data + at) + 1;
	}
	if (count)
		flmem_profile_command_fill(words, header);
}

/*
 * Returns the part of a path after /proc/PID/root, which is a path of the process itself, with
 * links that it may have made; NULL for other paths.
 */
static const char *skip_process_root(const struct flmem_process *process, const char *output)
{
	char root[64];
	int length = snprintf(root, sizeof(root), "/proc/%d/root/", (int)process->pid);

	return strncmp(output, root, (size_t)length) == 0 ? output + length - 1 : NULL;
}

/* Reads the absolute path of an open directory. */
static int read_directory_path(int fd, char *out, size_t size)
{
	char link[32];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, out, size - 1);
	if (length <= 0 || (size_t)length == size - 1)
		return length < 0 ? -errno : -ENAMETOOLONG;
	out[length] = '\0';
	return 0;
}

/* Fills in the absolute paths of the file to be created. */
static int name_attached_file(const char *output, const char *inside,
			      const struct flmem_attached_directory *place,
			      struct flmem_attached_file *file)
{
	char path[FLMEM_ATTACH_PATH_MAX];
	int rc = inside ? 0 : read_directory_path(place->fd, path, sizeof(path)), length;

	if (rc)
		return rc;
	length = inside ? snprintf(file->path, sizeof(file->path), "%s", output)
			: snprintf(file->path, sizeof(file->path), "%s/%s",
				   strcmp(path, "/") == 0 ? "" : path, place->name);
	snprintf(file->seen_path, sizeof(file->seen_path), "%s", inside ? inside : file->path);
	return (size_t)length < sizeof(file->path) ? 0 : -ENAMETOOLONG;
}

/*
 * Checks that the file could be created, without creating it. The kernel checks with the rights of
 * the child, which are the target's.
 */
static int check_attached_place(void *context)
{
	struct profile_work *work = context;
	const long denied = syscall(SYS_faccessat2, work->directory, ".", W_OK | X_OK, AT_EACCESS);
	char size[FLMEM_TEXT_BYTES_MAX];
	uint64_t free_bytes;

	/* Before Linux 5.8 the access cannot be queried. */
	if (denied && errno != ENOSYS)
		return refuse_attached_place(work, errno);
	if (flmem_io_free_bytes(work->directory, &free_bytes) < 0 ||
	    free_bytes >= work->header.file_size)
		return 0;
	return flmem_error_set(&work->err, FLMEM_EFAILED, ENOSPC, "cannot allocate %s for '%s'",
			       flmem_text_bytes(work->header.file_size, size, sizeof(size)),
			       work->path);
}

static struct profile_work *make_profile_work(const struct flmem_process *process,
					      const struct flmem_status *status,
					      const struct flmem_profile_request *request)
{
	struct profile_work *work = calloc(1, sizeof(*work));

	if (!work)
		return NULL;
	work->directory = -1;
	work->created = -1;
	work->force = request->force;
	flmem_profile_header_fill(request, &work->header);
	work->header.flags |= FLMEM_PROFILE_LATE;
	fill_target_command(process, &work->header);
	work->header.pid = (uint32_t)flmem_u64_or(status->ns_pid, (uint64_t)process->pid);
	return work;
}

static int run_profile_work(const struct flmem_fs_user *user, int (*run)(void *context),
			    struct profile_work *work, struct flmem_error *err)
{
	const struct flmem_forked_task task = {
		.run = run,
		.undo = undo_attached_profile,
		.context = work,
		.size = sizeof(*work),
		.descriptors = {&work->directory, &work->created},
	};
	int rc = flmem_fs_user_run(user, &task, CREATE_TIMEOUT_US);

	if (rc && rc != -EACCES && !work->err.code)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write the profile");
	if (rc && !work->err.code)
		return flmem_error_set(err, FLMEM_EPERM, -rc,
				       "the profile is written with the user id %u of the process "
				       "and no other, which takes CAP_SETUID and CAP_SETGID",
				       user->uid);
	if (rc)
		*err = work->err;
	return rc;
}

static void cleanup_profile_work(struct profile_work **work)
{
	if (!*work)
		return;
	flmem_cleanup_close(&(*work)->directory);
	flmem_cleanup_close(&(*work)->created);
	free(*work);
}

/*
 * Reports that the output cannot be written; the error may also be that its file system does not
 * answer.
 */
static int refuse_output(const char *output, int rc, struct flmem_error *err)
{
	return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot write '%s'", output);
}

static int open_profile_place(const struct flmem_process *process,
			      const struct flmem_profile_request *request, bool is_mapped,
			      struct flmem_attached_file *file, struct profile_work *work,
			      struct flmem_error *err)
{
	struct flmem_attached_directory place = FLMEM_ATTACHED_DIRECTORY_INIT;
	const char *inside = skip_process_root(process, request->output);
	int rc = flmem_attached_directory_open(inside ? process : NULL,
					       inside ? inside : request->output, &place);

	if (rc)
		return refuse_output(request->output, rc, err);
	work->directory = place.fd;
	file->place = place.status;
	memcpy(work->name, place.name, sizeof(work->name));
	rc = name_attached_file(request->output, inside, &place, file);
	if (rc)
		return refuse_output(request->output, rc, err);
	memcpy(work->path, file->path, sizeof(work->path));
	rc = flmem_profile_place_check(place.kind, is_mapped, work->path, err);
	if (!rc && is_mapped)
		rc = flmem_profile_mount_check(inside ? process : NULL, place.status.st_dev,
					       work->path, err);
	if (!rc)
		rc = flmem_profile_name_check(place.exists ? &place.old : NULL, work->path,
					      work->force, err);
	return rc ? rc : flmem_profile_room_check(place.kind, work->header.file_size, err);
}

/* Does everything up to the first write. */
static int prepare_profile_work(const struct flmem_process *process,
				const struct flmem_profile_request *request, bool is_mapped,
				struct flmem_attached_file *file, struct profile_work **ret_work,
				struct flmem_error *err)
{
	struct flmem_status status;
	int rc = flmem_status_read(process, &status, err);

	if (rc)
		return rc;
	if (!status.uid.known || !status.gid.known)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "cannot read the user of process %d",
				       (int)process->pid);
	file->user = (struct flmem_fs_user){status.uid.fs, status.gid.fs};
	*ret_work = make_profile_work(process, &status, request);
	if (!*ret_work)
		return flmem_error_nomem(err, "cannot create the profile");
	(*ret_work)->is_mapped = is_mapped;
	return open_profile_place(process, request, is_mapped, file, *ret_work, err);
}

static int refuse_unseen_place(const struct flmem_process *process, const char *output,
			       struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "process %d does not see '%s': its file system is another one; "
			       "choose a place in it, --output /proc/%d/root/tmp/NAME",
			       (int)process->pid, output, (int)process->pid);
}

static bool is_seen_by(const struct flmem_process *process, const char *path,
		       const struct stat *created)
{
	struct flmem_attached_view view = FLMEM_ATTACHED_VIEW_INIT;
	int rc = flmem_attached_view_read(process, path, &view);

	flmem_cleanup_close(&view.fd);
	return !rc && flmem_file_is_same(&view.status, created);
}

int flmem_attached_file_create(const struct flmem_process *process,
			       const struct flmem_profile_request *request, bool is_mapped,
			       struct flmem_attached_file *ret_file, struct flmem_error *err)
{
	FLMEM_AUTO_ATTACHED_FILE struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	FLMEM_AUTO(cleanup_profile_work) struct profile_work *work = NULL;
	int rc = prepare_profile_work(process, request, is_mapped, &file, &work, err);

	if (!rc)
		rc = run_profile_work(&file.user, create_attached_profile, work, err);
	if (rc)
		return rc;
	file.directory = FLMEM_TAKE_FD(work->directory);
	file.created = FLMEM_TAKE_FD(work->created);
	memcpy(file.replaced, work->replaced, sizeof(file.replaced));
	if (!is_seen_by(process, file.seen_path, &work->status))
		return refuse_unseen_place(process, request->output, err);
	*ret_file = file;
	file.directory = file.created = -1;
	return 0;
}

static bool is_directory_seen_by(const struct flmem_process *process, const char *path,
				 const struct stat *there)
{
	struct flmem_attached_directory seen = FLMEM_ATTACHED_DIRECTORY_INIT;
	int rc = flmem_attached_directory_open(process, path, &seen);

	flmem_cleanup_close(&seen.fd);
	if (rc == -ENOSYS) /* before Linux 5.6; the creation of the file will show it */
		return true;
	return !rc && flmem_file_is_same(&seen.status, there);
}

int flmem_attached_file_check(const struct flmem_process *process,
			      const struct flmem_profile_request *request, struct flmem_error *err)
{
	struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	FLMEM_AUTO(cleanup_profile_work) struct profile_work *work = NULL;
	int rc = prepare_profile_work(process, request, true, &file, &work, err);

	if (!rc && !is_directory_seen_by(process, file.seen_path, &file.place))
		rc = refuse_unseen_place(process, request->output, err);
	return rc ? rc : run_profile_work(&file.user, check_attached_place, work, err);
}

/*
 * Ends the work on the file, in the directory in which it was created, wherever its path now leads,
 * and with the same rights: those of flmem could remove a file of any user.
 */
static void end_attached_file(struct flmem_attached_file *file, bool keeps)
{
	struct profile_work work = {.directory = file->directory, .created = file->created};
	const struct flmem_forked_task task = {
		.run = keeps ? remove_replaced_file : remove_attached_profile,
		.context = &work,
		.size = sizeof(work),
		.descriptors = {&work.directory, &work.created},
	};

	if (file->directory < 0)
		return;
	memcpy(work.replaced, file->replaced, sizeof(work.replaced));
	snprintf(work.name, sizeof(work.name), "%s", flmem_text_basename(file->path));
	if (!keeps || file->replaced[0])
		flmem_fs_user_run(&file->user, &task, REMOVE_TIMEOUT_US);
	flmem_cleanup_close(&file->directory);
	flmem_cleanup_close(&file->created);
	file->directory = file->created = -1;
}

void flmem_attached_file_clear(struct flmem_attached_file *file)
{
	end_attached_file(file, false);
}

void flmem_attached_file_keep(struct flmem_attached_file *file)
{
	end_attached_file(file, true);
}

void flmem_attached_profile_open(const struct flmem_process *process, const char *path,
				 struct flmem_attached_profile *ret_profile)
{
	struct flmem_attached_profile profile = {.path = path};

	profile.view = (struct flmem_attached_view)FLMEM_ATTACHED_VIEW_INIT;
	profile.error = flmem_attached_view_read(process, path, &profile.view);
	*ret_profile = profile;
}

void flmem_attached_profile_close(struct flmem_attached_profile *profile)
{
	flmem_cleanup_close(&profile->view.fd);
	profile->view.fd = -1;
}

void flmem_attached_profile_name(const struct flmem_process *process,
				 const struct flmem_attached_profile *profile, char *out,
				 size_t size)
{
	if (profile->view.fd >= 0 && !profile->view.is_own)
		snprintf(out, size, "/proc/%d/root%s", (int)process->pid, profile->path);
	else
		snprintf(out, size, "%s", profile->path);
}

/*
 * Returns true if the file at the path is not the sampled profile. The process chooses the path,
 * and a file that does not answer is not the one that flmem made.
 */
static bool is_elsewhere(const struct flmem_process *process,
			 const struct flmem_attached_profile *profile, bool is_detached)
{
	const struct flmem_attached_view *view = &profile->view;
	const struct flmem_profile_header *header = &view->header;

	if (profile->error)
		return profile->error == -ENOENT || profile->error == -ETIMEDOUT;
	return !view->is_named || !view->has_header ||
	       memcmp(header->magic, FLMEM_PROFILE_MAGIC, sizeof(header->magic)) != 0 ||
	       !flmem_time_namespace_is_start(process, header->start_time_ticks) ||
	       (uint64_t)view->status.st_size < header->file_size ||
	       (is_detached && header->phase != FLMEM_PROFILE_ENDED);
}

bool flmem_attached_profile_is_elsewhere(const struct flmem_process *process,
					 const struct flmem_attached_profile *profile)
{
	return is_elsewhere(process, profile, false);
}

bool flmem_attached_profile_has_left(const struct flmem_process *process,
				     struct flmem_attached_profile *profile)
{
	if (!profile->error)
		profile->error = flmem_attached_view_read(process, profile->path, &profile->view);
	return is_elsewhere(process, profile, true);
}
