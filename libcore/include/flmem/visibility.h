/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VISIBILITY_H
#define FLMEM_VISIBILITY_H

/* Marks the public symbols of libflmem; everything else is built with hidden visibility. */
#define FLMEM_API __attribute__((visibility("default")))

#endif
