/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/io.h"

#define TRIES 10

/* All bytes are reserved before the first is written, so a smaller file was cut by others. */
static bool has_prepared_bytes(int fd, uint64_t bytes)
{
	struct stat status;

	return fstat(fd, &status) < 0 || (uint64_t)status.st_size >= bytes;
}

int flmem_part_file_write_other(const struct flmem_part_file *part, int fd, uint64_t offset,
				const char *bytes, size_t length, struct flmem_error *err)
{
	/* Writing past the end would leave zeros in place of the missing bytes. */
	if (!has_prepared_bytes(fd, offset + length))
		return fd == part->fd
			       ? flmem_part_file_report_cut(part->place.path, err)
			       : flmem_error_set(err, FLMEM_EFAILED, 0,
						 "another program has truncated a file beside "
						 "'%s.part' while it was written; run the command "
						 "again",
						 part->place.path);
	while (length) {
		ssize_t put = pwrite(fd, bytes, length, (off_t)offset);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return flmem_error_set(err, FLMEM_EFAILED, put ? errno : EIO,
					       "cannot write '%s.part' at byte %llu",
					       part->place.path, (unsigned long long)offset);
		bytes += put;
		offset += (uint64_t)put;
		length -= (size_t)put;
	}
	return 0;
}

/* Removes the journal of a refused call, which lists nothing, unless a call has just created it. */
static void remove_empty_journal(const struct flmem_part_file *part)
{
	struct stat status;

	if (flock(part->journal, LOCK_EX | LOCK_NB) == 0 && fstat(part->journal, &status) == 0 &&
	    !status.st_size &&
	    flmem_file_place_is_named(part->journal, part->place.directory, part->journal_name))
		unlinkat(part->place.directory, part->journal_name, 0);
}

/* Returns 1 if the part still has its name, 0 if not, or a negative errno. */
static int has_its_name(const struct flmem_part_file *part)
{
	return flmem_file_place_has_name(part->fd, part->place.directory, part->name);
}

/* Returns true if another file has the name; that of a published or removed part is unused. */
static bool is_name_taken(const struct flmem_part_file *part)
{
	return faccessat(part->place.directory, part->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	       has_its_name(part) != 1;
}

static void release_files(struct flmem_part_file *part)
{
	if (part->journal >= 0 && !part->ended)
		remove_empty_journal(part);
	flmem_cleanup_close(&part->fd);
	flmem_cleanup_close(&part->journal);
	part->fd = part->journal = -1;
}

bool flmem_part_file_is_dropped(const struct flmem_part_file *part)
{
	bool unflushed = part->unflushed && part->journal >= 0;

	return part->fd >= 0 && (!part->keep || unflushed) && !part->ended;
}

void flmem_part_file_clear(struct flmem_part_file *part)
{
	/*
	 * The owner alone removes its files, while it still holds the lock, and not what another
	 * program has put in their place. The part is removed first: after a kill in between, a
	 * part without its journal would be refused as another program's.
	 */
	if (flmem_part_file_is_dropped(part) && !is_name_taken(part)) {
		unlinkat(part->place.directory, part->name, 0);
		if (part->journal >= 0)
			unlinkat(part->place.directory, part->journal_name, 0);
	}
	release_files(part);
	flmem_file_place_close(&part->place);
	free(part->name);
	free(part->journal_name);
	*part = (struct flmem_part_file)FLMEM_PART_FILE_INIT;
}

static int report_unwritable(const struct flmem_part_file *part, int sys_errno,
			     struct flmem_error *err)
{
	return flmem_error_set(err, flmem_code_of_open(sys_errno), sys_errno,
			       "cannot write '%s.part'", part->place.path);
}

/*
 * Returns true for a file of this user: others may have put links there. A part without a name is
 * finished.
 */
static bool is_own_file(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_nlink <= 1 && status->st_uid == geteuid();
}

static int open_own(const struct flmem_part_file *part, const char *name, int flags, int *ret_fd,
		    struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd = openat(part->place.directory, name,
					 O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0666);
	bool made = fd >= 0;
	struct stat status;

	if (fd < 0 && errno == EEXIST)
		fd = openat(part->place.directory, name,
			    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags, 0666);
	if (fd < 0 && errno != ELOOP && errno != EISDIR)
		return report_unwritable(part, errno, err);
	if (fd >= 0 && fstat(fd, &status) < 0) {
		int sys_errno = errno;

		/* Otherwise the next call would take the created file for another program's. */
		if (made)
			unlinkat(part->place.directory, name, 0);
		return report_unwritable(part, sys_errno, err);
	}
	if (fd < 0 || !is_own_file(&status))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' beside '%s' is not from an unfinished aggregation of "
				       "this user; remove it, or name another output",
				       name, part->place.path);
	*ret_fd = FLMEM_TAKE_FD(fd);
	return 0;
}

static bool name_files(struct flmem_part_file *part)
{
	if (asprintf(&part->name, "%s.part", part->place.name) < 0)
		part->name = NULL;
	if (asprintf(&part->journal_name, "%s" FLMEM_PART_FILE_JOURNAL_SUFFIX, part->place.name) <
	    0)
		part->journal_name = NULL;
	return part->name && part->journal_name;
}

static int report_other(const struct flmem_part_file *part, struct flmem_error *err)
{
	return flmem_error_set(
		err, FLMEM_EFAILED, 0,
		"another aggregation is writing '%s'; wait for its end, or name another "
		"output (processes of one MPI job need --mpi)",
		part->place.path);
}

/*
 * Reports a lock that others hold, or a file system without locks (Lustre without its mount
 * option).
 */
static int report_unlocked(const struct flmem_part_file *part, const char *name, int sys_errno,
			   struct flmem_error *err)
{
	if (sys_errno == EWOULDBLOCK)
		return report_other(part, err);
	return flmem_error_set(err, FLMEM_EFAILED, sys_errno,
			       "cannot lock '%s' beside '%s' against other aggregations; name an "
			       "output on a file system with locks (flock)",
			       name, part->place.path);
}

/* Opens and locks a file. False, with 0 in *ret_rc, if it lost its name before it was locked. */
static bool lock_own(const struct flmem_part_file *part, const char *name, int flags, int *ret_fd,
		     int *ret_rc, struct flmem_error *err)
{
	int named;

	*ret_rc = open_own(part, name, flags, ret_fd, err);
	if (*ret_rc)
		return false;
	if (flock(*ret_fd, LOCK_EX | LOCK_NB) < 0) {
		*ret_rc = report_unlocked(part, name, errno, err);
		return false;
	}
	named = flmem_file_place_has_name(*ret_fd, part->place.directory, name);
	if (named < 0)
		*ret_rc = report_unwritable(part, -named, err);
	return named == 1;
}

static int report_others_part(const struct flmem_part_file *part, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' and '%s' beside '%s' are not from an unfinished aggregation; "
			       "remove them, or name another output",
			       part->name, part->journal_name, part->place.path);
}

static int check_journal(const struct flmem_part_file *part, struct flmem_error *err)
{
	bool own;
	int rc = flmem_journal_is_own(part->journal, &own);

	if (rc)
		return report_unwritable(part, -rc, err);
	return own ? 0 : report_others_part(part, err);
}

/*
 * Locks the journal first: unlike the part it keeps its name until the output has its own. So no
 * process takes the journal, or the folder of the part, from a writer that is about to finish.
 */
static int open_locked(struct flmem_part_file *part, struct flmem_error *err)
{
	for (int i = 0; i < TRIES; i++) {
		int rc = 0;

		if (lock_own(part, part->journal_name, O_APPEND, &part->journal, &rc, err)) {
			/* Check first: the part would be created beside a foreign journal. */
			rc = check_journal(part, err);
			if (rc || lock_own(part, part->name, 0, &part->fd, &rc, err))
				return rc;
		}
		release_files(part);
		if (rc)
			return rc;
	}
	return report_other(part, err);
}

/*
 * Refuses a part without a journal, which may be a file of another program. What a killed call left
 * has a journal, since that is written first.
 */
static int check_part(struct flmem_part_file *part, struct flmem_error *err)
{
	struct stat status, journal;

	/* Kept until it is prepared: it may be of an earlier call, or of another program. */
	part->keep = true;
	if (fstat(part->fd, &status) < 0 || fstat(part->journal, &journal) < 0)
		return report_unwritable(part, errno, err);
	part->keep = status.st_size > 0;
	return !status.st_size || journal.st_size ? 0 : report_others_part(part, err);
}

/*
 * Refuses an output that cannot be replaced: a rename would turn a device into a plain file. The
 * mode of an existing file gives no access to the new one.
 */
static int check_output(const struct flmem_part_file *part, struct flmem_error *err)
{
	struct stat old, new;

	bool is_there =
		fstatat(part->place.directory, part->place.name, &old, AT_SYMLINK_NOFOLLOW) == 0;
	bool is_link = is_there && S_ISLNK(old.st_mode);

	if (!is_there && errno != ENOENT)
		return flmem_error_set(err, flmem_code_of_open(errno), errno, "cannot examine '%s'",
				       part->place.path);
	if (!is_there || fstatat(part->place.directory, part->place.name, &old, 0) < 0)
		return 0;
	if (!S_ISREG(old.st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a regular file; name another output",
				       part->place.path);
	if (is_link)
		return 0;
	if (fstat(part->fd, &new) < 0 ||
	    fchmod(part->fd, new.st_mode &old.st_mode &(S_IRWXU | S_IRWXG | S_IRWXO)) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot prepare '%s'",
				       part->place.path);
	return 0;
}

int flmem_part_file_report_place(const char *path, int rc, struct flmem_error *err)
{
	if (rc == -ENOENT)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"cannot write '%s': its directory does not exist; create it first", path);
	return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot write '%s'", path);
}

int flmem_part_file_open(struct flmem_part_file *part, const char *path, struct flmem_error *err)
{
	int rc = flmem_file_place_open(path, &part->place);

	if (rc)
		return flmem_part_file_report_place(path, rc, err);
	if (!name_files(part))
		return flmem_error_nomem(err, "cannot write '%s'", path);
	rc = open_locked(part, err);
	if (!rc)
		rc = check_part(part, err);
	return rc ? rc : check_output(part, err);
}

void flmem_part_file_forget(const char *path)
{
	FLMEM_AUTO_PART_FILE struct flmem_part_file part = FLMEM_PART_FILE_INIT;
	struct stat status;
	bool own;

	part.keep = true;
	if (flmem_file_place_open(path, &part.place) || !name_files(&part) ||
	    fstatat(part.place.directory, part.name, &status, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	part.journal = openat(part.place.directory, part.journal_name,
			      O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (part.journal >= 0 && fstat(part.journal, &status) == 0 && is_own_file(&status) &&
	    flock(part.journal, LOCK_EX | LOCK_NB) == 0 &&
	    flmem_journal_is_own(part.journal, &own) == 0 && own &&
	    flmem_file_place_is_named(part.journal, part.place.directory, part.journal_name))
		unlinkat(part.place.directory, part.journal_name, 0);
}

static int report_unshared(const struct flmem_part_file *part, const char *name,
			   struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "'%s' beside '%s' is not what the first process has made: all of "
			       "them need the same directory",
			       name, part->place.path);
}

int flmem_part_file_join_other(const struct flmem_part_file *part, const char *name, uint64_t bytes,
			       int *ret_fd, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd =
		openat(part->place.directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat status;

	if (fd < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno,
				       "cannot open '%s' beside '%s', which the first process has "
				       "made: all of them need the same directory",
				       name, part->place.path);
	if (fstat(fd, &status) < 0 || !is_own_file(&status) || (uint64_t)status.st_size != bytes)
		return report_unshared(part, name, err);
	*ret_fd = FLMEM_TAKE_FD(fd);
	return 0;
}

int flmem_part_file_share(struct flmem_part_file *part, uint64_t mark, struct flmem_error *err)
{
	int rc = flmem_journal_mark(part->journal, mark);

	if (!rc && fdatasync(part->journal) < 0)
		rc = -errno;
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write '%s.part.journal'",
				       part->place.path);
	if (flock(part->fd, LOCK_SH | LOCK_NB) < 0)
		rc = report_unlocked(part, part->name, errno, err);
	else if (has_its_name(part) != 1)
		rc = report_other(part, err);
	if (rc)
		/* The files now belong to another process: the lock was free for a moment. */
		release_files(part);
	return rc;
}

static int check_joined(struct flmem_part_file *part, uint64_t mark, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int journal = -1;

	if (flock(part->fd, LOCK_SH | LOCK_NB) < 0)
		return report_unlocked(part, part->name, errno, err);
	journal = openat(part->place.directory, part->journal_name,
			 O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (journal >= 0 && flmem_journal_has_mark(journal, mark) && has_its_name(part) == 1)
		return 0;
	return report_unshared(part, part->name, err);
}

int flmem_part_file_join(struct flmem_part_file *part, const char *path, uint64_t bytes,
			 uint64_t mark, struct flmem_error *err)
{
	int rc = flmem_file_place_open(path, &part->place);

	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot open the directory of '%s', where the first process "
				       "writes: all of them need the same directory",
				       path);
	part->keep = true; /* the files belong to the first process */
	if (!name_files(part))
		return flmem_error_nomem(err, "cannot write '%s'", path);
	rc = flmem_part_file_join_other(part, part->name, bytes, &part->fd, err);
	return rc ? rc : check_joined(part, mark, err);
}

/* Finds the space that is missing for a file of `bytes`; false if that is not reported. */
static bool read_missing_bytes(int fd, uint64_t bytes, uint64_t *ret_missing)
{
	struct stat status;
	uint64_t all;

	if (fstat(fd, &status) < 0 || flmem_io_free_bytes(fd, &all) < 0)
		return false;
	if (__builtin_add_overflow(all, (uint64_t)status.st_blocks * 512, &all))
		all = UINT64_MAX;
	*ret_missing = bytes > all ? bytes - all : 0;
	return true;
}

static int report_full(const struct flmem_part_file *part, int fd, uint64_t bytes, int sys_errno,
		       struct flmem_error *err)
{
	uint64_t missing;

	/* Some file systems report free bytes that a file cannot get. */
	if (sys_errno != ENOSPC || !read_missing_bytes(fd, bytes, &missing) || !missing)
		return flmem_error_set(err, FLMEM_EFAILED, sys_errno,
				       "cannot reserve %llu bytes for '%s'",
				       (unsigned long long)bytes, part->place.path);
	return flmem_error_set(err, FLMEM_EFAILED, ENOSPC,
			       "'%s' needs %llu bytes, but its file system is short by %llu",
			       part->place.path, (unsigned long long)bytes,
			       (unsigned long long)missing);
}

/* Reserves the blocks of a file; file systems without that operation only get the size. */
static int reserve_blocks(const struct flmem_part_file *part, int fd, uint64_t bytes,
			  struct flmem_error *err)
{
	uint64_t missing = 0;
	int rc;

	/*
	 * The kernel would use all free space before it fails, and others would find a full disk.
	 */
	if (read_missing_bytes(fd, bytes, &missing) && missing)
		return report_full(part, fd, bytes, ENOSPC, err);
	if (ftruncate(fd, (off_t)bytes) < 0)
		return report_full(part, fd, bytes, errno, err);
	do
		rc = fallocate(fd, 0, 0, (off_t)bytes) < 0 ? errno : 0;
	while (rc == EINTR);
	if (rc && rc != EOPNOTSUPP)
		return report_full(part, fd, bytes, rc, err);
	return 0;
}

int flmem_part_file_restart(struct flmem_part_file *part, uint64_t fingerprint,
			    struct flmem_error *err)
{
	int rc = flmem_journal_start(part->journal, fingerprint);

	if (!rc && fdatasync(part->journal) < 0)
		rc = -errno;
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write '%s.part.journal'",
				       part->place.path);
	/* Otherwise a power failure could leave a part without a journal: see check_part(). */
	rc = flmem_file_place_sync(part->place.directory);
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc,
				    "cannot flush the directory of '%s' to the disk",
				    part->place.path)
		  : 0;
}

int flmem_part_file_prepare(struct flmem_part_file *part, uint64_t bytes, uint64_t fingerprint,
			    struct flmem_journal_chunk *chunks, size_t count,
			    struct flmem_error *err)
{
	struct stat status;
	bool resumed = chunks && fstat(part->fd, &status) == 0 &&
		       (uint64_t)status.st_size == bytes &&
		       flmem_journal_read(part->journal, fingerprint, chunks, count);
	int rc;

	part->resumed = resumed;
	part->bytes = bytes;
	part->restarted = chunks && part->keep && !resumed;
	if (resumed)
		return 0;
	part->keep = false;
	if (ftruncate(part->fd, 0) < 0)
		return report_unwritable(part, errno, err);
	rc = flmem_part_file_restart(part, fingerprint, err);
	return rc ? rc : reserve_blocks(part, part->fd, bytes, err);
}

int flmem_part_file_write(const struct flmem_part_file *part, uint64_t offset, const char *bytes,
			  size_t length, struct flmem_error *err)
{
	return flmem_part_file_write_other(part, part->fd, offset, bytes, length, err);
}

int flmem_part_file_open_other(const struct flmem_part_file *part, const char *name, int *ret_fd,
			       struct flmem_error *err)
{
	return open_own(part, name, 0, ret_fd, err);
}

int flmem_part_file_reserve_other(const struct flmem_part_file *part, int fd, uint64_t bytes,
				  struct flmem_error *err)
{
	return reserve_blocks(part, fd, bytes, err);
}

int flmem_part_file_report_lost(const char *path, int named, struct flmem_error *err)
{
	if (named < 0)
		return flmem_error_set(err, FLMEM_EFAILED, -named, "cannot examine '%s.part'",
				       path);
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "'%s.part' was removed or replaced while it was written; run the "
			       "command again",
			       path);
}

int flmem_part_file_report_cut(const char *path, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "another program has truncated '%s.part' while it was written; run "
			       "the command again",
			       path);
}

int flmem_part_file_report_unflushed(struct flmem_part_file *part, int sys_errno,
				     struct flmem_error *err)
{
	part->unflushed = true;
	return flmem_error_set(err, FLMEM_EFAILED, sys_errno, "cannot flush '%s.part' to the disk",
			       part->place.path);
}

int flmem_part_file_publish(struct flmem_part_file *part, struct flmem_error *err)
{
	int named;

	if (fdatasync(part->fd) < 0)
		return flmem_part_file_report_unflushed(part, errno, err);
	/* The part's name may by now belong to another call's part, which is not complete. */
	named = has_its_name(part);
	if (named != 1)
		return flmem_part_file_report_lost(part->place.path, named, err);
	if (!has_prepared_bytes(part->fd, part->bytes))
		return flmem_part_file_report_cut(part->place.path, err);
	if (renameat(part->place.directory, part->name, part->place.directory, part->place.name) <
	    0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot rename '%s.part'",
				       part->place.path);
	part->keep = true; /* the file has its final name now */
	return 0;
}

int flmem_part_file_end(struct flmem_part_file *part, const char *path, struct flmem_error *err)
{
	unlinkat(part->place.directory, part->journal_name, 0);
	part->ended = true;
	return flmem_file_place_flush(part->place.directory, path, err);
}

int flmem_part_file_commit(struct flmem_part_file *part, struct flmem_error *err)
{
	int rc = flmem_file_place_check(&part->place, err);

	if (!rc)
		rc = flmem_part_file_publish(part, err);
	return rc ? rc : flmem_part_file_end(part, part->place.path, err);
}
