/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_JOURNAL_H
#define FLMEM_AGGREGATE_JOURNAL_H

/*
 * Records which chunks of an unfinished output are written, each with its checksum. Records are
 * appended without waiting for the disk: a run that resumes compares the checksums, so a record
 * that reached the disk before its chunk does no harm. A journal belongs to one request, identified
 * by its fingerprint.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

/* The state of the chunks of an output, as the journal records it. */
struct flmem_journal_chunk {
	uint32_t crc32c;
	bool done;
};

/*
 * Reads the records of a journal into `chunks`. Returns false, with no chunk marked, if the head is
 * absent, foreign or damaged. Damaged records are skipped.
 */
bool flmem_journal_read(int fd, uint64_t fingerprint, struct flmem_journal_chunk *chunks,
			size_t count);

/* Reports whether flmem_journal_start() has begun the file, or it is empty. Negative errno. */
int flmem_journal_is_own(int fd, bool *ret_own);

/* Empties the journal and writes its head. Negative errno. */
int flmem_journal_start(int fd, uint64_t fingerprint);

/* Appends a record; the file must be open with O_APPEND. Negative errno. */
int flmem_journal_append(int fd, uint64_t chunk, uint32_t crc32c);

/*
 * Writes a number by which other processes recognise this journal; must be called right after
 * flmem_journal_start(). The number is ignored when a run is resumed. Negative errno.
 */
int flmem_journal_mark(int fd, uint64_t number);
bool flmem_journal_has_mark(int fd, uint64_t number);

#endif
