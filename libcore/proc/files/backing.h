/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_BACKING_H
#define FLMEM_PROC_FILES_BACKING_H

/*
 * Finds the files and shared memory of all kinds to which the non-anonymous pages of a process
 * belong. For the kernel, files on tmpfs are shared memory (RssShmem), not files (RssFile).
 */

#include <flmem/process_report.h>

#include "base/cleanup.h"
#include "proc/maps.h"

struct flmem_process;

struct flmem_backing {
	enum flmem_backing_kind kind;
	const char *name; /* owned by the maps */
	dev_t device;
	uint64_t inode;
	uint64_t mapped_bytes;
	uint64_t resident_bytes;
};

struct flmem_backings {
	struct flmem_backing *rows; /* sorted, most resident first */
	size_t count;
};

/*
 * Lists the `most` files and areas of shared memory with the most resident bytes. Needs the right
 * to trace the process. Pass `shared` as false if RssShmem is 0: then no file is checked for tmpfs.
 * FLMEM_EPERM, FLMEM_ENOPROC.
 */
int flmem_backings_read(const struct flmem_process *process, const struct flmem_maps *maps,
			bool shared, size_t most, struct flmem_backings *ret_backings,
			struct flmem_error *err);
void flmem_backings_clear(struct flmem_backings *backings);

#define FLMEM_AUTO_BACKINGS FLMEM_AUTO(flmem_backings_clear)

#define FLMEM_TMPFS_MAX 64

/*
 * Finds the devices of the tmpfs file systems in the text of a mountinfo file, at most
 * FLMEM_TMPFS_MAX. Returns their number.
 */
size_t flmem_tmpfs_parse(char *text, dev_t ret_devices[FLMEM_TMPFS_MAX]);

#endif
