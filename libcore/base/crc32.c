/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0xedb88320) /* with its bits reversed */
#define STEP	   8U

/* tables[n][b]: what byte b contributes n bytes before the end of a step. */
static uint32_t tables[STEP][256];

static void make_tables(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		tables[0][b] = crc;
	}
	for (uint32_t n = 1; n < STEP; n++)
		for (uint32_t b = 0; b < 256; b++)
			tables[n][b] = tables[n - 1][b] >> 8 ^ tables[0][tables[n - 1][b] & 0xff];
}

uint32_t flmem_crc32(uint32_t crc, const void *bytes, size_t length)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const unsigned char *at = bytes;

	pthread_once(&once, make_tables);
	crc = ~crc;
	for (; length >= STEP; length -= STEP, at += STEP) {
		uint32_t next = 0;

		for (uint32_t i = 0; i < STEP; i++)
			next ^= tables[STEP - 1 - i][at[i] ^ (i < 4 ? crc >> 8 * i & 0xff : 0)];
		crc = next;
	}
	for (; length; length--, at++)
		crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
	return ~crc;
}
