/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads resources by utils/job_launcher_utils.py, job_config/fed_job_config.py and recipe/utils.py
 * of 2.9.0.
 */
#include "frameworks/nvflare/nvflare_specs.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

static const char *const nvflare_specs_spec_keys[] = {"resource_spec", "launcher_spec"};
static const char *const spec_constants[] = {"RESOURCE_SPEC", "LAUNCHER_SPEC"};

struct spec_walk {
	const struct flmem_check *check;
	void (*visit)(void *arg, const struct flmem_nvflare_spec *spec);
	void *arg;
};

const struct flmem_node *flmem_nvflare_call_argument(const struct flmem_check *check,
						     const struct flmem_node *call,
						     const char *name, const char *place)
{
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *found = flmem_node_get(args, name), *more;

	if (!found && place)
		found = flmem_node_get(args, place);
	more = found ? NULL : flmem_nvflare_map(check, flmem_node_get(args, "**"));
	return flmem_node_is_kind(more, FLMEM_NODE_MAP) ? flmem_node_get(more, name)
	       : more					? more
							: found;
}

const struct flmem_node *flmem_nvflare_next_call(const struct flmem_check *check,
						 const struct flmem_node *call)
{
	const struct flmem_node *root = check->input->document.root;
	const struct flmem_node *methods = flmem_node_get(root, "methods");
	const struct flmem_node *next =
		call ? call->next : flmem_node_first(flmem_node_get(root, "calls"));

	return next || (call && call->parent == methods) ? next : flmem_node_first(methods);
}

bool flmem_nvflare_spec_has_modes(const struct flmem_node *asked)
{
	static const char *const modes[] = {"process", "docker", "k8s", "slurm", NULL};

	for (const struct flmem_node *n = flmem_node_first(asked); n; n = n->next)
		if (n->key && flmem_text_is_one_of(n->key, modes))
			return true;
	return false;
}

const struct flmem_node *flmem_nvflare_spec_portable(const struct flmem_nvflare_spec *spec)
{
	if (spec->launcher)
		return NULL;
	if (spec->site && strcmp(spec->site, FLMEM_NVFLARE_RESOURCE_DEFAULT) == 0)
		return spec->asked;
	if (!flmem_nvflare_spec_has_modes(spec->asked))
		return spec->asked;
	return flmem_node_get(spec->sites, FLMEM_NVFLARE_RESOURCE_DEFAULT)
		       ? flmem_node_get(spec->asked, "process")
		       : NULL;
}

static void visit_sites(const struct spec_walk *walk, bool launcher, const struct flmem_node *value)
{
	const struct flmem_node *sites = flmem_nvflare_map(walk->check, value);
	struct flmem_nvflare_spec spec = {.launcher = launcher, .sites = sites};

	if (!flmem_node_is_kind(sites, FLMEM_NODE_MAP)) {
		spec.asked = sites;
		if (sites && sites->kind != FLMEM_NODE_NULL)
			walk->visit(walk->arg, &spec);
		return;
	}
	for (const struct flmem_node *n = flmem_node_first(sites); n; n = n->next) {
		spec.site = strcmp(n->key, "**") == 0 ? NULL : n->key;
		spec.asked = flmem_nvflare_map(walk->check, n);
		walk->visit(walk->arg, &spec);
	}
}

/* Visits the site of add_resource_spec(site_name, resource_spec). */
static void visit_added(const struct spec_walk *walk, const struct flmem_node *call)
{
	struct flmem_nvflare_spec spec = {0};

	spec.site =
		flmem_node_string(flmem_nvflare_call_argument(walk->check, call, "site_name", "0"));
	spec.asked = flmem_nvflare_map(
		walk->check, flmem_nvflare_call_argument(walk->check, call, "resource_spec", "1"));
	if (spec.asked)
		walk->visit(walk->arg, &spec);
}

/* Visits the sites of set_recipe_meta(recipe, JobMetaKey.RESOURCE_SPEC, value). */
static void visit_meta(const struct spec_walk *walk, const struct flmem_node *call)
{
	const struct flmem_node *key, *value;

	key = flmem_nvflare_call_argument(walk->check, call, "key", "1");
	value = flmem_nvflare_call_argument(walk->check, call, "value", "2");
	for (size_t i = 0; key && value && i < FLMEM_ARRAY_SIZE(spec_constants); i++)
		if (flmem_text_ends(key->text, spec_constants[i]))
			visit_sites(walk, i == 1, value);
}

/* Whether an entry is "JobMetaKey.RESOURCE_SPEC.value: ...", or has a key that is not known. */
static bool may_be_spec(const struct flmem_check *check, const struct flmem_node *entry)
{
	const char *text = check->input->document.text.data + entry->place.start;
	size_t length = entry->place.end - entry->place.start;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(spec_constants); i++)
		if (memmem(text, length, spec_constants[i], strlen(spec_constants[i])))
			return true;
	return !memmem(text, length, "JobMetaKey.", strlen("JobMetaKey."));
}

static void visit_open_props(const struct spec_walk *walk, const struct flmem_node *props)
{
	struct flmem_nvflare_spec spec = {.sites = props, .asked = props};

	if (flmem_node_is_kind(props, FLMEM_NODE_MAP))
		spec.asked = flmem_node_get(props, "**");
	if (spec.asked && spec.asked->kind == FLMEM_NODE_EXPRESSION &&
	    may_be_spec(walk->check, spec.asked))
		walk->visit(walk->arg, &spec);
}

/*
 * Visits the sites of FedJob(meta_props={"resource_spec": ...}), also of a class that inherits from
 * it.
 */
static void visit_props(const struct spec_walk *walk, const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call);
	const struct flmem_node *props;

	props = flmem_nvflare_call_argument(walk->check, call, "meta_props",
					    flmem_text_ends(path, ".FedJob") ? "3" : NULL);
	props = flmem_nvflare_map(walk->check, props);
	visit_open_props(walk, props);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nvflare_specs_spec_keys); i++)
		visit_sites(walk, i == 1, flmem_node_get(props, nvflare_specs_spec_keys[i]));
}

static void visit_spec_call(const struct spec_walk *walk, const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call);

	if (strcmp(path, "add_resource_spec") == 0)
		visit_added(walk, call);
	else if (flmem_text_ends(path, ".set_recipe_meta"))
		visit_meta(walk, call);
	else if (flmem_text_ends(path, "Job"))
		visit_props(walk, call);
}

void flmem_nvflare_specs_visit(const struct flmem_check *check,
			       void (*visit)(void *arg, const struct flmem_nvflare_spec *spec),
			       void *arg)
{
	const struct spec_walk walk = {check, visit, arg};
	const struct flmem_node *call = NULL;

	if (!flmem_syntax_is_python(check->input->document.syntax)) {
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nvflare_specs_spec_keys); i++)
			visit_sites(&walk, i == 1,
				    flmem_node_get(check->subject, nvflare_specs_spec_keys[i]));
		return;
	}
	while ((call = flmem_nvflare_next_call(check, call)))
		visit_spec_call(&walk, call);
}
