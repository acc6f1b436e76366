/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_UNIT_CPYTHON_TABLE_315_H
#define FLMEM_TESTS_UNIT_CPYTHON_TABLE_315_H

#include <stdint.h>

/*
 * The memory of Debian's 3.15.2 (tests/worlds/make-python) after the cookie; offsetof() by its
 * debugging information gives the same.
 */
static const uint64_t cpython_table_315[] = {
	0x30f02f0, 0,	 346568, 912,  936,  226240, 7272, 7264, 7336, 7352, 7400, 7592, 7576, 7584,
	16,	   7736, 0,	 7752, 7744, 7944,   0,	   888,	 0,    8,    16,   72,	 80,   88,
	96,	   176,	 184,	 256,  32,   36,     40,   136,	 288,  0,    88,   8,	 0,    56,
	80,	   74,	 64,	 0,    216,  112,    120,  128,	 136,  68,   52,   96,	 104,  208,
	0,	   16,	 8,	 424,  24,   88,     168,  32,	 288,  944,  888,  40,	 32,   16,
	40,	   24,	 16,	 200,  24,   40,     32,   48,	 32,   40,   24,   16,	 32,   16,
	24,	   40,	 16,	 32,   64,   32,     16,   40,	 56,   176,  112,  120,	 1120, 104,
	160,	   24,	 72,	 67,   0,    8,	     24,   344,	 8028, 0,    4,	   512,
};

#endif
