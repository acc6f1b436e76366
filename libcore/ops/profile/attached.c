/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler that a process has loaded, as its memory shows it. */

#include "ops/profile/attached.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "ops/profile/prepare.h"

static bool is_known_state(const struct flmem_sampler_state *state)
{
	return state->magic == FLMEM_SAMPLER_STATE_MAGIC &&
	       state->version == FLMEM_SAMPLER_STATE_VERSION &&
	       state->phase <= FLMEM_SAMPLER_DETACHING;
}

static int read_sampler_state(const struct flmem_target_inspection *target, uint64_t address,
			      struct flmem_attached *attached, struct flmem_error *err)
{
	const int pid = (int)target->process.pid;
	struct flmem_sampler_state *state = &attached->state;

	if (flmem_process_read_memory(&target->process, address, state, sizeof(*state)))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot read the sampler of process %d", pid);
	state->path[sizeof(state->path) - 1] = '\0';
	/* In a child of a sampled process it is cleared. */
	if (!state->magic) {
		memset(state, 0, sizeof(*state));
		return 0;
	}
	if (!is_known_state(state))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d has loaded a sampler of another version of "
				       "flmem; use that version, or restart the process",
				       pid);
	return 0;
}

/* Few files have such a name: reading the symbols of all would take long. */
static bool has_sampler_state(const struct flmem_module *module, uint64_t *ret_address)
{
	const char *name = strrchr(module->path, '/');

	return name && strstr(name, "flmem") &&
	       flmem_module_symbol(module, FLMEM_SAMPLER_STATE_SYMBOL, ret_address);
}

int flmem_attached_read(const struct flmem_target_inspection *target,
			struct flmem_attached *ret_attached, struct flmem_error *err)
{
	const struct flmem_modules *modules = &target->modules;
	struct flmem_attached found = {0};
	uint64_t address;
	int rc = 0;

	/* Of two that were loaded at once one was refused, and does nothing. */
	for (size_t i = 0; i < modules->count && !rc && !found.state.phase; i++) {
		struct flmem_attached one = {.module = &modules->rows[i]};

		if (!has_sampler_state(one.module, &address))
			continue;
		rc = read_sampler_state(target, address, &one, err);
		if (!found.module || one.state.phase || one.state.preloaded)
			found = one;
	}
	if (!rc)
		*ret_attached = found;
	return rc;
}

/* `attach` loads a copy, under a name that nothing else has. */
const char *flmem_attached_loaded_by(const struct flmem_attached *attached)
{
	const char *name;

	if (!attached->module)
		return NULL;
	name = flmem_text_basename(attached->module->path);
	if (strcmp(name, FLMEM_SAMPLER_LIBRARY) == 0)
		return "profile-run";
	return strcmp(name, FLMEM_SAMPLER_READY_LIBRARY) == 0 ? "profile-ready" : "attach";
}
