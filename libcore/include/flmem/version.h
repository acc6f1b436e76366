/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VERSION_H
#define FLMEM_VERSION_H

#include <flmem/visibility.h>

/* "0.1.0"; set by the build from the project's version. */
FLMEM_API const char *flmem_version(void);

#endif
