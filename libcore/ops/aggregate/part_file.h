/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_PART_FILE_H
#define FLMEM_OPS_AGGREGATE_PART_FILE_H

/*
 * An unfinished output: <output>.part with its journal, renamed when it is complete. Locks on both
 * exclude a second writer and end with the process.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "aggregate/journal.h"
#include "base/cleanup.h"
#include "base/files/file_place.h"

struct flmem_part_file {
	struct flmem_file_place place; /* of the output */
	char *name, *journal_name;
	int fd, journal;
	uint64_t bytes; /* that were prepared */
	bool keep;	/* for a later call: clearing removes neither file */
	bool resumed;	/* chunks that the journal lists were kept */
	bool restarted; /* it should have been kept, but belongs to another request or is damaged */
	bool ended;	/* both names may now belong to another call's files */
	/* The disk failed: it may lack bytes that the page cache has, so nothing is kept. */
	atomic_bool unflushed;
};

#define FLMEM_PART_FILE_JOURNAL_SUFFIX ".part.journal"

#define FLMEM_PART_FILE_INIT                                            \
	{                                                               \
		.place = FLMEM_FILE_PLACE_INIT, .fd = -1, .journal = -1 \
	}

/* Reports that flmem_file_place_open() returned `rc` for the output. */
int flmem_part_file_report_place(const char *path, int rc, struct flmem_error *err);

/* Reports that `path`.part is another file or folder, or cannot be read: -errno. */
int flmem_part_file_report_lost(const char *path, int named, struct flmem_error *err);

/* Reports that `path`.part is smaller than prepared. */
int flmem_part_file_report_cut(const char *path, struct flmem_error *err);

/* Reports that the disk does not have what was written. The file is not kept: see `unflushed`. */
int flmem_part_file_report_unflushed(struct flmem_part_file *part, int sys_errno,
				     struct flmem_error *err);

/* Opens or creates both files and takes the lock. `path` is kept. */
int flmem_part_file_open(struct flmem_part_file *part, const char *path, struct flmem_error *err);

/*
 * Prepares the file for `bytes`: keeps what the journal of the same request lists, and marks it in
 * `chunks`, or starts over. The message about a full disk has the number of missing bytes.
 */
int flmem_part_file_prepare(struct flmem_part_file *part, uint64_t bytes, uint64_t fingerprint,
			    struct flmem_journal_chunk *chunks, size_t count,
			    struct flmem_error *err);

/*
 * For several processes of one job, after the first one has prepared the file: it marks its journal
 * with a number that the others know, and from then on each of them holds the lock. So no other job
 * takes the file while one of them may still write to it, even if the first one is dead.
 */
int flmem_part_file_share(struct flmem_part_file *part, uint64_t mark, struct flmem_error *err);

/*
 * Opens what the first process has prepared with `bytes` and marked, to write to it: nothing else,
 * such as what a killed call has left on a disk that the first process does not see.
 */
int flmem_part_file_join(struct flmem_part_file *part, const char *path, uint64_t bytes,
			 uint64_t mark, struct flmem_error *err);

/* Marks no chunk as written. */
int flmem_part_file_restart(struct flmem_part_file *part, uint64_t fingerprint,
			    struct flmem_error *err);

int flmem_part_file_write(const struct flmem_part_file *part, uint64_t offset, const char *bytes,
			  size_t length, struct flmem_error *err);

/* For outputs of several files, of which this one is the last: the same for one of the others. */
int flmem_part_file_write_other(const struct flmem_part_file *part, int fd, uint64_t offset,
				const char *bytes, size_t length, struct flmem_error *err);
int flmem_part_file_open_other(const struct flmem_part_file *part, const char *name, int *ret_fd,
			       struct flmem_error *err);
int flmem_part_file_join_other(const struct flmem_part_file *part, const char *name, uint64_t bytes,
			       int *ret_fd, struct flmem_error *err);
int flmem_part_file_reserve_other(const struct flmem_part_file *part, int fd, uint64_t bytes,
				  struct flmem_error *err);

/* Flushes the file to the disk and gives it its name. */
int flmem_part_file_commit(struct flmem_part_file *part, struct flmem_error *err);

/* The two steps of that: the name, and the removal of the journal, when the output has its path. */
int flmem_part_file_publish(struct flmem_part_file *part, struct flmem_error *err);
int flmem_part_file_end(struct flmem_part_file *part, const char *path, struct flmem_error *err);

/* Removes the journal that a call left which was killed after `path` had got its name. */
void flmem_part_file_forget(const char *path);

/* Whether clearing removes what was written. Of several processes only the first one does. */
bool flmem_part_file_is_dropped(const struct flmem_part_file *part);

void flmem_part_file_clear(struct flmem_part_file *part);

#define FLMEM_AUTO_PART_FILE FLMEM_AUTO(flmem_part_file_clear)

#endif
