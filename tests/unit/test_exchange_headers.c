/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "exchange/base64.h"
#include "exchange/metadata.h"
#include "exchange/valid_names.h"

#define DIGITS64 "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"
#define ID_A	 "00000000000000000000000000000001"
#define ID_B	 "abcdef00000000000000000000000002"

static int print_pair(char *at, const char *before, const char *key)
{
	return snprintf(at, 100, "%s%s ", before, key);
}

/* Makes "key value,key value" with the values in base64. */
static const char *encode_pairs(const char *const pairs[][2], size_t count, char *out)
{
	char *at = out;

	for (size_t i = 0; i < count; i++) {
		at += print_pair(at, i ? "," : "", pairs[i][0]);
		flmem_base64_print(pairs[i][1], strlen(pairs[i][1]), at);
		at += strlen(at);
	}
	return out;
}

static void metadata_is_read(void **state)
{
	static const char *const pairs[][2] = {
		{"round", "7"},	     {"client", "site-1.a_B"}, {"filename", "m.safetensors"},
		{"weight", "600.5"}, {"files", "3"},	       {"sha256", DIGITS64},
		{"other", "x"},
	};
	struct flmem_tus_metadata m;
	char text[1024];

	(void)state;
	encode_pairs(pairs, FLMEM_ARRAY_SIZE(pairs), text);
	assert_int_equal(flmem_tus_metadata_parse(text, &m, NULL), 0);
	assert_true(m.has_round && m.has_sha256);
	assert_int_equal(m.round, 7);
	assert_string_equal(m.client, "site-1.a_B");
	assert_string_equal(m.filename, "m.safetensors");
	assert_true(m.weight == 600.5);
	assert_int_equal(m.files, 3);
	assert_int_equal(m.sha256[1], 0x23);
	assert_int_equal(flmem_tus_metadata_parse(" , is-final, client YQ== ,x", &m, NULL), 0);
	assert_string_equal(m.client, "a");
	assert_false(m.has_round);
	assert_true(m.weight == 1);
	assert_int_equal(m.files, 1);
}

static void invalid_values_are_refused(void **state)
{
	static const char *const pairs[][2] = {
		{"round", "-1"},
		{"round", ""},
		{"round", "1 "},
		{"round", "1e3"},
		{"round", "9999999999"},
		{"client", ""},
		{"client", ".."},
		{"client", "a/b"},
		{"client", "a b"},
		{"client", "\xc3\xa9"},
		{"filename", ".a"},
		{"filename", "../a"},
		{"filename", DIGITS64 "0"},
		{"weight", "0"},
		{"weight", "-1"},
		{"weight", "nan"},
		{"weight", "inf"},
		{"weight", "1e16"},
		{"weight", "9e-16"},
		{"weight", "1e-200"},
		{"files", "0"},
		{"files", "1001"},
		{"sha256", "00"},
		{"sha256", DIGITS64 "0"},
		{"sha256", "x" DIGITS64},
	};
	struct flmem_tus_metadata m;
	char text[1024];

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(pairs); i++)
		assert_int_equal(
			flmem_tus_metadata_parse(encode_pairs(&pairs[i], 1, text), &m, NULL),
			FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_metadata_parse("client YQ==,client YQ==", &m, NULL),
			 FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_metadata_parse("client YQ", &m, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_metadata_parse("client", &m, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_metadata_parse("client YQBi", &m, NULL), FLMEM_EUSAGE);
}

static void checksums_are_read(void **state)
{
	struct flmem_tus_checksum c;

	(void)state;
	assert_int_equal(flmem_tus_checksum_parse("crc32c AAECAw==", &c, NULL), 0);
	assert_int_equal(c.kind, FLMEM_DIGEST_CRC32C);
	assert_memory_equal(c.value, "\0\1\2\3", 4);
	assert_int_equal(flmem_tus_checksum_parse("crc32c AAEC", &c, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_checksum_parse("crc32c", &c, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_checksum_parse("sha1 AAECAw==", &c, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_checksum_parse("crc AAECAw==", &c, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_tus_checksum_parse("", &c, NULL), FLMEM_EUSAGE);
}

static void concatenations_are_read(void **state)
{
	static const char *const invalid[] = {
		"",
		"final",
		"final;",
		"final; ",
		"parts",
		"final;/v1/uploads/" ID_A " /v1/uploads/" ID_A,
		"final;/v1/upload/" ID_A,
		"final;" ID_A,
		"final;/v1/uploads/" ID_A "0",
		"final;/v1/uploads/../../x0000000000000000000000000",
	};
	struct flmem_tus_concat c;

	(void)state;
	assert_int_equal(flmem_tus_concat_parse("partial", &c, NULL), 0);
	assert_true(c.partial);
	flmem_tus_concat_clear(&c);
	assert_int_equal(flmem_tus_concat_parse("final;/v1/uploads/" ID_B
						" http://host/v1/uploads/" ID_A,
						&c, NULL),
			 0);
	assert_false(c.partial);
	assert_int_equal(c.count, 2);
	assert_string_equal(c.ids[0], ID_B);
	assert_string_equal(c.ids[1], ID_A);
	flmem_tus_concat_clear(&c);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(invalid); i++)
		assert_int_equal(flmem_tus_concat_parse(invalid[i], &c, NULL), FLMEM_EUSAGE);
}

static void ranges_are_read(void **state)
{
	static const struct {
		const char *header;
		enum flmem_range_kind kind;
		uint64_t begin, end;
	} rows[] = {
		{"bytes=0-0", FLMEM_RANGE_PART, 0, 1},
		{"bytes=5-", FLMEM_RANGE_PART, 5, 100},
		{"bytes=90-200", FLMEM_RANGE_PART, 90, 100},
		{"bytes=-10", FLMEM_RANGE_PART, 90, 100},
		{"bytes=-1000", FLMEM_RANGE_PART, 0, 100},
		{"bytes=5-18446744073709551615", FLMEM_RANGE_PART, 5, 100},
		{"bytes=100-", FLMEM_RANGE_OUTSIDE, 0, 0},
		{"bytes=-0", FLMEM_RANGE_OUTSIDE, 0, 0},
		{"bytes=5-4", FLMEM_RANGE_WHOLE, 0, 0},
		{"bytes=0-1,5-6", FLMEM_RANGE_WHOLE, 0, 0},
		{"bytes=-", FLMEM_RANGE_WHOLE, 0, 0},
		{"bytes=a-b", FLMEM_RANGE_WHOLE, 0, 0},
		{"bytes=18446744073709551616-", FLMEM_RANGE_WHOLE, 0, 0},
		{"items=0-1", FLMEM_RANGE_WHOLE, 0, 0},
		{"bytes=", FLMEM_RANGE_WHOLE, 0, 0},
		{NULL, FLMEM_RANGE_WHOLE, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_byte_range range = {0};

		assert_int_equal(flmem_range_parse(rows[i].header, 100, &range), rows[i].kind);
		assert_int_equal(range.begin, rows[i].begin);
		assert_int_equal(range.end, rows[i].end);
	}
	assert_int_equal(flmem_range_parse("bytes=0-", 0, &(struct flmem_byte_range){0}),
			 FLMEM_RANGE_OUTSIDE);
}

static void base64_is_strict(void **state)
{
	static const char *const invalid[] = {
		"A", "AA", "AAA", "A===", "====", "AA=A", "AB==", "AAB=", "AA==AAAA", "AA-_"};
	char text[FLMEM_BASE64_ROOM(300)];
	unsigned char bytes[300], back[300];
	size_t count;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 37);
	for (size_t length = 0; length <= sizeof(bytes); length++) {
		flmem_base64_print(bytes, length, text);
		assert_true(flmem_base64_read(text, strlen(text), back, length, &count));
		assert_int_equal(count, length);
		assert_memory_equal(back, bytes, length);
		assert_false(length &&
			     flmem_base64_read(text, strlen(text), back, length - 1, &count));
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(invalid); i++)
		assert_false(flmem_base64_read(invalid[i], strlen(invalid[i]), back, sizeof(back),
					       &count));
}

static void digests_are_those_of_others(void **state)
{
	struct flmem_digest digest;
	unsigned char value[FLMEM_DIGEST_MAX];
	char hex[2 * FLMEM_DIGEST_MAX + 1];

	(void)state;
	/* FIPS 180-2, and RFC 3720 B.4 for "123456789". */
	assert_int_equal(flmem_digest_begin(&digest, FLMEM_DIGEST_SHA256, NULL), 0);
	flmem_digest_add(&digest, "a", 1);
	flmem_digest_add(&digest, "bc", 2);
	flmem_digest_end(&digest, value);
	flmem_hex_print(value, 32, hex);
	assert_string_equal(hex,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_int_equal(flmem_digest_begin(&digest, FLMEM_DIGEST_SHA1, NULL), 0);
	flmem_digest_add(&digest, "abc", 3);
	flmem_digest_end(&digest, value);
	flmem_hex_print(value, 20, hex);
	assert_string_equal(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
	assert_int_equal(flmem_digest_begin(&digest, FLMEM_DIGEST_CRC32C, NULL), 0);
	flmem_digest_add(&digest, "123456789", 9);
	flmem_digest_end(&digest, value);
	flmem_hex_print(value, 4, hex);
	assert_string_equal(hex, "e3069283");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata_is_read),
		cmocka_unit_test(invalid_values_are_refused),
		cmocka_unit_test(checksums_are_read),
		cmocka_unit_test(concatenations_are_read),
		cmocka_unit_test(ranges_are_read),
		cmocka_unit_test(base64_is_strict),
		cmocka_unit_test(digests_are_those_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
