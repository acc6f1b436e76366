/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/client/client_json.h"

#include <string.h>

#include "base/text/text.h"
#include "exchange/valid_names.h"
#include "model/json_scan.h"

/* A member of an object to read; other members are skipped. */
struct document_field {
	const char *name;
	bool (*read)(struct flmem_json_scan *scan, void *out);
	bool required;
};

static bool refuse_document(struct flmem_json_scan *scan, const char *why)
{
	scan->why = why;
	return false;
}

static bool read_member(struct flmem_json_scan *scan, const struct document_field *fields,
			uint32_t *seen, void *out)
{
	const char *key;

	if (!flmem_json_scan_string(scan, &key) || !flmem_json_scan_expect(scan, ':'))
		return false;
	for (size_t i = 0; fields[i].name; i++) {
		if (strcmp(fields[i].name, key) != 0)
			continue;
		if (*seen >> i & 1)
			return refuse_document(scan, "has a member twice");
		*seen |= UINT32_C(1) << i;
		return fields[i].read(scan, out);
	}
	return flmem_json_scan_skip(scan);
}

/* Reads an object. `fields` ends in a row without a name and has at most 32 rows. */
static bool read_document_object(struct flmem_json_scan *scan, const struct document_field *fields,
				 void *out)
{
	uint32_t seen = 0;

	if (!flmem_json_scan_expect(scan, '{'))
		return false;
	if (!flmem_json_scan_take(scan, '}')) {
		do {
			if (!read_member(scan, fields, &seen, out))
				return false;
		} while (flmem_json_scan_take(scan, ','));
		if (!flmem_json_scan_expect(scan, '}'))
			return false;
	}
	for (size_t i = 0; fields[i].name; i++)
		if (fields[i].required && !(seen >> i & 1))
			return refuse_document(scan, "lacks a member");
	return true;
}

static bool read_server_document(struct flmem_buf *body, const struct document_field *fields,
				 void *out, const char **ret_why)
{
	struct flmem_json_scan scan;

	if (strlen(body->data) != body->length || !flmem_text_is_utf8(body->data)) {
		*ret_why = "is not UTF-8 text";
		return false;
	}
	flmem_json_scan_begin(&scan, body->data, body->length);
	if (read_document_object(&scan, fields, out) && flmem_json_scan_ends(&scan))
		return true;
	*ret_why = scan.why ? scan.why : "is invalid";
	return false;
}

static bool read_null(struct flmem_json_scan *scan)
{
	return flmem_json_scan_take(scan, 'n') && flmem_json_scan_take(scan, 'u') &&
	       flmem_json_scan_take(scan, 'l') && flmem_json_scan_take(scan, 'l');
}

static bool read_bounded(struct flmem_json_scan *scan, uint64_t most, uint64_t *ret_number)
{
	return flmem_json_scan_number(scan, ret_number) &&
	       (*ret_number <= most || refuse_document(scan, "has a number that is too large"));
}

static bool read_printable(struct flmem_json_scan *scan, char out[FLMEM_EXCHANGE_REASON_MAX])
{
	const char *text;

	if (read_null(scan))
		return true;
	if (!flmem_json_scan_string(scan, &text))
		return false;
	flmem_text_escape(text, out, FLMEM_EXCHANGE_REASON_MAX);
	return true;
}

static bool read_schema_name(struct flmem_json_scan *scan, const char *expected)
{
	const char *text;

	return flmem_json_scan_string(scan, &text) &&
	       (strcmp(text, expected) == 0 || refuse_document(scan, "has another schema"));
}

/* Problem documents. */

static bool read_title(struct flmem_json_scan *scan, void *out)
{
	return read_printable(scan, ((struct flmem_exchange_problem *)out)->title);
}

static bool read_detail(struct flmem_json_scan *scan, void *out)
{
	return read_printable(scan, ((struct flmem_exchange_problem *)out)->detail);
}

void flmem_exchange_problem_parse(const struct flmem_buf *body, struct flmem_exchange_problem *ret)
{
	static const struct document_field fields[] = {
		{.name = "title", .read = read_title},
		{.name = "detail", .read = read_detail},
		{0},
	};
	/* Copied, because the scan changes what it reads. */
	FLMEM_AUTO_BUF struct flmem_buf copy = FLMEM_BUF_INIT;
	const char *why;

	*ret = (struct flmem_exchange_problem){0};
	flmem_buf_append(&copy, body->data ?: "", body->length);
	if (copy.failed || !copy.length || !read_server_document(&copy, fields, ret, &why))
		*ret = (struct flmem_exchange_problem){0};
}

/* State documents. */

static const char *const phase_names[] = {
#define FLMEM_PHASE_NAME(name, text) text,
	FLMEM_EXCHANGE_PHASES(FLMEM_PHASE_NAME)
#undef FLMEM_PHASE_NAME
};

const char *flmem_exchange_phase_name(enum flmem_exchange_phase phase)
{
	return (size_t)phase < FLMEM_ARRAY_SIZE(phase_names) ? phase_names[phase] : "unknown";
}

#define STATE ((struct flmem_exchange_status *)out)

static bool read_state_schema(struct flmem_json_scan *scan, void *out)
{
	(void)out;
	return read_schema_name(scan, FLMEM_EXCHANGE_STATE_SCHEMA);
}

static bool read_phase(struct flmem_json_scan *scan, void *out)
{
	const char *text;

	if (!flmem_json_scan_string(scan, &text))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(phase_names); i++)
		if (strcmp(phase_names[i], text) == 0) {
			STATE->phase = (enum flmem_exchange_phase)i;
			return true;
		}
	return refuse_document(scan, "has an unknown phase");
}

static bool read_state_round(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, FLMEM_EXCHANGE_ROUND_MAX, &STATE->round);
}

static bool read_rounds(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, FLMEM_EXCHANGE_ROUND_MAX, &STATE->rounds);
}

static bool read_published(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, FLMEM_EXCHANGE_ROUND_MAX, &STATE->published_round);
}

static bool read_expected(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, UINT32_MAX, &STATE->clients_expected);
}

static bool read_quorum(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, UINT32_MAX, &STATE->clients_quorum);
}

static bool read_complete(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, UINT32_MAX, &STATE->clients_complete);
}

/*
 * Reads the names of clients whose updates are complete. The server lists the caller's own name, or
 * none.
 */
static bool read_names(struct flmem_json_scan *scan, void *out)
{
	if (!flmem_json_scan_expect(scan, '['))
		return false;
	if (flmem_json_scan_take(scan, ']'))
		return true;
	do {
		if (!flmem_json_scan_skip(scan))
			return false;
		STATE->complete = true;
	} while (flmem_json_scan_take(scan, ','));
	return flmem_json_scan_expect(scan, ']');
}

static bool read_clients(struct flmem_json_scan *scan, void *out)
{
	static const struct document_field fields[] = {
		{.name = "expected", .read = read_expected, .required = true},
		{.name = "quorum", .read = read_quorum, .required = true},
		{.name = "complete", .read = read_complete, .required = true},
		{.name = "names", .read = read_names},
		{0},
	};

	return read_document_object(scan, fields, out);
}

static bool read_deadline(struct flmem_json_scan *scan, void *out)
{
	STATE->has_deadline = !read_null(scan);
	return !STATE->has_deadline || read_bounded(scan, UINT32_MAX, &STATE->deadline_s);
}

static bool read_chunk(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, INT64_MAX, &STATE->chunk_bytes);
}

static bool read_request_limit(struct flmem_json_scan *scan, void *out)
{
	STATE->has_request_limit = !read_null(scan);
	return !STATE->has_request_limit ||
	       (read_bounded(scan, INT64_MAX, &STATE->max_request_bytes) &&
		(STATE->max_request_bytes || refuse_document(scan, "has a limit of 0 bytes")));
}

static bool read_reason(struct flmem_json_scan *scan, void *out)
{
	return read_printable(scan, STATE->reason);
}

static bool read_mode(struct flmem_json_scan *scan, void *out)
{
	const char *text;

	if (!flmem_json_scan_string(scan, &text))
		return false;
	STATE->lockstep = strcmp(text, "lockstep") == 0;
	return STATE->lockstep || strcmp(text, "staged") == 0 ||
	       refuse_document(scan, "has an unknown mode");
}

#undef STATE

int flmem_exchange_state_parse(struct flmem_buf *body, const char *server,
			       struct flmem_exchange_status *ret_status, struct flmem_error *err)
{
	static const struct document_field fields[] = {
		{.name = "schema", .read = read_state_schema, .required = true},
		{.name = "phase", .read = read_phase, .required = true},
		{.name = "round", .read = read_state_round, .required = true},
		{.name = "rounds", .read = read_rounds, .required = true},
		{.name = "published_round", .read = read_published, .required = true},
		{.name = "clients", .read = read_clients, .required = true},
		{.name = "deadline_s", .read = read_deadline},
		{.name = "chunk_bytes", .read = read_chunk, .required = true},
		{.name = "max_request_bytes", .read = read_request_limit},
		{.name = "reason", .read = read_reason},
		{.name = "mode", .read = read_mode},
		{0},
	};
	struct flmem_exchange_status status = {0};
	const char *why;

	if (!read_server_document(body, fields, &status, &why))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the status that '%s' sends %s; is it an flmem exchange?",
				       server, why);
	*ret_status = status;
	return 0;
}

/* Index documents. */

#define INDEX ((struct flmem_exchange_index *)out)
#define ENTRY ((struct flmem_exchange_file *)out)

static bool read_index_schema(struct flmem_json_scan *scan, void *out)
{
	(void)out;
	return read_schema_name(scan, FLMEM_EXCHANGE_MODEL_SCHEMA);
}

static bool read_index_round(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, FLMEM_EXCHANGE_ROUND_MAX, &INDEX->round);
}

static bool read_file_name(struct flmem_json_scan *scan, void *out)
{
	const char *text;

	if (!flmem_json_scan_string(scan, &text))
		return false;
	if (!flmem_exchange_file_name_is_valid(text))
		return refuse_document(scan, "has a name that is not one of a file");
	snprintf(ENTRY->name, sizeof(ENTRY->name), "%s", text);
	return true;
}

static bool read_file_size(struct flmem_json_scan *scan, void *out)
{
	return read_bounded(scan, INT64_MAX, &ENTRY->bytes);
}

static bool read_file_digest(struct flmem_json_scan *scan, void *out)
{
	const char *text;

	if (!flmem_json_scan_string(scan, &text))
		return false;
	if (strlen(text) != FLMEM_SHA256_HEX - 1 || text[strspn(text, "0123456789abcdef")])
		return refuse_document(scan, "has an invalid SHA-256");
	memcpy(ENTRY->sha256, text, FLMEM_SHA256_HEX);
	return true;
}

static struct flmem_exchange_file *add_index_file(struct flmem_exchange_index *index)
{
	if (index->count == index->room) {
		size_t room = index->room ? index->room * 2 : 16;
		struct flmem_exchange_file *larger =
			reallocarray(index->files, room, sizeof(*larger));

		if (!larger)
			return NULL;
		index->files = larger;
		index->room = room;
	}
	return &index->files[index->count++];
}

static bool read_index_file(struct flmem_json_scan *scan, struct flmem_exchange_index *index)
{
	static const struct document_field fields[] = {
		{.name = "name", .read = read_file_name, .required = true},
		{.name = "size_bytes", .read = read_file_size, .required = true},
		{.name = "sha256", .read = read_file_digest, .required = true},
		{0},
	};
	struct flmem_exchange_file *file;

	if (index->count == FLMEM_EXCHANGE_FILES_MAX)
		return refuse_document(scan, "has too many files");
	file = add_index_file(index);
	if (!file)
		return refuse_document(scan, "does not fit into the memory");
	*file = (struct flmem_exchange_file){0};
	return read_document_object(scan, fields, file) &&
	       (!__builtin_add_overflow(index->bytes, file->bytes, &index->bytes) ||
		refuse_document(scan, "has a number that is too large"));
}

static bool read_index_files(struct flmem_json_scan *scan, void *out)
{
	if (!flmem_json_scan_expect(scan, '['))
		return false;
	if (flmem_json_scan_take(scan, ']'))
		return true;
	do {
		if (!read_index_file(scan, INDEX))
			return false;
	} while (flmem_json_scan_take(scan, ','));
	return flmem_json_scan_expect(scan, ']');
}

#undef INDEX
#undef ENTRY

static int compare_index_files(const void *a, const void *b)
{
	return strcmp(((const struct flmem_exchange_file *)a)->name,
		      ((const struct flmem_exchange_file *)b)->name);
}

static const char *check_files(struct flmem_exchange_index *index)
{
	if (!index->count)
		return "has no file";
	if (index->bytes > INT64_MAX)
		return "has a number that is too large";
	qsort(index->files, index->count, sizeof(*index->files), compare_index_files);
	for (size_t i = 1; i < index->count; i++)
		if (compare_index_files(&index->files[i - 1], &index->files[i]) == 0)
			return "has a file twice";
	return NULL;
}

int flmem_exchange_index_parse(struct flmem_buf *body, const char *server,
			       struct flmem_exchange_index *ret_index, struct flmem_error *err)
{
	static const struct document_field fields[] = {
		{.name = "schema", .read = read_index_schema, .required = true},
		{.name = "round", .read = read_index_round, .required = true},
		{.name = "files", .read = read_index_files, .required = true},
		{0},
	};
	const char *why = NULL;

	if (read_server_document(body, fields, ret_index, &why))
		why = check_files(ret_index);
	if (!why)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0, "the list of files that '%s' sends %s",
			       server, why);
}

void flmem_exchange_index_clear(struct flmem_exchange_index *index)
{
	free(index->files);
	*index = (struct flmem_exchange_index){0};
}
