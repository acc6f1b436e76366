/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_LOG_TAIL_H
#define FLMEM_OPS_WATCH_LOG_TAIL_H

/*
 * Follows a log as it grows. The file may be missing at first, vanish, be rotated (another file
 * under its name: the rest of the old one is read first), be truncated and written anew, and
 * contain any bytes. Where all that was read is in the file again, only what follows it is visited.
 * Memory and the work of one call are bounded; of a line that is too long only
 * the beginning is used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"

/* The longest line that is read completely. */
#define FLMEM_LOG_LINE_MAX ((size_t)32 << 10)

/*
 * Number of bytes before the next one to read that are compared to detect a file that was written
 * anew.
 */
#define FLMEM_LOG_SEEN_MAX 64

/* A place in a file, and the bytes before it. */
struct flmem_log_place {
	off_t offset;
	char seen[FLMEM_LOG_SEEN_MAX];
	size_t seen_length;
};

struct flmem_log {
	char *path;
	int fd; /* descriptor; -1 while the file does not exist */
	dev_t device;
	ino_t inode;
	struct flmem_log_place next; /* the next byte to read */
	struct flmem_log_place left; /* place of the next byte when the file was cut or replaced */
	size_t left_length;	     /* bytes of the line that had begun at that place */
	bool skipping;		     /* the rest of a line that was too long is skipped */
	size_t length;		     /* length of the line so far */
	char *line;		     /* FLMEM_LOG_LINE_MAX + 1 bytes */
};

/*
 * Visits a line. It may change the bytes; line[length] is writable. They are valid during the call
 * only.
 */
typedef void flmem_log_visit(void *context, char *line, size_t length);

/*
 * Opens the log at its end minus `back` bytes (from the next start of a line), or waits for a file
 * that does not exist yet. FLMEM_EUSAGE if it is not a regular file, FLMEM_EPERM if it may not be
 * read. Release with flmem_log_close().
 */
int flmem_log_open(const char *path, off_t back, struct flmem_log *ret_log,
		   struct flmem_error *err);

void flmem_log_close(struct flmem_log *log);

#define FLMEM_AUTO_LOG FLMEM_AUTO(flmem_log_close)

/* Visits the lines that have been completed since the last call. */
void flmem_log_poll(struct flmem_log *log, flmem_log_visit *visit, void *context);

/* Adds bytes of the log and visits the lines that they complete. */
void flmem_log_feed(struct flmem_log *log, const char *bytes, size_t length, flmem_log_visit *visit,
		    void *context);

#endif
