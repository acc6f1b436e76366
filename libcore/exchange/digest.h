/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_DIGEST_H
#define FLMEM_EXCHANGE_DIGEST_H

/*
 * Checksums of bodies and files. SHA-1 and SHA-256 are those of GnuTLS, which is loaded on use; it
 * uses the processor's instructions for them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#define FLMEM_DIGEST_MAX   32U /* bytes */
#define FLMEM_SHA256_BYTES 32U
#define FLMEM_SHA256_HEX   (2 * FLMEM_SHA256_BYTES + 1) /* with the NUL */

enum flmem_digest_kind {
	FLMEM_DIGEST_CRC32C, /* 4 bytes, the most significant first */
	FLMEM_DIGEST_SHA1,
	FLMEM_DIGEST_SHA256,
	FLMEM_DIGEST_NONE,
};

struct flmem_digest {
	enum flmem_digest_kind kind;
	uint32_t crc32c;
	void *hash;
};

/* Returns the kind with the name that tus uses ("crc32c"); FLMEM_DIGEST_NONE if there is none. */
enum flmem_digest_kind flmem_digest_find(const char *name, size_t length);

size_t flmem_digest_bytes(enum flmem_digest_kind kind);

/* Begins a digest. FLMEM_EUNSUPPORTED without GnuTLS. */
int flmem_digest_begin(struct flmem_digest *digest, enum flmem_digest_kind kind,
		       struct flmem_error *err);

void flmem_digest_add(struct flmem_digest *digest, const void *bytes, size_t length);

/*
 * Writes flmem_digest_bytes() bytes to `out` and frees the digest; without `out` only frees it. A
 * zeroed digest is allowed.
 */
void flmem_digest_end(struct flmem_digest *digest, unsigned char *out);

/* Computes the SHA-256 of a whole file, read from its start; the offset of `fd` does not change. */
int flmem_digest_file(int fd, const char *path, unsigned char out[FLMEM_SHA256_BYTES],
		      struct flmem_error *err);

void flmem_hex_print(const unsigned char *bytes, size_t length, char *out);

/* Converts exactly 2 * `length` digits of either case; false for another text. */
bool flmem_hex_read(const char *text, unsigned char *out, size_t length);

#endif
