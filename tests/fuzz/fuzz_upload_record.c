/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the files of a server's state directory: records of uploads, their journals, lists of
 * credentials. The first byte selects the kind.
 */
#include <string.h>

#include "exchange/credentials.h"
#include "exchange/upload_record.h"
#include "fuzz.h"

static void check_record(const char *text)
{
	struct flmem_buf again = FLMEM_BUF_INIT;
	struct flmem_upload_record record, back;

	if (!flmem_upload_record_parse(text, &record))
		return;
	flmem_upload_record_print(&record, &again);
	if (!again.failed &&
	    (!flmem_upload_record_parse(again.data, &back) || strchr(record.metadata.client, '/')))
		abort();
	flmem_buf_clear(&again);
}

static void check_journal(const uint8_t *data, size_t size)
{
	size_t count = size / FLMEM_UPLOAD_JOURNAL_BYTES;
	struct flmem_upload_commit *commits = calloc(count + 1, sizeof(*commits));
	uint64_t last = 0;

	if (!commits)
		return;
	count = flmem_upload_journal_parse(data, count, 1000, commits);
	for (size_t i = 0; i < count; i++) {
		if (commits[i].end <= last || commits[i].end > 1000)
			abort();
		last = commits[i].end;
	}
	free(commits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_credentials credentials = {0};
	char *text;

	if (!size)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		return 0;
	if (data[0] == 'r')
		check_record(text);
	else if (data[0] == 'j')
		check_journal(data + 1, size - 1);
	else if (!flmem_credentials_parse(text, "f", data[0] == 't', &credentials, NULL) &&
		 flmem_credentials_find(&credentials, FLMEM_CREDENTIAL_TOKEN, text) &&
		 strlen(text) < 16)
		abort();
	flmem_credentials_clear(&credentials);
	free(text);
	return 0;
}
