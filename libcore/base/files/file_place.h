/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_FILE_PLACE_H
#define FLMEM_BASE_FILE_PLACE_H

/*
 * Files are checked, created and replaced through their directory, which stays open, and their name
 * in it. A path would be resolved again for every step, and a user who may rename a directory on it
 * could make the steps act on different files.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"

struct flmem_file_place {
	int directory;	  /* O_PATH */
	const char *path; /* the caller's string, for messages */
	const char *name; /* name in the directory; points into `path` */
};

#define FLMEM_FILE_PLACE_INIT   \
	{                       \
		.directory = -1 \
	}

/*
 * Opens the directory of a path, whose last component need not exist. The place keeps the pointer
 * `path`. Negative errno, -EISDIR for a path that can only name a directory.
 */
int flmem_file_place_open(const char *path, struct flmem_file_place *ret_place);

void flmem_file_place_close(struct flmem_file_place *place);

/* Fails if the path now leads to another folder, where users would not find the file. */
int flmem_file_place_check(const struct flmem_file_place *place, struct flmem_error *err);

#define FLMEM_AUTO_FILE_PLACE FLMEM_AUTO(flmem_file_place_close)

/*
 * Opens a regular file of a directory, and no other kind, since opening a device can already act on
 * it. `flags` as for open(2); with O_NOFOLLOW a symbolic link is -ELOOP. Returns the descriptor or
 * a negative errno, -EINVAL for another kind of file.
 */
int flmem_file_place_open_regular(int directory, const char *name, int flags,
				  struct stat *ret_status);

/*
 * Reports whether the file of the descriptor, which may be a directory, has this name in
 * `directory`: a file that is locked after it was opened may have lost the name to another writer.
 * `directory` may be AT_FDCWD.
 */
bool flmem_file_place_is_named(int fd, int directory, const char *name);

/*
 * Like flmem_file_place_is_named(), with failures of the disk reported: 1, 0 or a negative errno.
 */
int flmem_file_place_has_name(int fd, int directory, const char *name);

/* Reports whether both describe the same file. */
bool flmem_file_is_same(const struct stat *one, const struct stat *other);

/*
 * True for a regular file, and for a link, which is replaced itself. A rename would turn a device
 * into a plain file.
 */
bool flmem_file_is_replaceable(const struct stat *status);

/* Reports whether `file` is the same file as one of `files`. */
bool flmem_file_is_among(const struct stat *file, const struct stat *files, size_t count);

#define FLMEM_TEMPORARY_NAME 32

/* A new file with a temporary name; flmem_temporary_clear() removes it while it has that name. */
struct flmem_temporary {
	int directory; /* owned by the caller */
	int fd;
	char name[FLMEM_TEMPORARY_NAME]; /* "": the file no longer has the temporary name */
};

#define FLMEM_TEMPORARY_INIT              \
	{                                 \
		.directory = -1, .fd = -1 \
	}

/* Creates the file; `mode` is as for open(2), with the umask applied. Negative errno. */
int flmem_temporary_create(int directory, mode_t mode, struct flmem_temporary *ret_temporary);

void flmem_temporary_clear(struct flmem_temporary *temporary);

#define FLMEM_AUTO_TEMPORARY FLMEM_AUTO(flmem_temporary_clear)

/*
 * Gives the file the name of `place`, which has the same directory. Without `replace` an existing
 * file is FLMEM_EUSAGE and stays.
 */
int flmem_temporary_publish(const struct flmem_file_place *place, struct flmem_temporary *new,
			    bool replace, struct flmem_error *err);

/*
 * Flushes changed names of a directory to the disk, where its file system and its mode allow that.
 * Negative errno.
 */
int flmem_file_place_sync(int directory);

/*
 * Like flmem_file_place_sync(), after the file at `path` has received its name there; sets `err`.
 */
int flmem_file_place_flush(int directory, const char *path, struct flmem_error *err);

/*
 * Writes a file so that readers see the old or the new content, never a part: a temporary file in
 * the same directory, fsync, then a rename. Without `replace` an existing file is FLMEM_EUSAGE and
 * stays; with it only regular files and links are replaced (others: FLMEM_EUSAGE). `mode` is
 * reduced by the umask and by the mode of the existing file: no user gains access.
 */
int flmem_file_place_write(const struct flmem_file_place *place, const void *bytes, size_t length,
			   mode_t mode, bool replace, struct flmem_error *err);

#endif
