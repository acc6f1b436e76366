/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of uploads and of ranges: names that are accepted cannot leave a directory, and ranges
 * stay in the file. The first byte selects the header.
 */
#include <string.h>

#include "exchange/metadata.h"
#include "exchange/valid_names.h"
#include "fuzz.h"

static void check_metadata(const char *text)
{
	struct flmem_tus_metadata m;

	if (flmem_tus_metadata_parse(text, &m, NULL))
		return;
	if (strchr(m.client, '/') || strchr(m.filename, '/') || m.filename[0] == '.' ||
	    strcmp(m.client, "..") == 0 || !(m.weight > 0) || !m.files ||
	    m.files > FLMEM_UPDATE_FILES_MAX)
		abort();
}

static void check_concat(const char *text)
{
	struct flmem_tus_concat concat;

	if (flmem_tus_concat_parse(text, &concat, NULL))
		return;
	if (concat.partial == (concat.count > 0) || concat.count > FLMEM_TUS_PARTS_MAX)
		abort();
	for (size_t i = 0; i < concat.count; i++) {
		char id[FLMEM_EXCHANGE_ID_DIGITS + 1];

		if (!flmem_tus_id_parse(concat.ids[i], id))
			abort();
	}
	flmem_tus_concat_clear(&concat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_tus_checksum checksum;
	struct flmem_byte_range range;
	char *text;

	if (!size)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		return 0;
	switch (data[0] & 3) {
	case 0:
		check_metadata(text);
		break;
	case 1:
		check_concat(text);
		break;
	case 2:
		if (!flmem_tus_checksum_parse(text, &checksum, NULL) &&
		    !flmem_digest_bytes(checksum.kind))
			abort();
		break;
	default:
		if (flmem_range_parse(text, 100, &range) == FLMEM_RANGE_PART &&
		    (range.begin >= range.end || range.end > 100))
			abort();
	}
	free(text);
	return 0;
}
