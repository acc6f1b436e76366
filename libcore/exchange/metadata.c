/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/metadata.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "exchange/base64.h"
#include "exchange/valid_names.h"

#define VALUE_MAX 256U /* largest decoded value of the keys that are used */
#define ROUND_MAX UINT64_C(1000000000)

bool flmem_tus_number_parse(const char *text, uint64_t *ret_number)
{
	return flmem_text_read_digits(&text, ret_number) && !*text;
}

static int set_invalid_key(const char *key, const char *expected, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "Upload-Metadata has an invalid value for '%s'; expected %s", key,
			       expected);
}

static int take_round(struct flmem_tus_metadata *metadata, const char *value,
		      struct flmem_error *err)
{
	if (!flmem_tus_number_parse(value, &metadata->round) || metadata->round > ROUND_MAX)
		return set_invalid_key("round", "a whole number", err);
	metadata->has_round = true;
	return 0;
}

static int take_client(struct flmem_tus_metadata *metadata, const char *value,
		       struct flmem_error *err)
{
	if (!flmem_exchange_client_name_is_valid(value))
		return set_invalid_key("client", "1 to 64 of A-Z a-z 0-9 . _ -", err);
	memcpy(metadata->client, value, strlen(value) + 1);
	return 0;
}

static int take_filename(struct flmem_tus_metadata *metadata, const char *value,
			 struct flmem_error *err)
{
	if (!flmem_exchange_file_name_is_valid(value))
		return set_invalid_key("filename", "1 to 64 of A-Z a-z 0-9 . _ -, no dot first",
				       err);
	memcpy(metadata->filename, value, strlen(value) + 1);
	return 0;
}

/*
 * Limits of a weight. All ratios of weights within them are finite, so that no client can end the
 * exchange with an extreme weight.
 */
#define WEIGHT_MIN 1e-15
#define WEIGHT_MAX 1e15

bool flmem_exchange_weight_parse(const char *text, double *ret_weight)
{
	return !flmem_parse_real(text, ret_weight, NULL) && *ret_weight >= WEIGHT_MIN &&
	       *ret_weight <= WEIGHT_MAX;
}

static int take_update_weight(struct flmem_tus_metadata *metadata, const char *value,
			      struct flmem_error *err)
{
	if (!flmem_exchange_weight_parse(value, &metadata->weight))
		return set_invalid_key("weight", FLMEM_EXCHANGE_WEIGHTS, err);
	return 0;
}

static int take_files(struct flmem_tus_metadata *metadata, const char *value,
		      struct flmem_error *err)
{
	if (!flmem_tus_number_parse(value, &metadata->files) || !metadata->files ||
	    metadata->files > FLMEM_UPDATE_FILES_MAX)
		return set_invalid_key("files", "a number from 1 to 1000", err);
	return 0;
}

static int take_sha256(struct flmem_tus_metadata *metadata, const char *value,
		       struct flmem_error *err)
{
	if (strlen(value) != 2 * sizeof(metadata->sha256) ||
	    !flmem_hex_read(value, metadata->sha256, sizeof(metadata->sha256)))
		return set_invalid_key("sha256", "64 hexadecimal digits", err);
	metadata->has_sha256 = true;
	return 0;
}

static const struct metadata_key {
	const char *name;
	int (*take)(struct flmem_tus_metadata *metadata, const char *value,
		    struct flmem_error *err);
} metadata_keys[] = {
	{"round", take_round},		{"client", take_client}, {"filename", take_filename},
	{"weight", take_update_weight}, {"files", take_files},	 {"sha256", take_sha256},
};

/* Reads one pair of `length` characters: "key" or "key BASE64". */
static int take_pair(struct flmem_tus_metadata *metadata, const char *pair, size_t length,
		     unsigned *seen, struct flmem_error *err)
{
	const char *space = memchr(pair, ' ', length);
	size_t name = space ? (size_t)(space - pair) : length, bytes = 0;
	char value[VALUE_MAX + 1];

	for (unsigned i = 0; i < FLMEM_ARRAY_SIZE(metadata_keys); i++) {
		const struct metadata_key *key = &metadata_keys[i];

		if (strlen(key->name) != name || memcmp(key->name, pair, name) != 0)
			continue;
		if (*seen & 1U << i)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "Upload-Metadata has '%s' twice", key->name);
		*seen |= 1U << i;
		if (!space ||
		    !flmem_base64_read(space + 1, length - name - 1, value, VALUE_MAX, &bytes))
			return set_invalid_key(key->name, "base64", err);
		value[bytes] = '\0';
		if (strlen(value) != bytes)
			return set_invalid_key(key->name, "no NUL", err);
		return key->take(metadata, value, err);
	}
	return 0;
}

int flmem_tus_metadata_parse(const char *header, struct flmem_tus_metadata *ret_metadata,
			     struct flmem_error *err)
{
	struct flmem_tus_metadata metadata = {.weight = 1, .files = 1};
	unsigned seen = 0;
	int rc = 0;

	while (*header && !rc) {
		size_t length;

		header += strspn(header, " \t");
		length = strcspn(header, ",");
		while (length && strchr(" \t", header[length - 1]))
			length--;
		rc = take_pair(&metadata, header, length, &seen, err);
		header += strcspn(header, ",");
		header += *header == ',';
	}
	if (!rc)
		*ret_metadata = metadata;
	return rc;
}

int flmem_tus_checksum_parse(const char *header, struct flmem_tus_checksum *ret_checksum,
			     struct flmem_error *err)
{
	struct flmem_tus_checksum checksum;
	size_t name = strcspn(header, " "), bytes;

	checksum.kind = flmem_digest_find(header, name);
	if (checksum.kind == FLMEM_DIGEST_NONE)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "Upload-Checksum has an unknown algorithm; choose from "
				       "sha1, sha256, crc32c");
	if (!header[name] ||
	    !flmem_base64_read(header + name + 1, strlen(header + name + 1), checksum.value,
			       sizeof(checksum.value), &bytes) ||
	    bytes != flmem_digest_bytes(checksum.kind))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "Upload-Checksum is not the base64 of %zu bytes",
				       flmem_digest_bytes(checksum.kind));
	*ret_checksum = checksum;
	return 0;
}

bool flmem_tus_id_parse(const char *text, char ret_id[FLMEM_EXCHANGE_ID_DIGITS + 1])
{
	if (strspn(text, "0123456789abcdef") != FLMEM_EXCHANGE_ID_DIGITS ||
	    text[FLMEM_EXCHANGE_ID_DIGITS])
		return false;
	memcpy(ret_id, text, FLMEM_EXCHANGE_ID_DIGITS + 1);
	return true;
}

void flmem_tus_concat_clear(struct flmem_tus_concat *concat)
{
	free(concat->ids);
	*concat = (struct flmem_tus_concat){0};
}

/* Takes the id at the end of an address of `length` characters. */
static bool take_address(struct flmem_tus_concat *concat, const char *text, size_t length)
{
	static const char path[] = FLMEM_EXCHANGE_UPLOADS_PATH "/";
	char(*id)[FLMEM_EXCHANGE_ID_DIGITS + 1] = &concat->ids[concat->count];
	size_t before = sizeof(path) - 1;

	if (length < before + FLMEM_EXCHANGE_ID_DIGITS ||
	    memcmp(text + length - FLMEM_EXCHANGE_ID_DIGITS - before, path, before) != 0)
		return false;
	memcpy(*id, text + length - FLMEM_EXCHANGE_ID_DIGITS, FLMEM_EXCHANGE_ID_DIGITS);
	(*id)[FLMEM_EXCHANGE_ID_DIGITS] = '\0';
	if (strspn(*id, "0123456789abcdef") != FLMEM_EXCHANGE_ID_DIGITS)
		return false;
	for (size_t i = 0; i < concat->count; i++)
		if (strcmp(concat->ids[i], *id) == 0)
			return false;
	concat->count++;
	return true;
}

int flmem_tus_concat_parse(const char *header, struct flmem_tus_concat *ret_concat,
			   struct flmem_error *err)
{
	FLMEM_AUTO(flmem_tus_concat_clear)
	struct flmem_tus_concat concat = {.partial = strcmp(header, "partial") == 0};
	bool valid = concat.partial || flmem_text_starts(header, "final;");

	if (valid && !concat.partial) {
		concat.ids = calloc(FLMEM_TUS_PARTS_MAX, sizeof(*concat.ids));
		if (!concat.ids)
			return flmem_error_nomem(err, "cannot read Upload-Concat");
		header += strlen("final;");
		for (size_t length; *header && valid; header += length) {
			header += strspn(header, " ");
			length = strcspn(header, " ");
			valid = !length || (concat.count < FLMEM_TUS_PARTS_MAX &&
					    take_address(&concat, header, length));
		}
		valid = valid && concat.count;
	}
	if (!valid)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "Upload-Concat is neither 'partial' nor 'final;' with 1 to "
				       "%u different uploads",
				       FLMEM_TUS_PARTS_MAX);
	*ret_concat = concat;
	concat = (struct flmem_tus_concat){0};
	return 0;
}

enum flmem_range_kind flmem_range_parse(const char *header, uint64_t size,
					struct flmem_byte_range *ret_range)
{
	struct flmem_byte_range range = {.end = size};
	bool has_first, has_last;
	uint64_t last;

	if (!header || !flmem_text_starts(header, "bytes="))
		return FLMEM_RANGE_WHOLE;
	header += strlen("bytes=");
	has_first = flmem_text_read_digits(&header, &range.begin);
	if (*header++ != '-')
		return FLMEM_RANGE_WHOLE;
	has_last = flmem_text_read_digits(&header, &last);
	if (*header || (!has_first && !has_last) || (has_first && has_last && last < range.begin))
		return FLMEM_RANGE_WHOLE;
	if (!has_first)
		range.begin = last < size ? size - last : 0;
	else if (has_last && last < size)
		range.end = last + 1;
	if (range.begin >= size || (!has_first && !last))
		return FLMEM_RANGE_OUTSIDE;
	*ret_range = range;
	return FLMEM_RANGE_PART;
}
