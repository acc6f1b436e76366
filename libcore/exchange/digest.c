/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <string.h>

#include <flmem/plugin.h>

#include "base/bytes/crc32c.h"
#include "base/cleanup.h"

#define BLOCK_BYTES (256U << 10)

static const struct {
	const char *name;
	size_t bytes;
	gnutls_digest_algorithm_t algorithm;
} digest_kinds[] = {
	[FLMEM_DIGEST_CRC32C] = {"crc32c", 4, GNUTLS_DIG_UNKNOWN},
	[FLMEM_DIGEST_SHA1] = {"sha1", 20, GNUTLS_DIG_SHA1},
	[FLMEM_DIGEST_SHA256] = {"sha256", FLMEM_SHA256_BYTES, GNUTLS_DIG_SHA256},
};

static struct {
	__typeof__(&gnutls_hash_init) init;
	__typeof__(&gnutls_hash) hash;
	__typeof__(&gnutls_hash_deinit) deinit;
} gnutls;

static const struct flmem_plugin digest_plugin = {
	.sonames = {"libgnutls.so.30"}, /* since 3.4 (2015) */
	.missing = "SHA-256 of models needs GnuTLS (Debian: libgnutls30)",
	.stays = true,
};

static int load_hashes(struct flmem_error *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct flmem_plugin_symbol symbols[] = {
		{.names = {"gnutls_hash_init"}, .slot = &gnutls.init},
		{.names = {"gnutls_hash"}, .slot = &gnutls.hash},
		{.names = {"gnutls_hash_deinit"}, .slot = &gnutls.deinit},
	};
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!gnutls.init)
		rc = flmem_plugin_load(&digest_plugin, symbols, FLMEM_ARRAY_SIZE(symbols), NULL,
				       err);
	pthread_mutex_unlock(&lock);
	return rc;
}

enum flmem_digest_kind flmem_digest_find(const char *name, size_t length)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(digest_kinds); i++)
		if (strlen(digest_kinds[i].name) == length &&
		    memcmp(digest_kinds[i].name, name, length) == 0)
			return (enum flmem_digest_kind)i;
	return FLMEM_DIGEST_NONE;
}

size_t flmem_digest_bytes(enum flmem_digest_kind kind)
{
	return kind < FLMEM_DIGEST_NONE ? digest_kinds[kind].bytes : 0;
}

int flmem_digest_begin(struct flmem_digest *digest, enum flmem_digest_kind kind,
		       struct flmem_error *err)
{
	gnutls_hash_hd_t hash = NULL;
	int rc = 0;

	if (kind == FLMEM_DIGEST_SHA1 || kind == FLMEM_DIGEST_SHA256) {
		rc = load_hashes(err);
		if (!rc && gnutls.init(&hash, digest_kinds[kind].algorithm) < 0)
			rc = flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
					     "GnuTLS does not offer %s here (FIPS mode?)",
					     digest_kinds[kind].name);
	}
	if (!rc)
		*digest = (struct flmem_digest){.kind = kind, .hash = hash};
	return rc;
}

void flmem_digest_add(struct flmem_digest *digest, const void *bytes, size_t length)
{
	if (digest->hash)
		gnutls.hash(digest->hash, bytes, length);
	else if (digest->kind == FLMEM_DIGEST_CRC32C)
		digest->crc32c = flmem_crc32c(digest->crc32c, bytes, length);
}

void flmem_digest_end(struct flmem_digest *digest, unsigned char *out)
{
	if (digest->hash)
		gnutls.deinit(digest->hash, out);
	else if (digest->kind == FLMEM_DIGEST_CRC32C && out)
		for (unsigned i = 0; i < 4; i++)
			out[i] = (unsigned char)(digest->crc32c >> (24 - 8 * i));
	digest->hash = NULL;
	digest->kind = FLMEM_DIGEST_NONE;
}

int flmem_digest_file(int fd, const char *path, unsigned char out[FLMEM_SHA256_BYTES],
		      struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *block = malloc(BLOCK_BYTES);
	struct flmem_digest digest;
	ssize_t got = 1;
	int rc = block ? flmem_digest_begin(&digest, FLMEM_DIGEST_SHA256, err)
		       : flmem_error_nomem(err, "cannot read '%s'", path);

	if (rc)
		return rc;
	for (off_t at = 0; got > 0; at += got) {
		do
			got = pread(fd, block, BLOCK_BYTES, at);
		while (got < 0 && errno == EINTR);
		if (got > 0)
			flmem_digest_add(&digest, block, (size_t)got);
	}
	if (got < 0)
		rc = flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", path);
	flmem_digest_end(&digest, rc ? NULL : out);
	return rc;
}

void flmem_hex_print(const unsigned char *bytes, size_t length, char *out)
{
	for (size_t i = 0; i < length; i++) {
		*out++ = "0123456789abcdef"[bytes[i] >> 4];
		*out++ = "0123456789abcdef"[bytes[i] & 15];
	}
	*out = '\0';
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool flmem_hex_read(const char *text, unsigned char *out, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		int high = hex_value(text[2 * i]);
		int low = high < 0 ? -1 : hex_value(text[2 * i + 1]);

		if (low < 0)
			return false;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return !text[2 * length];
}
