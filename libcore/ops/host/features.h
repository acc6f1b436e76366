/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_HOST_FEATURES_H
#define FLMEM_OPS_HOST_FEATURES_H

/* The platform table of the host report: which features of the field work here, and why (not). */

#include <flmem/error.h>
#include <flmem/host.h>

#include "elf/libc.h"
#include "proc/host.h"
#include "proc/probe.h"

/* What the table is made from. */
struct flmem_platform {
	const struct flmem_host_facts *facts;
	const struct flmem_host_report *report; /* all but its features */
	const struct flmem_libc *libc;		/* NULL: could not be told */
	const struct flmem_interface_result *interfaces;
	enum flmem_gate own_gate;
};

int flmem_features_read(const struct flmem_platform *platform, struct flmem_feature **ret_features,
			size_t *ret_count, struct flmem_error *err);

void flmem_features_free(struct flmem_feature *features, size_t count);

#endif
