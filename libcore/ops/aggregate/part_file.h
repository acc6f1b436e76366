/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_PART_FILE_H
#define FLMEM_OPS_AGGREGATE_PART_FILE_H

/*
 * An unfinished output: <output>.part with its journal, renamed when it is complete. Locks on both
 * files exclude a second writer and end with the process.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "aggregate/journal.h"
#include "base/cleanup.h"
#include "base/files/file_place.h"

struct flmem_part_file {
	struct flmem_file_place place; /* place of the output */
	char *name, *journal_name;
	int fd, journal;
	uint64_t bytes; /* size for which the files were prepared */
	bool keep;	/* keep both files for a later call when this is cleared */
	bool resumed;	/* chunks that the journal lists were kept */
	bool restarted; /* a part existed, but belongs to another request or is damaged */
	bool ended;	/* both names may now belong to files of another call */
	/* The disk failed: it may lack bytes that the page cache has, so the files are not kept. */
	atomic_bool unflushed;
};

#define FLMEM_PART_FILE_JOURNAL_SUFFIX ".part.journal"

#define FLMEM_PART_FILE_INIT                                            \
	{                                                               \
		.place = FLMEM_FILE_PLACE_INIT, .fd = -1, .journal = -1 \
	}

/* Reports that flmem_file_place_open() failed with `rc` for the output. */
int flmem_part_file_report_place(const char *path, int rc, struct flmem_error *err);

/*
 * Reports that the name `path`.part now belongs to another file or folder (`named` 0), or cannot be
 * read (`named` is -errno).
 */
int flmem_part_file_report_lost(const char *path, int named, struct flmem_error *err);

/* Reports that `path`.part is smaller than prepared. */
int flmem_part_file_report_cut(const char *path, struct flmem_error *err);

/*
 * Reports that the disk does not have what was written. The part is then not kept: see `unflushed`.
 */
int flmem_part_file_report_unflushed(struct flmem_part_file *part, int sys_errno,
				     struct flmem_error *err);

/* Opens or creates both files and takes the lock. `path` is not copied. */
int flmem_part_file_open(struct flmem_part_file *part, const char *path, struct flmem_error *err);

/*
 * Prepares the file for `bytes`: keeps the chunks that the journal of the same request lists, and
 * marks them in `chunks`, or starts over. The message about a full disk has the number of missing
 * bytes.
 */
int flmem_part_file_prepare(struct flmem_part_file *part, uint64_t bytes, uint64_t fingerprint,
			    struct flmem_journal_chunk *chunks, size_t count,
			    struct flmem_error *err);

/*
 * Shares the part with the other processes of one job, after the first one has prepared it: writes
 * `mark` to its journal, which the others know; from then on each of them holds the lock. So no
 * other job takes the file while one of them may still write to it, even if the first one is dead.
 */
int flmem_part_file_share(struct flmem_part_file *part, uint64_t mark, struct flmem_error *err);

/*
 * Opens the part that the first process has prepared with `bytes` and `mark`, to write to it.
 * Refuses anything else, such as what a killed call left on a disk that the first process does not
 * see.
 */
int flmem_part_file_join(struct flmem_part_file *part, const char *path, uint64_t bytes,
			 uint64_t mark, struct flmem_error *err);

/* Starts over: the journal then lists no chunk. */
int flmem_part_file_restart(struct flmem_part_file *part, uint64_t fingerprint,
			    struct flmem_error *err);

int flmem_part_file_write(const struct flmem_part_file *part, uint64_t offset, const char *bytes,
			  size_t length, struct flmem_error *err);

/*
 * For outputs of several files, of which the part is the last: the functions with "_other" do for
 * one of the other files what those without do for the part.
 */
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

/*
 * The two steps of flmem_part_file_commit(): the rename to the final name, and the removal of the
 * journal at the output's path.
 */
int flmem_part_file_publish(struct flmem_part_file *part, struct flmem_error *err);
int flmem_part_file_end(struct flmem_part_file *part, const char *path, struct flmem_error *err);

/* Removes the journal of a call that was killed after `path` had got its final name. */
void flmem_part_file_forget(const char *path);

/*
 * Returns true if clearing removes what was written. Of several processes only the first one does.
 */
bool flmem_part_file_is_dropped(const struct flmem_part_file *part);

void flmem_part_file_clear(struct flmem_part_file *part);

#define FLMEM_AUTO_PART_FILE FLMEM_AUTO(flmem_part_file_clear)

#endif
