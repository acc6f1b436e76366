/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VISIBILITY_H
#define FLMEM_VISIBILITY_H

/*
 * Marks the public symbols of libflmem, for C++ too; everything else is built with hidden
 * visibility.
 */
#ifdef __cplusplus
#define FLMEM_API extern "C" __attribute__((visibility("default")))
#else
#define FLMEM_API __attribute__((visibility("default")))
#endif

#endif
