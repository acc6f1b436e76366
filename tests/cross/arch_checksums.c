/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the checksum of chunks by aarch64's instruction with the portable one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/crc32c.h"
#include "base/processor.h"

#define LONGEST 300U
/* Checksum of 32 bytes of zeros (RFC 3720, B.4). */
#define OF_ZEROS 0x8a9136aaU

int main(void)
{
	unsigned char bytes[LONGEST] = {0};
	int failed = !flmem_processor_has_crc32() || flmem_crc32c(0, bytes, 32) != OF_ZEROS ||
		     flmem_crc32c_portable(0, bytes, 32) != OF_ZEROS;

	srandom(1);
	for (size_t i = 0; i < LONGEST; i++)
		bytes[i] = (unsigned char)random();
	for (size_t from = 0; from < 9; from++)
		for (size_t length = 0; from + length <= LONGEST; length++) {
			const uint32_t before = (uint32_t)random();

			failed |= flmem_crc32c(before, bytes + from, length) !=
				  flmem_crc32c_portable(before, bytes + from, length);
		}
	puts(failed ? "aarch64: checksums differ" : "aarch64: checksums as they should be");
	return failed;
}
