/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_PPROF_H
#define FLMEM_REPORT_PPROF_H

/* Writes the format of pprof (github.com/google/pprof, proto/profile.proto), compressed by gzip. */

#include <flmem/heap_profile.h>

#include "base/text/buf.h"

/* Appends the profile; `measure` is the default one. False: memory is out. */
bool flmem_pprof_put(struct flmem_buf *out, const struct flmem_heap_profile *profile,
		     enum flmem_heap_measure measure);

#endif
