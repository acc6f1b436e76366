/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_PADDING_H
#define FLMEM_RUNTIMES_CPYTHON_PADDING_H

/*
 * A place in a process for a text that has to outlive the call that names it: the end of the last
 * page behind a library's data. It is mapped and zero, and no name reaches it. Nothing has to be
 * mapped and nothing remains mapped; what is left there by a caller that dies is never looked at.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "elf/view.h"

/* Room that is asked for must not be more than this. */
#define FLMEM_PADDING_MAX 4096U

/* FLMEM_EUNSUPPORTED when no library of the process has so much; what is not zero is in use. */
int flmem_padding_find(const struct flmem_view *view, size_t length, uint64_t *ret_address,
		       struct flmem_error *err);

#endif
