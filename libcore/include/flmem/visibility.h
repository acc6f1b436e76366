/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VISIBILITY_H
#define FLMEM_VISIBILITY_H

/*
 * Marks the public symbols of libflmem, also for C++; everything else is built with hidden
 * visibility.
 */
#ifdef __cplusplus
#define FLMEM_API extern "C" __attribute__((visibility("default")))
#else
#define FLMEM_API __attribute__((visibility("default")))
#endif

/*
 * The result shows whether the call failed, or is memory that the caller must free: the compiler
 * warns if it is not used.
 */
#define FLMEM_MUST_CHECK __attribute__((warn_unused_result))

#endif
