/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_SPECS_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_SPECS_H

/*
 * What a job asks for at each site: resource_spec and launcher_spec of a meta file, or what a
 * script sets by add_resource_spec(), set_recipe_meta() and meta_props.
 */

#include "frameworks/nvflare/nvflare_classes.h"

/* The blocks for all sites. */
#define FLMEM_NVFLARE_RESOURCE_DEFAULT "@default"
#define FLMEM_NVFLARE_LAUNCHER_DEFAULT "default"

struct flmem_nvflare_spec {
	bool launcher;			/* of launcher_spec */
	const char *site;		/* NULL: known only when the script runs */
	const struct flmem_node *sites; /* all of them; NULL: add_resource_spec() has one */
	const struct flmem_node *asked; /* a map, or what is none */
};

/* Calls `visit` for each site of the checked file. */
void flmem_nvflare_specs_visit(const struct flmem_check *check,
			       void (*visit)(void *arg, const struct flmem_nvflare_spec *spec),
			       void *arg);

/* Whether an entry of resource_spec has parts for launchers: "docker", "k8s" and the like. */
bool flmem_nvflare_spec_has_modes(const struct flmem_node *asked);

/*
 * Where the resources that any launcher applies are: the entry itself, its part "process" beside
 * a block for all sites, or NULL.
 */
const struct flmem_node *flmem_nvflare_spec_portable(const struct flmem_nvflare_spec *spec);

/* After a call of a script, or the first one: those of functions, then those of methods. */
const struct flmem_node *flmem_nvflare_next_call(const struct flmem_check *check,
						 const struct flmem_node *call);

/* An argument of a call by its name or place (NULL: none), or of what "**" stands for. */
const struct flmem_node *flmem_nvflare_call_argument(const struct flmem_check *check,
						     const struct flmem_node *call,
						     const char *name, const char *place);

#endif
