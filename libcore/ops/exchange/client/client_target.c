/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/client/client_target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/buf.h"

#define BLOCK_BYTES   (1U << 20)
#define TRIES	      10U
#define IDENTITY_NAME FLMEM_TARGET_SUFFIX ".sha256"
#define NAME_ROOM     (NAME_MAX + 1)

struct part_names {
	char part[NAME_ROOM], identity[NAME_ROOM];
};

static int make_part_names(const struct flmem_pull_target *target, struct part_names *names,
			   struct flmem_error *err)
{
	int length = snprintf(names->identity, sizeof(names->identity), "%s" IDENTITY_NAME,
			      target->name);

	if (length < 0 || (size_t)length >= sizeof(names->identity))
		return flmem_error_set(err, FLMEM_EUSAGE, ENAMETOOLONG, "cannot write '%s'",
				       target->name);
	snprintf(names->part, sizeof(names->part), "%s" FLMEM_TARGET_SUFFIX, target->name);
	return 0;
}

static int report_write(const struct flmem_pull_target *target, int error, struct flmem_error *err)
{
	char shown[FLMEM_EXCHANGE_REASON_MAX];

	flmem_text_escape(target->name, shown, sizeof(shown));
	if (error == FLMEM_PULL_PART_CUT)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "another program has truncated '%s" FLMEM_TARGET_SUFFIX
				       "' while it was received; run the command again",
				       shown);
	if (error == ENOSPC || error == EDQUOT)
		return flmem_error_set(err, FLMEM_EFAILED, error,
				       "cannot write '%s" FLMEM_TARGET_SUFFIX "'; free some space "
				       "and pull again to continue",
				       shown);
	return flmem_error_set(err, error == EACCES ? FLMEM_EPERM : FLMEM_EFAILED, error,
			       "cannot write '%s" FLMEM_TARGET_SUFFIX "'", shown);
}

/*
 * Returns true if the file is of this user: others may have put a link or a file into the
 * directory.
 */
static bool is_left_by_user(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_nlink == 1 && status->st_uid == geteuid();
}

/*
 * Returns 1 if the part still has its name, 0 if it lost it before it was locked, to a process that
 * completed it, or -errno.
 */
static int has_part_name(const struct flmem_pull_target *target, const struct part_names *names)
{
	return flmem_file_place_has_name(target->fd, target->directory, names->part);
}

/* Opens or creates the part. Returns a descriptor or -errno; -EPERM for a file of another user. */
static int open_or_create_part(const struct flmem_pull_target *target,
			       const struct part_names *names)
{
	struct stat status;
	int fd = openat(target->directory, names->part,
			O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);

	if (fd >= 0 || errno != EEXIST)
		return fd < 0 ? -errno : fd;
	fd = flmem_file_place_open_regular(target->directory, names->part,
					   O_RDWR | O_CLOEXEC | O_NOFOLLOW, &status);
	if (fd < 0 || is_left_by_user(&status))
		return fd;
	close(fd);
	return -EPERM;
}

static int report_foreign_part(const char *name, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is not from an unfinished pull of this user; remove it, or "
			       "name another output",
			       name);
}

static int report_fetched(const struct part_names *names, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0, "another process fetches '%s' now",
			       names->part);
}

/* Reports a failed lock: another process holds it, or the file system has no locks. */
static int report_unlocked_part(const struct part_names *names, int sys_errno,
				struct flmem_error *err)
{
	if (sys_errno == EWOULDBLOCK)
		return report_fetched(names, err);
	return flmem_error_set(err, FLMEM_EFAILED, sys_errno,
			       "cannot lock '%s' against other processes; name an output on a file "
			       "system with locks (flock)",
			       names->part);
}

static int open_target_part(struct flmem_pull_target *target, const struct part_names *names,
			    struct flmem_error *err)
{
	for (unsigned i = 0; i < TRIES; i++) {
		int named, fd = open_or_create_part(target, names);

		if (fd == -EINVAL || fd == -ELOOP)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' exists and is not a regular file",
					       names->part);
		if (fd == -EPERM)
			return report_foreign_part(names->part, err);
		if (fd < 0 && fd != -ENOENT)
			return report_write(target, -fd, err);
		if (fd < 0)
			continue;
		target->fd = fd;
		if (flock(fd, LOCK_EX | LOCK_NB))
			return report_unlocked_part(names, errno, err);
		named = has_part_name(target, names);
		if (named)
			return named < 0 ? report_write(target, -named, err) : 0;
		close(FLMEM_TAKE_FD(target->fd));
	}
	return report_fetched(names, err);
}

/*
 * Refuses a file of another program with the part's name. What an interrupted pull left has an
 * identity file, since that is written before the first byte.
 */
static int check_left_part(const struct flmem_pull_target *target, const struct part_names *names,
			   struct flmem_error *err)
{
	struct stat part, identity;
	int found = fstatat(target->directory, names->identity, &identity, AT_SYMLINK_NOFOLLOW);

	if (found < 0 && errno != ENOENT)
		return report_write(target, errno, err);
	if (found == 0)
		return is_left_by_user(&identity) ? 0 : report_foreign_part(names->identity, err);
	if (fstat(target->fd, &part) || !part.st_size)
		return 0;
	return report_foreign_part(names->part, err);
}

/* Returns true if the part belongs to the same file. */
static bool is_same_target(const struct flmem_pull_target *target, const struct part_names *names)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	return !flmem_io_read_file_at(target->directory, names->identity, FLMEM_SHA256_HEX,
				      &text) &&
	       strcmp(text.data, target->file->sha256) == 0;
}

/*
 * Returns true if the part has bytes: the identity beside an empty part may not have reached the
 * disk yet.
 */
static bool has_part_bytes(const struct flmem_pull_target *target)
{
	struct stat part;

	return fstat(target->fd, &part) == 0 && part.st_size > 0;
}

/* Writes the identity file; it is on the disk, with its name, before the part has a byte. */
static int write_identity(const struct flmem_pull_target *target, const struct part_names *names,
			  struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd =
		openat(target->directory, names->identity,
		       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	int rc =
		fd < 0 ? -errno
		       : flmem_io_write_all(fd, target->file->sha256, strlen(target->file->sha256));

	if (!rc && fsync(fd))
		rc = -errno;
	if (!rc)
		rc = flmem_file_place_sync(target->directory);
	return rc ? report_write(target, -rc, err) : 0;
}

/* Continues the digest with the bytes that an earlier run has written. */
static int read_earlier_part(struct flmem_pull_target *target, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *block = malloc(BLOCK_BYTES);
	struct stat status;
	ssize_t got;

	if (!block)
		return flmem_error_nomem(err, "cannot read '%s'", target->name);
	if (fstat(target->fd, &status) || (uint64_t)status.st_size > target->file->bytes)
		return flmem_pull_target_restart(target, err);
	while (target->at < (uint64_t)status.st_size) {
		got = pread(target->fd, block, BLOCK_BYTES, (off_t)target->at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return flmem_pull_target_restart(target, err);
		flmem_digest_add(&target->sha, block, (size_t)got);
		target->at += (uint64_t)got;
	}
	target->resumed = target->at;
	return 0;
}

static int check_space(const struct flmem_pull_target *target, struct flmem_error *err)
{
	uint64_t needed = target->file->bytes - target->at, free_bytes;
	char wanted[FLMEM_TEXT_BYTES_MAX], has[FLMEM_TEXT_BYTES_MAX];

	if (flmem_io_free_bytes(target->fd, &free_bytes) < 0 || free_bytes >= needed)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, ENOSPC, "'%s' needs %s more, %s are free",
			       target->name, flmem_text_bytes(needed, wanted, sizeof(wanted)),
			       flmem_text_bytes(free_bytes, has, sizeof(has)));
}

int flmem_pull_target_restart(struct flmem_pull_target *target, struct flmem_error *err)
{
	int rc;

	flmem_pull_writer_close(FLMEM_TAKE(target->writer));
	target->at = 0;
	target->resumed = false;
	flmem_digest_end(&target->sha, NULL);
	rc = flmem_digest_begin(&target->sha, FLMEM_DIGEST_SHA256, err);
	if (!rc && !target->unwritten && ftruncate(target->fd, 0))
		rc = report_write(target, errno, err);
	return rc;
}

/* Refuses to replace a device or a socket by a file. */
static int check_target_replaced(const struct flmem_pull_target *target, struct flmem_error *err)
{
	struct stat status;

	if (fstatat(target->directory, target->name, &status, AT_SYMLINK_NOFOLLOW) ||
	    S_ISREG(status.st_mode) || S_ISLNK(status.st_mode))
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' exists and is not a regular file",
			       target->name);
}

int flmem_pull_target_open(struct flmem_pull_target *target, struct flmem_error *err)
{
	struct part_names names;
	int rc;

	if (target->unwritten)
		return flmem_pull_target_restart(target, err);
	rc = make_part_names(target, &names, err);
	if (!rc)
		rc = check_target_replaced(target, err);
	if (!rc)
		rc = open_target_part(target, &names, err);
	if (!rc)
		rc = check_left_part(target, &names, err);
	if (rc)
		return rc;
	if (has_part_bytes(target) && is_same_target(target, &names)) {
		rc = flmem_digest_begin(&target->sha, FLMEM_DIGEST_SHA256, err);
		if (!rc)
			rc = read_earlier_part(target, err);
	} else {
		rc = flmem_pull_target_restart(target, err);
		if (!rc)
			rc = write_identity(target, &names, err);
	}
	return rc ? rc : check_space(target, err);
}

void flmem_pull_target_clear(struct flmem_pull_target *target)
{
	/* Keep what has arrived for the next run. */
	flmem_pull_writer_close(FLMEM_TAKE(target->writer));
	flmem_digest_end(&target->sha, NULL);
	if (target->fd >= 0)
		close(target->fd);
	target->fd = -1;
}

int flmem_pull_target_append(struct flmem_pull_target *target, const char *bytes, size_t length,
			     struct flmem_error *err)
{
	int rc = 0, error;

	if (!target->writer)
		rc = flmem_pull_writer_open(target->fd, target->at, &target->sha, &target->writer,
					    err);
	if (rc)
		return rc;
	error = flmem_pull_writer_add(target->writer, bytes, length);
	if (error)
		return report_write(target, error, err);
	target->at += length;
	return 0;
}

static void remove_part(const struct flmem_pull_target *target, bool whole)
{
	struct part_names names;

	if (make_part_names(target, &names, NULL))
		return;
	if (whole)
		unlinkat(target->directory, names.part, 0);
	unlinkat(target->directory, names.identity, 0);
}

int flmem_pull_target_finish(struct flmem_pull_target *target, struct flmem_error *err)
{
	unsigned char digest[FLMEM_SHA256_BYTES];
	char hex[FLMEM_SHA256_HEX];
	int error = flmem_pull_writer_close(FLMEM_TAKE(target->writer));

	if (error)
		return report_write(target, error, err);
	flmem_digest_end(&target->sha, digest);
	flmem_hex_print(digest, sizeof(digest), hex);
	if (strcmp(hex, target->file->sha256) != 0) {
		if (!target->unwritten)
			remove_part(target, true);
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the SHA-256 of '%s' is %.16s..., that of the published "
				       "file %.16s...%s",
				       target->name, hex, target->file->sha256,
				       target->unwritten ? "" : "; the received data were removed");
	}
	if (!target->unwritten && fsync(target->fd)) {
		error = errno;
		remove_part(target, true); /* the page cache has bytes that the disk lacks */
		return report_write(target, error, err);
	}
	if (!target->unwritten && fstat(target->fd, &target->part))
		return report_write(target, errno, err);
	if (!target->unwritten && (uint64_t)target->part.st_size != target->file->bytes)
		return report_write(target, FLMEM_PULL_PART_CUT, err);
	target->complete = true;
	return 0;
}

/* Checks that the part still has its name, which may by now belong to another pull's part. */
static int check_part_place(const struct flmem_pull_target *target, const struct part_names *names,
			    struct flmem_error *err)
{
	struct stat named;
	bool found = fstatat(target->directory, names->part, &named, AT_SYMLINK_NOFOLLOW) == 0;

	if (!found && flmem_code_of_open(errno) == FLMEM_EFAILED)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot examine '%s'",
				       names->part);
	if (found && flmem_file_is_same(&named, &target->part) &&
	    named.st_size == target->part.st_size)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "'%s' was removed, replaced or truncated while it was received; run "
			       "the command again",
			       names->part);
}

int flmem_pull_target_rename(struct flmem_pull_target *target, struct flmem_error *err)
{
	struct part_names names;
	int rc = make_part_names(target, &names, err);

	if (!rc)
		rc = check_part_place(target, &names, err);
	if (rc)
		return rc;
	if (renameat(target->directory, names.part, target->directory, target->name))
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot rename '%s' to '%s'",
				       names.part, target->name);
	rc = flmem_file_place_flush(target->directory, target->name, err);
	if (!rc)
		remove_part(target, false);
	return rc;
}
