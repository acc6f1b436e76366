/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_GADGETS_H
#define FLMEM_REMOTE_GADGETS_H

#include <flmem/error.h>

#include "elf/view.h"
#include "remote/arch.h"

/*
 * Finds the instructions that a chain uses in the C library of the target (in the program if it is
 * static). FLMEM_EUNSUPPORTED if there are none, or if the target has overwritten them.
 */
int flmem_gadgets_find(const struct flmem_view *view, struct flmem_gadgets *ret_gadgets,
		       struct flmem_error *err);

#endif
