/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_KEPT_H
#define FLMEM_TESTS_KEPT_H

/*
 * Compares texts of a module's results with those in tests/fixtures/golden. With FLMEM_GOLDEN_WRITE
 * in the environment the files are written: review the difference before it is committed. The texts
 * contain nothing that depends on the machine or the compiler.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/crc32.h"
#include "base/cleanup.h"
#include "base/text/buf.h"

#define KEPT FIXTURES "/golden/"

static inline void kept_read(const char *name, struct flmem_buf *text)
{
	char path[512], chunk[4096];
	size_t got;
	FILE *file;

	snprintf(path, sizeof(path), KEPT "%s", name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s is missing", path);
	while ((got = fread(chunk, 1, sizeof(chunk), file)))
		flmem_buf_append(text, chunk, got);
	fclose(file);
}

static inline void kept_write(const char *name, const struct flmem_buf *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), KEPT "%s", name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text->data, 1, text->length, file), text->length);
	assert_int_equal(fclose(file), 0);
}

/* Prints the first line that differs. */
static inline void kept_compare(const char *name, const struct flmem_buf *text)
{
	FLMEM_AUTO_BUF struct flmem_buf kept = FLMEM_BUF_INIT;
	size_t line = 0, at = 0;

	if (getenv("FLMEM_GOLDEN_WRITE"))
		kept_write(name, text);
	kept_read(name, &kept);
	for (; at < kept.length && at < text->length && kept.data[at] == text->data[at]; at++)
		if (text->data[at] == '\n')
			line = at + 1;
	if (at < kept.length || at < text->length)
		fail_msg("%s: '%.*s' instead of '%.*s'", name,
			 (int)strcspn(text->data + line, "\n"), text->data + line,
			 (int)strcspn(kept.data + line, "\n"), kept.data + line);
}

/*
 * Writes texts of which only a checksum is kept to the file that FLMEM_VARIATIONS names, to compare
 * them before and after a change.
 */
static inline void kept_show(const char *text, const struct flmem_buf *found)
{
	const char *path = getenv("FLMEM_VARIATIONS");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "%s%s\n", text, found->data);
	fclose(file);
}

/* Number of texts per checksum. */
#define KEPT_AT_ONCE 100

/*
 * Compares texts of many seeds: NAME.txt has the texts for the first seeds, NAME.sums a checksum
 * for each hundred of the others. They reach states that the first do not, and would fill files
 * that nobody reads.
 */
static inline void kept_compare_seeds(const char *name, uint64_t texts, uint64_t last,
				      void (*put)(uint64_t seed, struct flmem_buf *out))
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT, sums = FLMEM_BUF_INIT;
	char path[128];

	for (uint64_t seed = 1; seed <= texts; seed++)
		put(seed, &out);
	snprintf(path, sizeof(path), "%s.txt", name);
	kept_compare(path, &out);
	for (uint64_t first = texts + 1; first <= last; first += KEPT_AT_ONCE) {
		FLMEM_AUTO_BUF struct flmem_buf some = FLMEM_BUF_INIT;

		for (uint64_t seed = first; seed < first + KEPT_AT_ONCE; seed++)
			put(seed, &some);
		flmem_buf_printf(&sums, "%d %08x\n", (int)first,
				 (unsigned)flmem_crc32(0, some.data, some.length));
	}
	snprintf(path, sizeof(path), "%s.sums", name);
	kept_compare(path, &sums);
}

#endif
