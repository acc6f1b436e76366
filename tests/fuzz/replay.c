/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target once over every file of a corpus: fuzz_maps corpus/maps */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "fuzz.h"

int main(int argc, char **argv)
{
	FLMEM_AUTO_DIR DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	unsigned count = 0;

	if (!dir) {
		fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	for (const struct dirent *entry; (entry = readdir(dir));) {
		FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

		if (entry->d_type == DT_DIR)
			continue;
		if (flmem_io_read_file_at(dirfd(dir), entry->d_name, (size_t)64 << 20, &buf)) {
			fprintf(stderr, "cannot read %s\n", entry->d_name);
			return 1;
		}
		LLVMFuzzerTestOneInput((const uint8_t *)buf.data, buf.length);
		count++;
	}
	printf("%u inputs\n", count);
	return count ? 0 : 1;
}
