/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_ATTACHED_SOCKET_H
#define FLMEM_OPS_PROFILE_ATTACHED_SOCKET_H

/*
 * Uses the socket of a process started with `start --profile-socket` (preload/sampler/listener.c).
 * This takes the right to read the process, as for its mappings, but not the right to trace it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "preload/sampler_state.h"
#include "proc/process.h"

struct flmem_attached_socket {
	const struct flmem_process *process;
	int directory; /* directory of the socket; -1: none */
	uint32_t user; /* effective user of the process */
	char name[FLMEM_SAMPLER_SOCKET_NAME_MAX];
};

#define FLMEM_ATTACHED_SOCKET_INIT \
	{                          \
		.directory = -1    \
	}

/* Returns true if the process was requested to make a socket, as far as its environment shows. */
bool flmem_attached_socket_was_asked(const struct flmem_process *process);

/* Finds the socket. FLMEM_EUNSUPPORTED if the process has none that is its own. */
int flmem_attached_socket_find(const struct flmem_process *process,
			       struct flmem_attached_socket *ret_socket, struct flmem_error *err);
void flmem_attached_socket_clear(struct flmem_attached_socket *socket);

#define FLMEM_AUTO_ATTACHED_SOCKET FLMEM_AUTO(flmem_attached_socket_clear)

/* An answer of the process, not verified yet. */
struct flmem_attached_answer {
	char bytes[sizeof(struct flmem_sampler_state) + 1]; /* the answer, followed by a NUL */
	size_t length;
};

/*
 * Sends one request and receives its answer. FLMEM_EUNSUPPORTED: it was not sent, because nothing
 * listens or another process than the target does. FLMEM_EFAILED: it was sent, and no answer came
 * in time.
 */
int flmem_attached_socket_ask(const struct flmem_attached_socket *socket, const char *order,
			      uint64_t timeout_us, struct flmem_attached_answer *ret_answer,
			      struct flmem_error *err);

/*
 * Translates a user ID of flmem's namespace to that of the process, by the text of
 * /proc/PID/uid_map. Returns false if there is none.
 */
bool flmem_attached_socket_inner_user(const char *map, uint32_t outer, uint32_t *ret_inner);

#endif
