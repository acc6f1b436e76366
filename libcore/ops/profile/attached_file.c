/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a profile for a process that runs. The process opens it itself, so it has to see the
 * file and to own it: it is created with its rights, and without those of flmem.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/portable.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "ops/profile/attached.h"
#include "ops/profile/prepare.h"
#include "ops/profile/profile_place.h"
#include "proc/files/fs_user.h"
#include "proc/status.h"
#include "proc/time_namespace.h"

#define CREATE_TIMEOUT_US 20000000U /* of all blocks, on a slow disk */
#define WORDS_MAX	  256U

#ifndef SYS_faccessat2 /* Linux 5.8 */
#define SYS_faccessat2 439
#endif

/* Work of the thread with the target's rights. */
struct profile_work {
	char path[FLMEM_ATTACH_PATH_MAX];
	struct flmem_file_place place;
	struct flmem_profile_header header;
	struct stat created;
	struct flmem_error err;
	char replaced[FLMEM_TEMPORARY_NAME]; /* the file that was there; "": none */
	bool force, is_mapped;
};

static void free_profile_work(void *context)
{
	struct profile_work *work = context;

	/* It was created, but too late. */
	if (work->replaced[0])
		renameat(work->place.directory, work->replaced, work->place.directory,
			 work->place.name);
	flmem_file_place_close(&work->place);
	free(work);
}

static int refuse_attached_place(struct profile_work *work, int error)
{
	return flmem_error_set(&work->err, FLMEM_EUSAGE, error,
			       "cannot write '%s' as the user of the process; choose a directory "
			       "in which it may create files",
			       work->path);
}

/* A process may still refuse: until then the old file has the temporary name of the new one. */
static bool exchange_old_profile(struct profile_work *work, struct flmem_temporary *new)
{
	const int directory = work->place.directory;
	struct stat old;

	if (!work->force || fstatat(directory, work->place.name, &old, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISDIR(old.st_mode) ||
	    flmem_file_rename(directory, new->name, directory, work->place.name, RENAME_EXCHANGE) <
		    0)
		return false;
	memcpy(work->replaced, new->name, sizeof(work->replaced));
	new->name[0] = '\0';
	(void)flmem_file_place_sync(directory); /* the profile itself is not flushed either */
	return true;
}

static int create_attached_profile(void *context)
{
	FLMEM_AUTO_TEMPORARY struct flmem_temporary new = FLMEM_TEMPORARY_INIT;
	struct profile_work *work = context;
	int rc = flmem_temporary_create(work->place.directory, 0600, &new);

	if (rc)
		return refuse_attached_place(work, -rc);
	rc = flmem_profile_file_fill(new.fd, &work->header, work->is_mapped, work->path,
				     &work->err);
	if (rc)
		return rc;
	if (fstat(new.fd, &work->created) < 0)
		return flmem_error_set(&work->err, FLMEM_EFAILED, errno, "cannot read '%s'",
				       work->path);
	if (exchange_old_profile(work, &new))
		return 0;
	return flmem_temporary_publish(&work->place, &new, work->force, &work->err);
}

/* The words of a command line, which NULs separate; from the process, so it may be anything. */
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

/* What follows /proc/PID/root is a path of the process itself, with links that it may have made. */
static const char *skip_process_root(const struct flmem_process *process, const char *output)
{
	char root[64];
	int length = snprintf(root, sizeof(root), "/proc/%d/root/", (int)process->pid);

	return strncmp(output, root, (size_t)length) == 0 ? output + length - 1 : NULL;
}

/* The absolute path. */
static int name_attached_file(const struct flmem_process *process, const char *output,
			      struct flmem_attached_file *file, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *copy = strdup(output), *directory = NULL;
	const char *name = strrchr(output, '/'), *inside = skip_process_root(process, output);
	int written;

	if (strlen(output) >= sizeof(file->path))
		return flmem_error_set(err, FLMEM_EUSAGE, ENAMETOOLONG, "cannot write '%s'",
				       output);
	if (inside) {
		snprintf(file->path, sizeof(file->path), "%s", output);
		snprintf(file->seen_path, sizeof(file->seen_path), "%s", inside);
		return 0;
	}
	if (!copy)
		return flmem_error_nomem(err, "cannot name the profile");
	copy[name ? (size_t)(name - output) : 0] = '\0';
	directory = realpath(!name ? "." : copy[0] ? copy : "/", NULL);
	if (!directory)
		return flmem_error_set(err, FLMEM_EUSAGE, errno, "cannot write '%s'", output);
	written = snprintf(file->path, sizeof(file->path), "%s/%s",
			   strcmp(directory, "/") == 0 ? "" : directory, name ? name + 1 : output);
	if ((size_t)written >= sizeof(file->path))
		return flmem_error_set(err, FLMEM_EUSAGE, ENAMETOOLONG, "cannot write '%s'",
				       output);
	snprintf(file->seen_path, sizeof(file->seen_path), "%s", file->path);
	return 0;
}

/* Nothing is created; the kernel asks with the rights of this thread, which are the target's. */
static int check_attached_place(void *context)
{
	struct profile_work *work = context;
	const long denied =
		syscall(SYS_faccessat2, work->place.directory, ".", W_OK | X_OK, AT_EACCESS);
	char size[FLMEM_TEXT_BYTES_MAX];
	uint64_t free_bytes;

	/* Before Linux 5.8 it cannot be asked. */
	if (denied && errno != ENOSYS)
		return refuse_attached_place(work, errno);
	if (flmem_io_free_bytes(work->place.directory, &free_bytes) < 0 ||
	    free_bytes >= work->header.file_size)
		return 0;
	return flmem_error_set(&work->err, FLMEM_EFAILED, ENOSPC, "cannot allocate %s for '%s'",
			       flmem_text_bytes(work->header.file_size, size, sizeof(size)),
			       work->path);
}

static bool is_seen_by(const struct flmem_process *process, const char *path,
		       const struct stat *created)
{
	FLMEM_AUTO_CLOSE int fd = flmem_process_open_file(process, path);
	struct stat seen;

	return fd >= 0 && fstat(fd, &seen) == 0 && flmem_file_is_same(&seen, created);
}

static struct profile_work *make_profile_work(const struct flmem_process *process,
					      const struct flmem_status *status,
					      const struct flmem_profile_request *request,
					      const char *path)
{
	struct profile_work *work = calloc(1, sizeof(*work));

	if (!work)
		return NULL;
	work->place = (struct flmem_file_place)FLMEM_FILE_PLACE_INIT;
	work->force = request->force;
	snprintf(work->path, sizeof(work->path), "%s", path);
	flmem_profile_header_fill(request, &work->header);
	work->header.flags |= FLMEM_PROFILE_LATE;
	fill_target_command(process, &work->header);
	work->header.pid = (uint32_t)flmem_u64_or(status->ns_pid, (uint64_t)process->pid);
	return work;
}

/* A link in the root of the process must not lead out of it. Negative errno. */
static int open_directory_inside(const struct flmem_process *process, const char *inside)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	FLMEM_AUTO_CLOSE int root =
		openat(process->dirfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *name = flmem_text_basename(inside);
	FLMEM_AUTO_FREE char *directory = strndup(inside, strlen(inside) - strlen(name));
	int fd = root >= 0 && directory
			 ? (int)syscall(SYS_openat2, root, directory, &how, sizeof(how))
			 : -1;

	if (fd < 0)
		return directory ? -errno : -ENOMEM;
	return fd;
}

static int open_place_inside(const struct flmem_process *process, const char *inside,
			     struct profile_work *work)
{
	const char *name = flmem_text_basename(work->path);
	int fd = *name ? open_directory_inside(process, inside) : -EISDIR;

	if (fd < 0)
		return fd;
	work->place = (struct flmem_file_place){.directory = fd, .path = work->path, .name = name};
	return 0;
}

static int check_profile_place(const struct flmem_process *process, struct profile_work *work,
			       struct flmem_error *err)
{
	const char *inside = skip_process_root(process, work->path);
	int rc = inside ? open_place_inside(process, inside, work)
			: flmem_file_place_open(work->path, &work->place);

	if (rc)
		return flmem_error_set(err, FLMEM_EUSAGE, -rc, "cannot write '%s'", work->path);
	return flmem_profile_name_check(&work->place, work->force, err);
}

static int run_profile_work(const struct flmem_status *status, int (*run)(void *context),
			    struct profile_work **work, struct flmem_error *err)
{
	const struct flmem_fs_user user = {status->uid.fs, status->gid.fs};
	const struct flmem_fs_work order = {
		.run = run, .abandon = free_profile_work, .context = *work};
	int rc = flmem_fs_user_run(&user, &order, CREATE_TIMEOUT_US);

	if (rc == -ETIMEDOUT) {
		*work = NULL;
		return flmem_error_set(err, FLMEM_EFAILED, ETIMEDOUT, "cannot write the profile");
	}
	if (rc && !(*work)->err.code)
		return flmem_error_set(err, FLMEM_EPERM, -rc,
				       "the profile is written with the user id %u of the process "
				       "and no other, which takes CAP_SETUID and CAP_SETGID",
				       user.uid);
	if (rc)
		*err = (*work)->err;
	return rc;
}

static void cleanup_profile_work(struct profile_work **work)
{
	if (*work)
		free_profile_work(*work);
}

/* Up to the point where something would be written. */
static int prepare_profile_work(const struct flmem_process *process,
				const struct flmem_profile_request *request,
				struct flmem_status *ret_status, struct flmem_attached_file *file,
				struct profile_work **ret_work, struct flmem_error *err)
{
	int rc = flmem_status_read(process, ret_status, err);

	if (!rc)
		rc = name_attached_file(process, request->output, file, err);
	if (rc)
		return rc;
	if (!ret_status->uid.known || !ret_status->gid.known)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "cannot read the user of process %d",
				       (int)process->pid);
	*ret_work = make_profile_work(process, ret_status, request, file->path);
	if (!*ret_work)
		return flmem_error_nomem(err, "cannot create the profile");
	rc = check_profile_place(process, *ret_work, err);
	return rc ? rc
		  : flmem_profile_room_check((*ret_work)->place.directory,
					     (*ret_work)->header.file_size, err);
}

static int refuse_unseen_place(const struct flmem_process *process, const char *output,
			       struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "process %d does not see '%s': its file system is another one; "
			       "choose a place in it, --output /proc/%d/root/tmp/NAME",
			       (int)process->pid, output, (int)process->pid);
}

int flmem_attached_file_create(const struct flmem_process *process,
			       const struct flmem_profile_request *request, bool is_mapped,
			       struct flmem_attached_file *ret_file, struct flmem_error *err)
{
	FLMEM_AUTO_ATTACHED_FILE struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	FLMEM_AUTO(cleanup_profile_work) struct profile_work *work = NULL;
	struct flmem_status status;
	int rc = prepare_profile_work(process, request, &status, &file, &work, err);

	if (rc || !work)
		return rc;
	work->is_mapped = is_mapped;
	rc = run_profile_work(&status, create_attached_profile, &work, err);
	if (rc || !work)
		return rc;
	file.directory = work->place.directory;
	memcpy(file.replaced, work->replaced, sizeof(file.replaced));
	work->place.directory = -1;
	work->replaced[0] = '\0';
	if (!is_seen_by(process, file.seen_path, &work->created))
		return refuse_unseen_place(process, request->output, err);
	*ret_file = file;
	file.directory = -1;
	return 0;
}

static bool is_directory_seen_by(const struct flmem_process *process, const char *path,
				 int directory)
{
	FLMEM_AUTO_CLOSE int fd = open_directory_inside(process, path);
	struct stat seen, there;

	if (fd == -ENOSYS) /* before Linux 5.6: seen once the file is created */
		return true;
	return fd >= 0 && fstat(fd, &seen) == 0 && fstat(directory, &there) == 0 &&
	       flmem_file_is_same(&seen, &there);
}

int flmem_attached_file_check(const struct flmem_process *process,
			      const struct flmem_profile_request *request, bool is_mapped,
			      struct flmem_error *err)
{
	struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	FLMEM_AUTO(cleanup_profile_work) struct profile_work *work = NULL;
	struct flmem_status status;
	int rc = prepare_profile_work(process, request, &status, &file, &work, err);

	if (rc || !work)
		return rc;
	rc = flmem_profile_place_check(work->place.directory, is_mapped, work->path, err);
	if (!rc && !is_directory_seen_by(process, file.seen_path, work->place.directory))
		rc = refuse_unseen_place(process, request->output, err);
	return rc ? rc : run_profile_work(&status, check_attached_place, &work, err);
}

/* In the directory that it was created in, whatever its path leads to now. */
void flmem_attached_file_clear(struct flmem_attached_file *file)
{
	if (file->directory < 0)
		return;
	if (file->replaced[0])
		renameat(file->directory, file->replaced, file->directory,
			 strrchr(file->path, '/') + 1);
	else
		unlinkat(file->directory, strrchr(file->path, '/') + 1, 0);
	file->replaced[0] = '\0';
	flmem_attached_file_keep(file);
}

void flmem_attached_file_keep(struct flmem_attached_file *file)
{
	if (file->directory < 0)
		return;
	if (file->replaced[0])
		unlinkat(file->directory, file->replaced, 0);
	close(file->directory);
	file->directory = -1;
}

void flmem_attached_file_name(const struct flmem_process *process, const char *path, char *out,
			      size_t size)
{
	FLMEM_AUTO_CLOSE int fd = flmem_process_open_file(process, path);
	struct stat theirs, ours;
	bool is_inside = fd >= 0 && fstat(fd, &theirs) == 0 &&
			 (stat(path, &ours) < 0 || ours.st_dev != theirs.st_dev ||
			  ours.st_ino != theirs.st_ino);

	if (is_inside)
		snprintf(out, size, "/proc/%d/root%s", (int)process->pid, path);
	else
		snprintf(out, size, "%s", path);
}

/* The process chooses the path. */
bool flmem_attached_file_is_elsewhere(const struct flmem_process *process, const char *path,
				      bool is_detached)
{
	FLMEM_AUTO_CLOSE int fd = flmem_process_open_file(process, path);
	struct flmem_profile_header header;
	struct stat status;

	if (fd < 0)
		return fd == -ENOENT;
	return fstat(fd, &status) < 0 || !flmem_io_read_at(fd, 0, &header, sizeof(header)) ||
	       memcmp(header.magic, FLMEM_PROFILE_MAGIC, sizeof(header.magic)) != 0 ||
	       !flmem_time_namespace_is_start(process, header.start_time_ticks) ||
	       (uint64_t)status.st_size < header.file_size ||
	       (is_detached && header.phase != FLMEM_PROFILE_ENDED);
}
