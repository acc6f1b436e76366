/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the state of the sampler that a process has loaded, from the memory of the process. */

#include "ops/profile/attached.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "ops/profile/prepare.h"
#include "proc/limits/group_room.h"
#include "proc/limits/headroom.h"
#include "proc/status.h"

#define LOADING_US	2000000U /* time limit for loading the library, which takes less */
#define LOADING_STEP_US 5000U

/* The memory that a profile must leave to the process if its memory is limited. */
#define LEFT_BYTES (UINT64_C(256) << 20)
/* Memory that the sampler needs beyond its profile and tables, and the program meanwhile. */
#define LEFT_RESIDENT (UINT64_C(16) << 20)

static bool is_known_state(const struct flmem_sampler_state *state)
{
	return state->magic == FLMEM_SAMPLER_STATE_MAGIC &&
	       state->version == FLMEM_SAMPLER_STATE_VERSION &&
	       state->phase <= FLMEM_SAMPLER_DETACHING;
}

int flmem_attached_state_parse(const void *bytes, size_t length, int pid,
			       struct flmem_sampler_state *state, struct flmem_error *err)
{
	if (length != sizeof(*state))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot read the sampler of process %d", pid);
	memcpy(state, bytes, sizeof(*state));
	state->path[sizeof(state->path) - 1] = '\0';
	/* The state is cleared in a child of a sampled process. */
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

static int read_sampler_state(const struct flmem_target_inspection *target, uint64_t address,
			      struct flmem_attached *attached, struct flmem_error *err)
{
	struct flmem_sampler_state bytes;
	size_t length = sizeof(bytes);

	if (flmem_process_read_memory(&target->process, address, &bytes, sizeof(bytes)))
		length = 0;
	return flmem_attached_state_parse(&bytes, length, (int)target->process.pid,
					  &attached->state, err);
}

/*
 * Finds the state of a module whose name has "flmem": reading the symbols of all modules would take
 * long.
 */
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

	/*
	 * If two samplers were loaded at once, one was refused and does nothing. Until one has
	 * begun, every attach chooses the first one in the order of lookup.
	 */
	for (size_t i = 0; i < modules->count && !rc && !found.state.phase; i++) {
		struct flmem_attached one = {.module = &modules->rows[i]};

		if (!has_sampler_state(one.module, &address))
			continue;
		rc = read_sampler_state(target, address, &one, err);
		if (!found.module || one.state.phase || one.state.preloaded ||
		    (unsigned)one.module->lookup_rank < (unsigned)found.module->lookup_rank)
			found = one;
	}
	if (!rc)
		*ret_attached = found;
	return rc;
}

/*
 * Recognises what loaded the sampler by its file name: `attach` loads a copy under a unique name.
 */
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

void flmem_attached_add_stop(struct flmem_attach_result *result, uint64_t stopped_us)
{
	uint64_t longest_us = flmem_u64_or(result->longest_stop_us, 0);

	if (!stopped_us)
		return;
	result->stops++;
	result->stopped_us = FLMEM_KNOWN(flmem_u64_or(result->stopped_us, 0) + stopped_us);
	result->longest_stop_us = FLMEM_KNOWN(stopped_us > longest_us ? stopped_us : longest_us);
}

void flmem_attached_take(const struct flmem_attached *attached, struct flmem_attach_result *result)
{
	const struct flmem_sampler_entries *from = &attached->state.entries;

	result->preloaded = attached->state.preloaded != 0;
	if (attached->module)
		result->loaded_by = flmem_attached_loaded_by(attached);
	result->entries = (struct flmem_attach_entries){
		.redirected = from->redirected,
		.fixed = from->fixed,
		.elsewhere = from->elsewhere,
		.unresolved = from->unresolved,
		.locked = from->locked,
		.objects = from->objects,
		.still_loading = from->still_loading,
	};
}

int flmem_attached_refuse_sampled(const struct flmem_process *process,
				  const struct flmem_attached *attached, bool can_detach,
				  struct flmem_error *err)
{
	char path[256], hint[96] = "it ends with the program, since only a process with CPython "
				   "can be detached";

	flmem_text_escape(attached->state.path, path, sizeof(path));
	if (can_detach)
		snprintf(hint, sizeof(hint), "end that with: flmem profile detach --pid %d",
			 (int)process->pid);
	return flmem_error_set(err, FLMEM_EUNSAFE, 0, "process %d is already sampled%s%.200s%s; %s",
			       (int)process->pid, path[0] ? ", into '" : "", path,
			       path[0] ? "'" : "", hint);
}

static bool has_constructed_sampler(const struct flmem_process *process, uint64_t socket_address)
{
	struct flmem_sampler_socket socket;

	return flmem_process_read_memory(process, socket_address, &socket, sizeof(socket)) == 0 &&
	       socket.magic == FLMEM_SAMPLER_SOCKET_MAGIC;
}

int flmem_attached_check_loaded(const struct flmem_process *process,
				const struct flmem_attached *attached, struct flmem_error *err)
{
	const uint64_t start_us = flmem_clock_us();
	uint64_t address;

	if (!flmem_module_symbol(attached->module, FLMEM_SAMPLER_SOCKET_SYMBOL, &address))
		return 0; /* the sampler of `profile run`, which is preloaded */
	while (flmem_clock_us() - start_us < LOADING_US) {
		if (has_constructed_sampler(process, address))
			return 0;
		flmem_clock_sleep_us(LOADING_STEP_US);
	}
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "the sampler of process %d is not loaded completely: the process "
			       "was forked just when its parent loaded it; restart it",
			       (int)process->pid);
}

int flmem_attached_explain_detach(int rc, pid_t pid, struct flmem_error *err)
{
	return flmem_error_prefix(err, rc,
				  "process %d may still be sampled; repeat flmem profile detach "
				  "until it has, or reports that it is not sampled",
				  (int)pid);
}

int flmem_attached_room_check(const struct flmem_process *process, uint64_t limit_bytes,
			      struct flmem_error *err)
{
	const uint64_t bytes = limit_bytes ? limit_bytes : FLMEM_PROFILE_LIMIT;
	int rc = flmem_headroom_check_thread(process, bytes + LEFT_BYTES, err);

	/* The sampler's tables in memory have less than a third of the size of the profile. */
	return rc ? rc
		  : flmem_group_room_check(process, bytes + bytes / 3 + LEFT_RESIDENT, "a profile",
					   FLMEM_PROFILE_ROOM_HOW, err);
}

#define WHY_ROW(name, why) [FLMEM_SAMPLER_SOCKET_##name] = (why),
static const char *const socket_whys[] = {FLMEM_SAMPLER_SOCKET_STAGES(WHY_ROW)};
#undef WHY_ROW

/*
 * If the process has a socket, the reason that flmem found from outside is the better one and is
 * kept.
 */
void flmem_attached_explain_socket(const struct flmem_target_inspection *target,
				   const struct flmem_attached *attached,
				   struct flmem_attach_result *result)
{
	struct flmem_sampler_socket socket;
	struct flmem_status status;
	uint64_t address;

	if (!result->no_socket[0] || !attached->module ||
	    !flmem_module_symbol(attached->module, FLMEM_SAMPLER_SOCKET_SYMBOL, &address) ||
	    flmem_process_read_memory(&target->process, address, &socket, sizeof(socket)) ||
	    socket.magic != FLMEM_SAMPLER_SOCKET_MAGIC ||
	    socket.stage >= FLMEM_SAMPLER_SOCKET_STAGE_COUNT ||
	    flmem_status_read(&target->process, &status, NULL))
		return;
	if (socket.process && socket.process != flmem_u64_or(status.ns_pid, socket.process))
		snprintf(result->no_socket, sizeof(result->no_socket),
			 "a child of fork() has none until it executes a program");
	else if (socket.stage != FLMEM_SAMPLER_SOCKET_LISTENING)
		snprintf(result->no_socket, sizeof(result->no_socket), "%s%s%s",
			 socket_whys[socket.stage], socket.error ? ": " : "",
			 socket.error ? strerror((int)socket.error) : "");
}
