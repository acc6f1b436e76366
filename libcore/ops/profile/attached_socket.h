/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_ATTACHED_SOCKET_H
#define FLMEM_OPS_PROFILE_ATTACHED_SOCKET_H

/*
 * The socket of a process of `start --profile-socket` (preload/sampler/listener.c). It takes the
 * right to read the process, as its mappings do, and not the right to trace it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "preload/sampler_state.h"
#include "proc/process.h"

struct flmem_attached_socket {
	const struct flmem_process *process;
	int directory; /* -1: none */
	uint32_t user; /* of the process, effective */
	char name[FLMEM_SAMPLER_SOCKET_NAME_MAX];
};

#define FLMEM_ATTACHED_SOCKET_INIT \
	{                          \
		.directory = -1    \
	}

/* Whether the process was asked to make a socket, as far as its environment shows it. */
bool flmem_attached_socket_was_asked(const struct flmem_process *process);

/* FLMEM_EUNSUPPORTED: there is none that is the process's alone. */
int flmem_attached_socket_find(const struct flmem_process *process,
			       struct flmem_attached_socket *ret_socket, struct flmem_error *err);
void flmem_attached_socket_clear(struct flmem_attached_socket *socket);

#define FLMEM_AUTO_ATTACHED_SOCKET FLMEM_AUTO(flmem_attached_socket_clear)

/* What the process answered; not checked yet. */
struct flmem_attached_answer {
	char bytes[sizeof(struct flmem_sampler_state) + 1]; /* a NUL follows */
	size_t length;
};

/*
 * One request, one answer. FLMEM_EUNSUPPORTED: it was not sent, since nothing listens, or a process
 * that is not the target. FLMEM_EFAILED: it was sent, and no answer came in time.
 */
int flmem_attached_socket_ask(const struct flmem_attached_socket *socket, const char *order,
			      uint64_t timeout_us, struct flmem_attached_answer *ret_answer,
			      struct flmem_error *err);

/* The id that a process sees for one that flmem sees; /proc/PID/uid_map. False: it has none. */
bool flmem_attached_socket_inner_user(const char *map, uint32_t outer, uint32_t *ret_inner);

#endif
