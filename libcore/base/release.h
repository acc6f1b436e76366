/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_RELEASE_H
#define FLMEM_BASE_RELEASE_H

/* Release numbers of frameworks: "2.8", "2.8.1", "2.9.0rc1". */

#include <flmem/error.h>

#define FLMEM_RELEASE_PARTS 3

struct flmem_release {
	unsigned parts[FLMEM_RELEASE_PARTS];
	unsigned count; /* number of known parts; 0: no release at all */
};

#define FLMEM_RELEASE(major, minor, patch)                       \
	{                                                        \
		.parts = {(major), (minor), (patch)}, .count = 3 \
	}

/* Text after the numbers ("rc1", "dev0") is ignored. FLMEM_EUSAGE when it starts with no number. */
int flmem_release_parse(const char *text, struct flmem_release *ret_release,
			struct flmem_error *err);

/* <0, 0, >0; a part that one of them lacks counts as equal, so 2.7 is "at least 2.7.2". */
int flmem_release_compare(const struct flmem_release *a, const struct flmem_release *b);

#endif
