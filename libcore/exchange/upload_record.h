/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_UPLOAD_RECORD_H
#define FLMEM_EXCHANGE_UPLOAD_RECORD_H

/*
 * The two files that the server keeps of an upload: a record, written once when the upload is
 * created, and a journal of committed bytes. A journal entry is only appended after its bytes are
 * written. They are flushed to the disk later, so after a power failure the last ones have to be
 * checked.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"
#include "exchange/metadata.h"

struct flmem_upload_record {
	struct flmem_tus_metadata metadata; /* with a client, a round and, unless partial, a file */
	uint64_t length;
	bool partial;
	uint64_t concat; /* fingerprint of the parts of a final upload; else 0 */
};

void flmem_upload_record_print(const struct flmem_upload_record *record, struct flmem_buf *text);

/* Parses a record; false for a text that was not printed by flmem_upload_record_print(). */
bool flmem_upload_record_parse(const char *text, struct flmem_upload_record *ret_record);

#define FLMEM_UPLOAD_JOURNAL_BYTES 16U /* length of a journal entry */

/*
 * A journal entry: the bytes up to `end` were written, and those since the entry before have this
 * checksum.
 */
struct flmem_upload_commit {
	uint64_t end;
	uint32_t crc32c;
};

void flmem_upload_commit_print(const struct flmem_upload_commit *commit,
			       unsigned char out[FLMEM_UPLOAD_JOURNAL_BYTES]);

/*
 * Reads `count` consecutive entries and returns how many are valid: each ends after the one before,
 * and at most at `length`. The others are from an interrupted write.
 */
size_t flmem_upload_journal_parse(const unsigned char *bytes, size_t count, uint64_t length,
				  struct flmem_upload_commit *commits);

#endif
