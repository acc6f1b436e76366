/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that the server of an exchange sends: what is accepted keeps its bounds. */
#include "exchange/valid_names.h"
#include "fuzz.h"
#include "ops/exchange/client/client_json.h"

static void check_printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			abort();
}

static void fill(struct flmem_buf *body, const uint8_t *data, size_t size)
{
	flmem_buf_reset(body);
	flmem_buf_append(body, data, size);
}

static void check_state(struct flmem_buf *body)
{
	struct flmem_exchange_status status;

	if (flmem_exchange_state_parse(body, "server", &status, NULL))
		return;
	check_printable(status.reason);
	if (status.round > FLMEM_EXCHANGE_ROUND_MAX || status.rounds > FLMEM_EXCHANGE_ROUND_MAX ||
	    status.chunk_bytes > INT64_MAX || status.phase > FLMEM_EXCHANGE_FAILED ||
	    (status.has_request_limit && !status.max_request_bytes))
		abort();
}

static void check_index(struct flmem_buf *body)
{
	FLMEM_AUTO_EXCHANGE_INDEX struct flmem_exchange_index index = {0};
	uint64_t bytes = 0;

	if (flmem_exchange_index_parse(body, "server", &index, NULL))
		return;
	for (size_t i = 0; i < index.count; i++) {
		const struct flmem_exchange_file *file = &index.files[i];

		bytes += file->bytes;
		if (!flmem_exchange_file_name_is_valid(file->name) || strchr(file->name, '/') ||
		    file->name[0] == '.' || strlen(file->sha256) != FLMEM_SHA256_HEX - 1 ||
		    file->bytes > INT64_MAX || (i && strcmp(file[-1].name, file->name) >= 0))
			abort();
	}
	if (!index.count || index.count > FLMEM_EXCHANGE_FILES_MAX || bytes != index.bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_BUF struct flmem_buf body = FLMEM_BUF_INIT;
	struct flmem_exchange_problem problem;

	fill(&body, data, size);
	flmem_exchange_problem_parse(&body, &problem);
	check_printable(problem.title);
	check_printable(problem.detail);
	fill(&body, data, size);
	check_state(&body);
	fill(&body, data, size);
	check_index(&body);
	return 0;
}
