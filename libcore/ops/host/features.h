/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_HOST_FEATURES_H
#define FLMEM_OPS_HOST_FEATURES_H

/* The platform table of the host report: which features work here, and the reasons. */

#include <flmem/error.h>
#include <flmem/host.h>

#include "elf/libc.h"
#include "proc/host_facts.h"
#include "proc/interfaces.h"

/* The facts that the table is computed from. */
struct flmem_platform {
	const struct flmem_host_facts *facts;
	const struct flmem_host_report *report; /* complete except for its features */
	const struct flmem_libc *libc;		/* NULL: unknown */
	const struct flmem_interface_result *interfaces;
	enum flmem_gate own_gate;
};

int flmem_features_read(const struct flmem_platform *platform, struct flmem_feature **ret_features,
			size_t *ret_count, struct flmem_error *err);

void flmem_features_free(struct flmem_feature *features, size_t count);

#endif
