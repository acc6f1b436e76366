/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_ADDRESS_SPACE_H
#define FLMEM_PRELOAD_ADDRESS_SPACE_H

/*
 * Gives upper bounds for any kernel of this processor, unless a program asks for more: the largest
 * page, and the number of address bits. On aarch64, pages have 4, 16 or 64 KiB.
 */
#ifdef __aarch64__
#define FLMEM_PAGE_MAX	   65536U
#define FLMEM_ADDRESS_BITS 48
#else
#define FLMEM_PAGE_MAX	   4096U
#define FLMEM_ADDRESS_BITS 47
#endif

#endif
