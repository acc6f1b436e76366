/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/file_place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/files/io.h"
#include "base/portable.h"
#include "base/text/text.h"

#define TRIES 16

int flmem_file_place_open(const char *path, struct flmem_file_place *ret_place)
{
	const char *name = flmem_text_basename(path);
	FLMEM_AUTO_FREE char *directory =
		name == path ? strdup(".") : strndup(path, (size_t)(name - path));
	int fd;

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return *path ? -EISDIR : -ENOENT;
	fd = directory ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd < 0)
		return directory ? -errno : -ENOMEM;
	*ret_place = (struct flmem_file_place){.directory = fd, .path = path, .name = name};
	return 0;
}

void flmem_file_place_close(struct flmem_file_place *place)
{
	flmem_cleanup_close(&place->directory);
	place->directory = -1;
}

int flmem_file_place_check(const struct flmem_file_place *place, struct flmem_error *err)
{
	struct flmem_file_place now = FLMEM_FILE_PLACE_INIT;
	struct stat there, here;
	int rc = flmem_file_place_open(place->path, &now);
	bool same = false;

	if (!rc && (fstat(now.directory, &there) < 0 || fstat(place->directory, &here) < 0))
		rc = -errno;
	else if (!rc)
		same = flmem_file_is_same(&there, &here);
	flmem_file_place_close(&now);
	if (rc && flmem_code_of_open(-rc) == FLMEM_EFAILED)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot find the folder of '%s'",
				       place->path);
	return same ? 0
		    : flmem_error_set(err, FLMEM_EFAILED, 0,
				      "the folder of '%s' was moved, replaced or closed to this "
				      "user while it was written; run the command again",
				      place->path);
}

int flmem_file_place_open_regular(int directory, const char *name, int flags,
				  struct stat *ret_status)
{
	FLMEM_AUTO_CLOSE int seen =
		openat(directory, name, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW));
	struct stat status;
	int fd;

	if (seen < 0 || fstat(seen, &status) < 0)
		return -errno;
	if (S_ISLNK(status.st_mode))
		return -ELOOP;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	fd = flmem_io_reopen(seen, flags & ~O_NOFOLLOW);
	if (fd >= 0)
		*ret_status = status;
	return fd;
}

static uint64_t random_name_number(void)
{
	uint64_t number;
	struct timespec now;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) == (ssize_t)sizeof(number))
		return number;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec + (uint64_t)getpid();
}

bool flmem_file_is_same(const struct stat *one, const struct stat *other)
{
	return one->st_ino == other->st_ino && one->st_dev == other->st_dev;
}

bool flmem_file_is_among(const struct stat *file, const struct stat *files, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (flmem_file_is_same(file, &files[i]))
			return true;
	return false;
}

int flmem_file_place_has_name(int fd, int directory, const char *name)
{
	struct stat opened, named;

	if (fstat(fd, &opened) < 0)
		return -errno;
	if (fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return flmem_code_of_open(errno) == FLMEM_EFAILED ? -errno : 0;
	return flmem_file_is_same(&opened, &named);
}

bool flmem_file_place_is_named(int fd, int directory, const char *name)
{
	return flmem_file_place_has_name(fd, directory, name) == 1;
}

int flmem_temporary_create(int directory, mode_t mode, struct flmem_temporary *ret_temporary)
{
	struct flmem_temporary new = {.directory = directory, .fd = -1};

	for (int i = 0; i < TRIES && new.fd < 0; i++) {
		/* The name begins with a dot: searches for configurations skip such files. */
		snprintf(new.name, sizeof(new.name), ".flmem-%016" PRIx64, random_name_number());
		new.fd = openat(directory, new.name,
				O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (new.fd < 0 && errno != EEXIST)
			break;
	}
	if (new.fd < 0)
		return -errno;
	*ret_temporary = new;
	return 0;
}

void flmem_temporary_clear(struct flmem_temporary *temporary)
{
	if (temporary->name[0])
		unlinkat(temporary->directory, temporary->name, 0);
	flmem_cleanup_close(&temporary->fd);
	*temporary = (struct flmem_temporary)FLMEM_TEMPORARY_INIT;
}

int flmem_file_place_sync(int directory)
{
	FLMEM_AUTO_CLOSE int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		/* A directory may be writable without being readable. */
		return errno == EACCES ? 0 : -errno;
	if (fsync(fd) == 0 || errno == EINVAL || errno == EOPNOTSUPP)
		return 0;
	return -errno;
}

int flmem_file_place_flush(int directory, const char *path, struct flmem_error *err)
{
	int rc = flmem_file_place_sync(directory);

	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc,
				    "'%s' has its name, but its directory cannot be flushed to "
				    "the disk",
				    path)
		  : 0;
}

bool flmem_file_is_replaceable(const struct stat *status)
{
	return S_ISREG(status->st_mode) || S_ISLNK(status->st_mode);
}

static int refuse_other_kind(const struct flmem_file_place *place, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a regular file; name another",
			       place->path);
}

/*
 * Refuses other kinds of file: a rename would turn a device into a plain file. Limits the mode to
 * that of the existing file, which may have been made private.
 */
static int check_replaced(const struct flmem_file_place *place, mode_t *mode,
			  struct flmem_error *err)
{
	struct stat old;
	mode_t read_write;

	if (fstatat(place->directory, place->name, &old, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISLNK(old.st_mode))
		return 0;
	if (!S_ISREG(old.st_mode))
		return refuse_other_kind(place, err);
	/* A user who may read a program may also run it. */
	read_write = old.st_mode & 0666;
	*mode &= read_write | ((read_write & 0444) >> 2) | S_IRWXU;
	return 0;
}

/*
 * Checks the kind once more: the file may have become a device or a socket since the caller has
 * checked it.
 */
static bool is_of_other_kind(const struct flmem_file_place *place)
{
	struct stat old;

	return fstatat(place->directory, place->name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	       !flmem_file_is_replaceable(&old);
}

static int publish_new(const struct flmem_file_place *place, struct flmem_temporary *new)
{
	if (flmem_file_rename(new->directory, new->name, place->directory, place->name,
			      RENAME_NOREPLACE) == 0)
		return 0;
	/* Not every file system supports the flag: renameat2(2). */
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(new->directory, new->name, place->directory, place->name, 0) < 0)
		return -errno;
	unlinkat(new->directory, new->name, 0);
	return 0;
}

int flmem_temporary_publish(const struct flmem_file_place *place, struct flmem_temporary *new,
			    bool replace, struct flmem_error *err)
{
	int rc;

	if (replace && is_of_other_kind(place))
		return refuse_other_kind(place, err);
	if (replace)
		rc = renameat(new->directory, new->name, place->directory, place->name) < 0 ? -errno
											    : 0;
	else
		rc = publish_new(place, new);
	if (!rc) {
		new->name[0] = '\0';
		return flmem_file_place_flush(place->directory, place->path, err);
	}
	if (!replace && rc == -EEXIST)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' exists; use --force to replace it", place->path);
	return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot %s '%s'",
			       replace ? "replace" : "create", place->path);
}

int flmem_file_place_write(const struct flmem_file_place *place, const void *bytes, size_t length,
			   mode_t mode, bool replace, struct flmem_error *err)
{
	FLMEM_AUTO_TEMPORARY struct flmem_temporary new = FLMEM_TEMPORARY_INIT;
	int rc = replace ? check_replaced(place, &mode, err) : 0;

	if (rc)
		return rc;
	rc = flmem_temporary_create(place->directory, mode, &new);
	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot write '%s'",
				       place->path);
	rc = flmem_io_write_all(new.fd, bytes, length);
	if (!rc && fsync(new.fd) < 0)
		rc = -errno;
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write '%s'", place->path);
	return flmem_temporary_publish(place, &new, replace, err);
}
