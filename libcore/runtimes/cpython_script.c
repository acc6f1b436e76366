/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_script.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/status.h"

/* Time limit: a file system that does not answer belongs to the target (FUSE) and is skipped. */
#define TIMEOUT_US 2000000U

/* Work that a child process does with the target's rights. */
struct script_work {
	int root; /* root of the process, or -1 */
	int directory;
	uint32_t uid;
	const char *path;
	char name[FLMEM_CPYTHON_SCRIPT_NAME_MAX];
	struct flmem_buf text;
	bool is_created;
	bool is_library;
};

/* Contents: a script, or a library (then `text` is NULL). */
struct script_content {
	const char *text;
	const void *bytes;
	size_t length;
};

static void free_work(struct script_work *work)
{
	if (work->root >= 0)
		close(work->root);
	if (work->directory >= 0)
		close(work->directory);
	flmem_buf_clear(&work->text);
	free(work);
}

/* Removes a file that was created after a timeout. */
static void undo_script(void *context)
{
	const struct script_work *work = context;

	if (work->is_created)
		unlinkat(work->directory, work->name, 0);
}

static void cleanup_work(struct script_work **work)
{
	if (*work)
		free_work(*work);
}

/*
 * Opens the directory, never outside of the process's root, and through no link that the process
 * may change meanwhile.
 */
static int open_script_directory(const struct script_work *work)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, work->root, work->path, &how, sizeof(how));
}

/* True if code cannot be mapped from the file system (noexec). */
static bool is_without_programs(int directory)
{
	struct statvfs status;

	return fstatvfs(directory, &status) != 0 || status.f_flag & ST_NOEXEC;
}

/* True if no other user may replace the file: such a user could inject code into the target. */
static bool is_protected(const struct script_work *work, int directory)
{
	struct stat status;

	return fstat(directory, &status) == 0 &&
	       (status.st_uid == 0 || status.st_uid == work->uid) &&
	       (!(status.st_mode & (S_IWGRP | S_IWOTH)) || status.st_mode & S_ISVTX);
}

/* True if the name refers to the created file: of this user, with one name only. */
static bool is_created_file(const struct script_work *work, int fd)
{
	struct stat file;

	return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == work->uid &&
	       file.st_nlink == 1;
}

static int fill_file(const struct script_work *work, int fd)
{
	if (fchmod(fd, S_IRUSR) || flmem_io_write_all(fd, work->text.data, work->text.length))
		return errno ? -errno : -EIO;
	return is_created_file(work, fd) ? 0 : -EPERM;
}

static int create_file(void *context)
{
	struct script_work *work = context;
	FLMEM_AUTO_CLOSE int fd = -1;
	int rc;

	work->directory = open_script_directory(work);
	if (work->directory < 0)
		return -errno;
	if (!is_protected(work, work->directory) ||
	    (work->is_library && is_without_programs(work->directory)))
		return -EPERM;
	fd = openat(work->directory, work->name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, S_IRUSR);
	if (fd < 0)
		return -errno;
	work->is_created = true;
	rc = fill_file(work, fd);
	if (rc)
		unlinkat(work->directory, work->name, 0);
	work->is_created = !rc;
	return rc;
}

static int delete_file(void *context)
{
	const struct script_work *work = context;

	return unlinkat(work->directory, work->name, 0) ? -errno : 0;
}

static int run_script_work(const struct flmem_fs_user *user, int (*what)(void *context),
			   struct script_work *work)
{
	const struct flmem_forked_task task = {
		.run = what,
		.undo = undo_script,
		.context = work,
		.size = sizeof(*work),
		.descriptors = {&work->root, &work->directory},
	};

	return flmem_fs_user_run(user, &task, TIMEOUT_US);
}

static struct script_work *make_work(const struct flmem_process *process, const char *path,
				     const char *name, const struct script_content *content)
{
	struct script_work *work = calloc(1, sizeof(*work));

	if (!work)
		return NULL;
	*work = (struct script_work){
		.root = -1, .directory = -1, .path = path, .text = FLMEM_BUF_INIT};
	snprintf(work->name, sizeof(work->name), "%s", name);
	/* Opened with flmem's right to trace the process; later steps use the process's rights. */
	work->root = openat(process->dirfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	work->is_library = !content->text;
	if (content->text) {
		/* The script removes itself, so that it does not remain if flmem ends early. */
		flmem_buf_printf(&work->text,
				 "try:__import__('os').unlink('%s/%s')\nexcept OSError:pass\n",
				 path, name);
		flmem_buf_puts(&work->text, content->text);
	} else {
		flmem_buf_append(&work->text, content->bytes, content->length);
	}
	if (!work->text.failed)
		return work;
	free_work(work);
	return NULL;
}

static int report_refusal(const struct flmem_process *process, const struct flmem_fs_user *user,
			  int rc, struct flmem_error *err)
{
	if (rc == -EACCES)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "a script for process %d is written with its own user id "
				       "%u and no other, which takes CAP_SETUID and CAP_SETGID",
				       (int)process->pid, user->uid);
	return flmem_error_set(err, FLMEM_EUNSAFE, -rc,
			       "process %d has no directory for temporary files in which flmem "
			       "could write the code",
			       (int)process->pid);
}

static int write_script_into(const struct flmem_process *process, const char *path,
			     const struct script_content *content,
			     struct flmem_cpython_script *script)
{
	FLMEM_AUTO(cleanup_work)
	struct script_work *work = make_work(process, path, script->name, content);
	int rc;

	if (!work || work->root < 0)
		return -ENOENT;
	work->uid = script->user.uid;
	rc = run_script_work(&script->user, create_file, work);
	if (rc)
		return rc;
	script->path = path;
	script->directory = work->directory;
	work->directory = -1;
	return 0;
}

static int write_content(const struct flmem_process *process, uint64_t number,
			 const struct script_content *content,
			 struct flmem_cpython_script *ret_script, struct flmem_error *err)
{
	static const char *const directories[] = {"/tmp", "/var/tmp", "/dev/shm"};
	struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
	struct flmem_status status;
	int rc = flmem_status_read(process, &status, err);

	if (rc)
		return rc;
	if (!status.uid.known || !status.gid.known)
		return report_refusal(process, &script.user, -EPERM, err);
	script.user = (struct flmem_fs_user){status.uid.fs, status.gid.fs};
	snprintf(script.name, sizeof(script.name), ".flmem-%016llx.%s", (unsigned long long)number,
		 content->text ? "py" : "so");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(directories); i++) {
		rc = write_script_into(process, directories[i], content, &script);
		if (!rc) {
			*ret_script = script;
			return 0;
		}
		if (rc == -ETIMEDOUT)
			break;
	}
	return report_refusal(process, &script.user, rc, err);
}

int flmem_cpython_script_write(const struct flmem_process *process, uint64_t number,
			       const char *text, struct flmem_cpython_script *ret_script,
			       struct flmem_error *err)
{
	const struct script_content content = {.text = text};

	return write_content(process, number, &content, ret_script, err);
}

int flmem_cpython_script_write_library(const struct flmem_process *process, uint64_t number,
				       const void *bytes, size_t length,
				       struct flmem_cpython_script *ret_script,
				       struct flmem_error *err)
{
	const struct script_content content = {.bytes = bytes, .length = length};

	return write_content(process, number, &content, ret_script, err);
}

void flmem_cpython_script_remove(struct flmem_cpython_script *script)
{
	FLMEM_AUTO(cleanup_work) struct script_work *work = calloc(1, sizeof(*work));

	if (script->directory < 0 || !work)
		return;
	*work = (struct script_work){
		.root = -1, .directory = script->directory, .text = FLMEM_BUF_INIT};
	memcpy(work->name, script->name, sizeof(work->name));
	run_script_work(&script->user, delete_file, work);
	*script = (struct flmem_cpython_script)FLMEM_CPYTHON_SCRIPT_INIT;
}
