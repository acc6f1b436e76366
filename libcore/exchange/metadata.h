/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_METADATA_H
#define FLMEM_EXCHANGE_METADATA_H

/*
 * Parses the headers of uploads that tus 1.0.0 defines, and of ranges. All of their content is
 * untrusted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "exchange/digest.h"
#include "exchange/wire.h"

/* The header Upload-Metadata. */
struct flmem_tus_metadata {
	uint64_t round;
	bool has_round;
	char client[FLMEM_EXCHANGE_NAME_MAX + 1];   /* "": none */
	char filename[FLMEM_EXCHANGE_NAME_MAX + 1]; /* "": none */
	double weight;
	uint64_t files;
	bool has_sha256;
	unsigned char sha256[FLMEM_SHA256_BYTES];
};

/* The range of a weight, for messages. */
#define FLMEM_EXCHANGE_WEIGHTS "a decimal number from 1e-15 to 1e15"

/* Parses the weight of an update; false for any other text. */
bool flmem_exchange_weight_parse(const char *text, double *ret_weight);

/*
 * Parses Upload-Metadata; unknown keys are ignored. FLMEM_EUSAGE for invalid values and repeated
 * keys.
 */
int flmem_tus_metadata_parse(const char *header, struct flmem_tus_metadata *ret_metadata,
			     struct flmem_error *err);

/* The header Upload-Checksum, "crc32c BASE64"; any other text is FLMEM_EUSAGE. */
struct flmem_tus_checksum {
	enum flmem_digest_kind kind;
	unsigned char value[FLMEM_DIGEST_MAX];
};

int flmem_tus_checksum_parse(const char *header, struct flmem_tus_checksum *ret_checksum,
			     struct flmem_error *err);

#define FLMEM_TUS_PARTS_MAX 256U

/* The header Upload-Concat. */
struct flmem_tus_concat {
	bool partial; /* else final */
	char (*ids)[FLMEM_EXCHANGE_ID_DIGITS + 1];
	size_t count;
};

/*
 * Parses Upload-Concat. Addresses of uploads may be absolute. Release it with
 * flmem_tus_concat_clear().
 */
int flmem_tus_concat_parse(const char *header, struct flmem_tus_concat *ret_concat,
			   struct flmem_error *err);
void flmem_tus_concat_clear(struct flmem_tus_concat *concat);

/* Copies the id of an upload; false for another text. */
bool flmem_tus_id_parse(const char *text, char ret_id[FLMEM_EXCHANGE_ID_DIGITS + 1]);

/* Parses an unsigned integer; false for any other text. */
bool flmem_tus_number_parse(const char *text, uint64_t *ret_number);

enum flmem_range_kind {
	/* No range, several, or an invalid one: RFC 9110, 14.2 lets a server ignore them. */
	FLMEM_RANGE_WHOLE,
	FLMEM_RANGE_PART,
	FLMEM_RANGE_OUTSIDE, /* the range is outside the file: status 416 */
};

struct flmem_byte_range {
	uint64_t begin, end;
};

/* Parses the Range header; NULL for none. *ret_range is set for a part. */
enum flmem_range_kind flmem_range_parse(const char *header, uint64_t size,
					struct flmem_byte_range *ret_range);

#endif
