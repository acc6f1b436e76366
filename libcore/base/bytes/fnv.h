/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_FNV_H
#define FLMEM_BASE_FNV_H

/* FNV-1a with 64 bits, a hash for distinguishing values. It does not protect against forgery. */

#include <stddef.h>
#include <stdint.h>

#define FLMEM_FNV_START UINT64_C(14695981039346656037)

/* Continues `hash`; start with FLMEM_FNV_START. */
static inline uint64_t flmem_fnv_mix(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(1099511628211);
	return hash;
}

#endif
