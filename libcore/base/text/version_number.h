/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_VERSION_NUMBER_H
#define FLMEM_BASE_VERSION_NUMBER_H

/* Release numbers of frameworks: "2.8", "2.8.1", "2.9.0rc1". */

#include <flmem/error.h>

#define FLMEM_VERSION_NUMBER_PARTS 3

struct flmem_version_number {
	unsigned parts[FLMEM_VERSION_NUMBER_PARTS];
	unsigned count; /* number of known parts; 0: no release at all */
};

#define FLMEM_VERSION_NUMBER(major, minor, patch)                \
	{                                                        \
		.parts = {(major), (minor), (patch)}, .count = 3 \
	}

/* Text after the numbers ("rc1", "dev0") is ignored. FLMEM_EUSAGE when it starts with no number. */
int flmem_version_number_parse(const char *text, struct flmem_version_number *ret_release,
			       struct flmem_error *err);

/*
 * Parses a version that a user gives. FLMEM_EUSAGE also for "2..9", "2.9." and "2.9000000000".
 */
int flmem_version_number_option(const char *text, struct flmem_version_number *ret_release,
				struct flmem_error *err);

/*
 * Returns <0, 0 or >0. A part that one of them lacks counts as equal, so 2.7 is "at least 2.7.2".
 */
int flmem_version_number_compare(const struct flmem_version_number *a,
				 const struct flmem_version_number *b);

#endif
