/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"

#define CONTENT_MAX ((size_t)64 << 20)

int flmem_spool_open_directory(int directory, const char *name)
{
	int fd;

	if (mkdirat(directory, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int lock_root(const struct flmem_spool *spool, struct flmem_error *err)
{
	struct stat status;

	if (fstat(spool->root, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", spool->path);
	if (status.st_uid != geteuid())
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "'%s' belongs to "
				       "another user",
				       spool->path);
	if (status.st_mode & (S_IRWXG | S_IRWXO))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "other users have access to '%s', where updates of clients "
				       "are kept; chmod 700 it, or name another directory",
				       spool->path);
	if (flock(spool->root, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "another server uses '%s'; name another directory",
				       spool->path);
	return flmem_error_set(err, FLMEM_EFAILED, errno,
			       "cannot lock '%s' against other servers; name a directory on a file "
			       "system with locks (flock)",
			       spool->path);
}

static bool is_empty_directory(int directory, const char *name)
{
	FLMEM_AUTO_DIR DIR *list = NULL;
	const struct dirent *entry;
	int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return false;
	list = fdopendir(fd);
	if (!list) {
		close(fd);
		return false;
	}
	errno = 0;
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return false;
	return errno == 0;
}

/*
 * Checks that the directory was made by a server: its contents may be removed, but nothing of
 * others. Empty directories are what releases without the mark left when they were killed at their
 * start.
 */
static int claim_root(const struct flmem_spool *spool, struct flmem_error *err)
{
	static const char *const names[] = {"uploads", "rounds", FLMEM_SPOOL_TRIAL};
	struct stat status;
	int rc;

	if (fstatat(spool->root, "exchange", &status, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOENT)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "cannot examine '%s/exchange'", spool->path);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (fstatat(spool->root, names[i], &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !is_empty_directory(spool->root, names[i]))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' has '%s', which no server created; name "
					       "another --state",
					       spool->path, names[i]);
	rc = flmem_spool_write(spool->root, "exchange", FLMEM_SPOOL_MARK, strlen(FLMEM_SPOOL_MARK));
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write '%s/exchange'",
				    spool->path)
		  : 0;
}

int flmem_spool_open(const char *path, struct flmem_spool *ret_spool, struct flmem_error *err)
{
	struct flmem_spool spool = FLMEM_SPOOL_INIT;
	int rc;

	spool.made = mkdir(path, 0700) == 0;
	if (!spool.made && errno != EEXIST)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "cannot make the directory '%s'", path);
	spool.root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (spool.root >= 0)
		spool.path = realpath(path, NULL);
	if (!spool.path) {
		rc = flmem_error_set(err, flmem_code_of_open(errno), errno,
				     "cannot open the directory '%s'", path);
		flmem_spool_undo(&spool);
		flmem_spool_close(&spool);
		return rc;
	}
	rc = lock_root(&spool, err);
	if (!rc)
		rc = claim_root(&spool, err);
	if (!rc) {
		spool.uploads = flmem_spool_open_directory(spool.root, "uploads");
		spool.rounds = flmem_spool_open_directory(spool.root, "rounds");
		if (spool.uploads < 0 || spool.rounds < 0)
			rc = flmem_error_set(err, FLMEM_EFAILED,
					     spool.uploads < 0 ? -spool.uploads : -spool.rounds,
					     "cannot make a directory in '%s'", path);
	}
	if (rc) {
		flmem_spool_undo(&spool);
		flmem_spool_close(&spool);
		return rc;
	}
	*ret_spool = spool;
	return 0;
}

void flmem_spool_undo(struct flmem_spool *spool)
{
	DIR *list = spool->made ? flmem_io_open_dir(spool->root, ".") : NULL;
	struct dirent *entry;

	if (!list)
		return;
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			flmem_spool_remove(spool->root, entry->d_name);
	closedir(list);
	if (spool->path)
		rmdir(spool->path);
}

void flmem_spool_close(struct flmem_spool *spool)
{
	flmem_cleanup_close(&spool->uploads);
	flmem_cleanup_close(&spool->rounds);
	flmem_cleanup_close(&spool->root);
	free(spool->path);
	*spool = (struct flmem_spool)FLMEM_SPOOL_INIT;
}

int flmem_spool_check_place(const struct flmem_spool *spool, struct flmem_error *err)
{
	struct stat there, ours;
	bool found = fstat(spool->root, &ours) == 0 && stat(spool->path, &there) == 0;

	if (!found && errno != ESTALE && flmem_code_of_open(errno) == FLMEM_EFAILED)
		return flmem_error_set(err, FLMEM_EFAILED, errno,
				       "cannot examine the state directory of the server");
	if (found && flmem_file_is_same(&there, &ours))
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, ESTALE,
			       "the state directory of the server was moved or replaced; move it "
			       "back");
}

int flmem_spool_open_round(const struct flmem_spool *spool, uint64_t round)
{
	char name[24];

	snprintf(name, sizeof(name), "%" PRIu64, round);
	return flmem_spool_open_directory(spool->rounds, name);
}

int flmem_spool_open_file(int directory, const char *name, int flags)
{
	int fd = openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
			0600);
	struct stat status;
	int rc;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &status) < 0 ? -errno : S_ISREG(status.st_mode) ? 0 : -EINVAL;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int flmem_spool_read(int directory, const char *name, struct flmem_buf *text)
{
	FLMEM_AUTO_CLOSE int fd = flmem_spool_open_file(directory, name, O_RDONLY);
	int rc = fd < 0 ? fd : flmem_io_read_all(fd, CONTENT_MAX, text);

	return rc ? rc : text->failed ? -ENOMEM : 0;
}

int flmem_spool_write(int directory, const char *name, const void *bytes, size_t length)
{
	FLMEM_AUTO_TEMPORARY struct flmem_temporary temporary = FLMEM_TEMPORARY_INIT;
	int rc = flmem_temporary_create(directory, 0600, &temporary);

	if (!rc)
		rc = flmem_io_write_all(temporary.fd, bytes, length);
	if (!rc && fdatasync(temporary.fd) < 0)
		rc = -errno;
	if (!rc && renameat(directory, temporary.name, directory, name) < 0)
		rc = -errno;
	if (!rc) {
		temporary.name[0] = '\0';
		rc = flmem_file_place_sync(directory);
	}
	return rc;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the directories that this file lists above */
static void remove_content(int fd)
{
	FLMEM_AUTO_DIR DIR *list = fdopendir(fd);
	struct dirent *entry;

	if (!list) {
		close(fd);
		return;
	}
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			flmem_spool_remove(dirfd(list), entry->d_name);
}

/* NOLINTNEXTLINE(misc-no-recursion): the same */
void flmem_spool_remove(int directory, const char *name)
{
	int fd;

	if (unlinkat(directory, name, 0) == 0 || errno == ENOENT)
		return;
	fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	remove_content(fd);
	unlinkat(directory, name, AT_REMOVEDIR);
}

uint64_t flmem_spool_free_bytes(const struct flmem_spool *spool)
{
	uint64_t bytes;

	return flmem_io_free_bytes(spool->root, &bytes) < 0 ? 0 : bytes;
}
