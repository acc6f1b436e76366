/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/upload_record.h"

#include <inttypes.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/bytes/crc32c.h"
#include "base/bytes/little_endian.h"
#include "base/cleanup.h"
#include "exchange/valid_names.h"

#define HEAD "flmem-upload 1\n"

void flmem_upload_record_print(const struct flmem_upload_record *record, struct flmem_buf *text)
{
	const struct flmem_tus_metadata *m = &record->metadata;
	char hex[FLMEM_SHA256_HEX] = "-";

	if (m->has_sha256)
		flmem_hex_print(m->sha256, sizeof(m->sha256), hex);
	flmem_buf_printf(text,
			 HEAD "%" PRIu64 " %s %s %.17g %" PRIu64 " %s %" PRIu64 " %u %" PRIu64 "\n",
			 m->round, m->client, *m->filename ? m->filename : "-", m->weight, m->files,
			 hex, record->length, (unsigned)record->partial, record->concat);
}

/* Splits the line into `count` fields; false if there are more or fewer. */
static bool split_fields(char *line, char **fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		fields[i] = line;
		line += strcspn(line, " \n");
		if (*line != (i + 1 < count ? ' ' : '\n'))
			return false;
		*line++ = '\0';
	}
	return !*line;
}

static bool take_names(char *const *fields, struct flmem_tus_metadata *m)
{
	if (!flmem_exchange_client_name_is_valid(fields[1]))
		return false;
	memcpy(m->client, fields[1], strlen(fields[1]) + 1);
	if (strcmp(fields[2], "-") == 0)
		return true;
	if (!flmem_exchange_file_name_is_valid(fields[2]))
		return false;
	memcpy(m->filename, fields[2], strlen(fields[2]) + 1);
	return true;
}

bool flmem_upload_record_parse(const char *text, struct flmem_upload_record *ret_record)
{
	struct flmem_upload_record record = {.metadata = {.has_round = true}};
	struct flmem_tus_metadata *m = &record.metadata;
	char line[512], *fields[9];
	uint64_t partial;
	size_t length = strlen(text);

	if (length >= sizeof(line) || strncmp(text, HEAD, strlen(HEAD)) != 0)
		return false;
	memcpy(line, text + strlen(HEAD), length - strlen(HEAD) + 1);
	if (!split_fields(line, fields, FLMEM_ARRAY_SIZE(fields)) || !take_names(fields, m) ||
	    !flmem_tus_number_parse(fields[0], &m->round) ||
	    flmem_parse_real(fields[3], &m->weight, NULL) ||
	    !flmem_tus_number_parse(fields[4], &m->files) ||
	    !flmem_tus_number_parse(fields[6], &record.length) ||
	    !flmem_tus_number_parse(fields[7], &partial) || partial > 1 ||
	    !flmem_tus_number_parse(fields[8], &record.concat))
		return false;
	m->has_sha256 = strcmp(fields[5], "-") != 0;
	if (m->has_sha256 && (strlen(fields[5]) != 2 * sizeof(m->sha256) ||
			      !flmem_hex_read(fields[5], m->sha256, sizeof(m->sha256))))
		return false;
	record.partial = partial;
	if (!record.partial && !*m->filename)
		return false;
	*ret_record = record;
	return true;
}

void flmem_upload_commit_print(const struct flmem_upload_commit *commit,
			       unsigned char out[FLMEM_UPLOAD_JOURNAL_BYTES])
{
	flmem_write_little(out, commit->end, 8);
	flmem_write_little(out + 8, commit->crc32c, 4);
	flmem_write_little(out + 12, flmem_crc32c(0, out, 12), 4);
}

size_t flmem_upload_journal_parse(const unsigned char *bytes, size_t count, uint64_t length,
				  struct flmem_upload_commit *commits)
{
	uint64_t last = 0;
	size_t i;

	for (i = 0; i < count; i++, bytes += FLMEM_UPLOAD_JOURNAL_BYTES) {
		uint64_t end = flmem_read_little(bytes, 8);

		if (end <= last || end > length ||
		    flmem_read_little(bytes + 12, 4) != flmem_crc32c(0, bytes, 12))
			break;
		commits[i] = (struct flmem_upload_commit){
			.end = end,
			.crc32c = (uint32_t)flmem_read_little(bytes + 8, 4),
		};
		last = end;
	}
	return i;
}
