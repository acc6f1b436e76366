/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces a file with its corrected version. Root does this in directories whose owners can rename
 * anything at any moment, so each step uses the directory and the file that were checked, and the
 * old file always has a name: it gets a second link, the backup, before the new file takes its
 * name.
 */
#include <flmem/recommend.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_attributes.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/portable.h"
#include "base/text/buf.h"

#define BACKUPS_MAX 100

struct file_rewrite {
	const struct flmem_correction *correction;
	struct flmem_file_place place;
	int fd; /* descriptor of the old file */
	struct stat status;
	struct flmem_temporary fresh;
	char *backup;		 /* path of the backup */
	const char *backup_name; /* its name in the directory; NULL: not created yet */
};

static void clear_rewrite(struct file_rewrite *w)
{
	flmem_temporary_clear(&w->fresh);
	if (w->backup_name)
		unlinkat(w->place.directory, w->backup_name, 0);
	free(w->backup);
	flmem_cleanup_close(&w->fd);
	flmem_file_place_close(&w->place);
}

static int report_changed(const struct file_rewrite *w, struct flmem_error *err)
{
	return flmem_error_set(
		err, FLMEM_EUSAGE, 0,
		"'%s' has changed since it was checked; not written, run the command again",
		w->correction->file);
}

static bool has_text(const struct file_rewrite *w)
{
	size_t length = strlen(w->correction->before);
	FLMEM_AUTO_FREE char *now = malloc(length + 1);
	struct stat status;

	return now && fstat(w->fd, &status) == 0 && status.st_size == (off_t)length &&
	       flmem_io_read_at(w->fd, 0, now, length) &&
	       memcmp(now, w->correction->before, length) == 0;
}

static bool is_identified_file(const struct flmem_file_identity *identity,
			       const struct stat *status)
{
	return identity->device == status->st_dev && identity->inode == status->st_ino;
}

static int open_error(const struct file_rewrite *w, int rc, struct flmem_error *err)
{
	const char *file = w->correction->file;

	switch (-rc) {
	case ELOOP:
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is a symbolic link; name its target", file);
	case EINVAL:
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a regular file", file);
	case EACCES: /* EPERM: chattr(1) made it immutable or append-only */
	case EPERM:
	case EROFS:
		return flmem_error_set(err, FLMEM_EPERM, 0, "'%s' is read-only; not written", file);
	default:
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot open '%s'", file);
	}
}

/* Opens the old file, which must be unchanged since the check and writable for its owner. */
static int open_old(struct file_rewrite *w, struct flmem_error *err)
{
	const struct flmem_correction *c = w->correction;
	struct stat folder;

	if (fstat(w->place.directory, &folder) < 0 || !is_identified_file(&c->folder, &folder))
		return report_changed(w, err);
	w->fd = flmem_file_place_open_regular(w->place.directory, w->place.name,
					      O_RDWR | O_NOFOLLOW, &w->status);
	if (w->fd < 0)
		return open_error(w, w->fd, err);
	if (!(w->status.st_mode & 0222))
		return open_error(w, -EROFS, err);
	if (!is_identified_file(&c->identity, &w->status) || !has_text(w))
		return report_changed(w, err);
	if (w->status.st_nlink != 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' has %ju names (hard links) and only this one would "
				       "get the new text; not written",
				       c->file, (uintmax_t)w->status.st_nlink);
	return 0;
}

static int write_fresh(struct file_rewrite *w, struct flmem_error *err)
{
	const struct flmem_correction *c = w->correction;
	int rc = flmem_temporary_create(w->place.directory, 0600, &w->fresh);

	if (rc)
		return flmem_error_set(err,
				       rc == -EACCES || rc == -EPERM ? FLMEM_EPERM : FLMEM_EFAILED,
				       -rc, "cannot create a new file next to '%s'", c->file);
	rc = flmem_io_write_all(w->fresh.fd, c->after, strlen(c->after));
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot create a new file next to '%s'", c->file);
	rc = flmem_file_attributes_copy(w->fd, &w->status, w->fresh.fd, c->file, err);
	if (!rc && fsync(w->fresh.fd) < 0)
		rc = flmem_error_set(err, FLMEM_EFAILED, errno,
				     "cannot create a new file next to '%s'", c->file);
	return rc;
}

/* Returns true if this name still refers to the old file. */
static bool is_named(const struct file_rewrite *w, const char *name)
{
	struct stat status;

	return fstatat(w->place.directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       is_identified_file(&w->correction->identity, &status);
}

/* Tries one name for the backup. Returns 0 or -errno. */
static int try_backup(struct file_rewrite *w, int number)
{
	char suffix[16] = "";
	const char *name;

	if (number)
		snprintf(suffix, sizeof(suffix), ".%d", number);
	if (asprintf(&w->backup, "%s.orig%s", w->correction->file, suffix) < 0) {
		w->backup = NULL;
		return -ENOMEM;
	}
	name = w->backup + (w->place.name - w->place.path);
	if (linkat(w->place.directory, w->place.name, w->place.directory, name, 0) < 0)
		return -errno;
	w->backup_name = name;
	return 0;
}

/*
 * Makes the backup FILE.orig, or FILE.orig.N if older backups exist: a hard link to the old file,
 * so that it takes no space and keeps all attributes.
 */
static int make_backup(struct file_rewrite *w, struct flmem_error *err)
{
	for (int i = 0; i < BACKUPS_MAX; i++) {
		int rc = try_backup(w, i);

		if (!rc)
			return is_named(w, w->backup_name) ? 0 : report_changed(w, err);
		if (rc != -EEXIST)
			return flmem_error_set(err, FLMEM_EFAILED, -rc,
					       "cannot create the backup '%s'",
					       w->correction->file);
		free(FLMEM_TAKE(w->backup));
	}
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' already has %d backups; remove some",
			       w->correction->file, BACKUPS_MAX);
}

/*
 * Replaces the file on a file system without RENAME_EXCHANGE: a change between check and rename is
 * not detected.
 */
static int replace_file(struct file_rewrite *w, struct flmem_error *err)
{
	int directory = w->place.directory;

	if (!is_named(w, w->place.name) || !has_text(w))
		return report_changed(w, err);
	if (renameat(directory, w->fresh.name, directory, w->place.name) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot replace '%s'",
				       w->correction->file);
	w->fresh.name[0] = '\0';
	return 0;
}

/*
 * Exchanges the files, checks the replaced one afterwards, and restores it if it is not the one
 * that was checked.
 */
static int exchange_files(struct file_rewrite *w, struct flmem_error *err)
{
	int directory = w->place.directory;

	if (flmem_file_rename(directory, w->fresh.name, directory, w->place.name, RENAME_EXCHANGE) <
	    0) {
		if (errno == EINVAL || errno == ENOSYS)
			return replace_file(w, err);
		return errno == ENOENT
			       ? report_changed(w, err)
			       : flmem_error_set(err, FLMEM_EFAILED, errno, "cannot replace '%s'",
						 w->correction->file);
	}
	if (is_named(w, w->fresh.name) && has_text(w))
		return 0;
	if (flmem_file_rename(directory, w->fresh.name, directory, w->place.name,
			      RENAME_EXCHANGE) == 0)
		return report_changed(w, err);
	/* Keep a file that was created in between under the temporary name. */
	w->fresh.name[0] = '\0';
	return report_changed(w, err);
}

int flmem_correction_write(const struct flmem_correction *correction, char **ret_backup,
			   struct flmem_error *err)
{
	FLMEM_AUTO(clear_rewrite)
	struct file_rewrite w = {
		.correction = correction,
		.place = FLMEM_FILE_PLACE_INIT,
		.fd = -1,
		.fresh = FLMEM_TEMPORARY_INIT,
	};
	int rc = flmem_file_place_open(correction->file, &w.place);

	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot open '%s'",
				       correction->file);
	rc = open_old(&w, err);
	if (!rc)
		rc = write_fresh(&w, err);
	if (!rc)
		rc = make_backup(&w, err);
	if (!rc)
		rc = exchange_files(&w, err);
	if (rc)
		return rc;
	w.backup_name = NULL; /* the backup stays */
	rc = flmem_file_place_flush(w.place.directory, correction->file, err);
	if (rc)
		return rc;
	*ret_backup = FLMEM_TAKE(w.backup);
	return 0;
}
