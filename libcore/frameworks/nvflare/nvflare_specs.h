/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_SPECS_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_SPECS_H

/*
 * Reads the resources that a job requests at each site: resource_spec and launcher_spec of a meta
 * file, or what a script sets by add_resource_spec(), set_recipe_meta() and meta_props.
 */

#include "frameworks/nvflare/nvflare_classes.h"

/* Keys of the block for all sites, in resource_spec and in launcher_spec. */
#define FLMEM_NVFLARE_RESOURCE_DEFAULT "@default"
#define FLMEM_NVFLARE_LAUNCHER_DEFAULT "default"

/* The resources that a job requests at one site. */
struct flmem_nvflare_spec {
	bool launcher;	  /* the entry is in launcher_spec, not in resource_spec */
	const char *site; /* NULL: known only when the script runs */
	/* Map of all sites; NULL: add_resource_spec() has one site only. */
	const struct flmem_node *sites;
	const struct flmem_node *asked; /* the resources: a map, or an invalid value */
};

/* Calls `visit` for each site in the checked file. */
void flmem_nvflare_specs_visit(const struct flmem_check *check,
			       void (*visit)(void *arg, const struct flmem_nvflare_spec *spec),
			       void *arg);

/* Whether an entry of resource_spec has parts for launchers: "docker", "k8s" and the like. */
bool flmem_nvflare_spec_has_modes(const struct flmem_node *asked);

/*
 * The map with the resources that any launcher applies: the entry itself, or if it has parts for
 * launchers and there is a block for all sites, its part "process"; else NULL.
 */
const struct flmem_node *flmem_nvflare_spec_portable(const struct flmem_nvflare_spec *spec);

/*
 * The call of a script after `call`, or the first one if that is NULL: calls of functions first,
 * then those of methods. NULL after the last.
 */
const struct flmem_node *flmem_nvflare_next_call(const struct flmem_check *check,
						 const struct flmem_node *call);

/*
 * An argument of a call by its name or position (NULL: none), also from a dictionary passed by
 * "**".
 */
const struct flmem_node *flmem_nvflare_call_argument(const struct flmem_check *check,
						     const struct flmem_node *call,
						     const char *name, const char *place);

#endif
