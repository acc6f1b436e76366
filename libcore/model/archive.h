/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_ARCHIVE_H
#define FLMEM_MODEL_ARCHIVE_H

/*
 * Reads zip archives (APPNOTE.TXT 4.3, 4.5.3), whose entries are read in place: PyTorch checkpoints
 * and NumPy's .npz. The amount read is limited, and every offset is checked against the file size.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "model/source.h"

#define FLMEM_ARCHIVE_NAME_MAX 4096U

/* A reason for flmem_archive_entry_invalid(). */
#define FLMEM_ARCHIVE_OTHER_CHECKSUM "does not match its checksum in the archive"

struct flmem_archive_entry {
	const char *name;	      /* untrusted: escape it to print */
	uint64_t record;	      /* offset of its directory record in the file */
	uint64_t header;	      /* offset of its local header */
	uint64_t offset;	      /* offset of its bytes; set by flmem_archive_check() */
	uint64_t bytes, stored_bytes; /* bytes as stored, perhaps compressed */
	uint32_t crc32;
	unsigned method, flags, attributes;
};

struct flmem_archive {
	struct flmem_archive_entry *entries; /* sorted by name */
	size_t count;
	char *names;
	uint64_t end; /* end of all entries: the start of the directory */
};

/*
 * Lists the directory. FLMEM_EUSAGE for a damaged one. Without a directory the file is not an
 * archive, and *ret_found is false. `path` is for messages.
 */
int flmem_archive_list(const struct flmem_source *source, const char *path,
		       struct flmem_archive *ret_archive, bool *ret_found, struct flmem_error *err);

/*
 * Checks that it is safe to read the entries in place, and finds their bytes. Local headers must
 * agree with the directory, entries must be stored uncompressed and not overlap, and names must
 * stay below a folder and occur once.
 */
int flmem_archive_check(const struct flmem_source *source, const char *path,
			struct flmem_archive *archive, struct flmem_error *err);

/* Finds an entry by name; NULL if there is none. */
const struct flmem_archive_entry *flmem_archive_find(const struct flmem_archive *archive,
						     const char *name);

/* Reads the entry in blocks and compares its checksum. FLMEM_EUSAGE if it differs. */
int flmem_archive_verify(const struct flmem_source *source, const char *path,
			 const struct flmem_archive_entry *entry, struct flmem_error *err);

/* True for a relative path without "." and "..". */
bool flmem_archive_name_is_safe(const char *name);

int flmem_archive_entry_invalid(const char *path, const struct flmem_archive_entry *entry,
				const char *why, struct flmem_error *err);

void flmem_archive_clear(struct flmem_archive *archive);

#define FLMEM_AUTO_ARCHIVE FLMEM_AUTO(flmem_archive_clear)

#endif
