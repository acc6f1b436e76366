/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_GUARDED_FOLDER_H
#define FLMEM_PROC_FILES_GUARDED_FOLDER_H

/* Lists a folder that may never answer, as guarded_file.h reads a file. */

#include <flmem/error.h>

#include "base/cleanup.h"

struct flmem_guarded_folder;

struct flmem_guarded_entry {
	const char *name;   /* valid until the next entry is read */
	unsigned char type; /* DT_REG, ...; some file systems report DT_UNKNOWN for all entries */
};

/*
 * Opens a folder. Returns 0 or -errno: -ETIMEDOUT if there is no answer, -ENOTDIR for other files.
 */
int flmem_guarded_folder_open(const char *path, struct flmem_guarded_folder **ret_folder);
void flmem_guarded_folder_close(struct flmem_guarded_folder **folder);

#define FLMEM_AUTO_GUARDED_FOLDER FLMEM_AUTO(flmem_guarded_folder_close)

/* Returns the descriptor of a folder of this machine; -1: it is not on this machine. */
int flmem_guarded_folder_descriptor(const struct flmem_guarded_folder *folder);

/* Reads the next entry. Returns 1, 0 after the last entry, or -errno as above. */
int flmem_guarded_folder_next(struct flmem_guarded_folder *folder,
			      struct flmem_guarded_entry *ret_entry);

#endif
