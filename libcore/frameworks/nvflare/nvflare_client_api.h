/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLIENT_API_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLIENT_API_H

/* Recognises NVFlare's client API: its classes, and what a script sends through their objects. */

#include <stdbool.h>

#include "rules/rules.h"

#define FLMEM_NVFLARE_PATH_MAX 256

/*
 * Whether a path is such a class: InProcessClientAPI, CellClientAPI, ExProcessClientAPI of 2.8 and
 * before, APISpec.
 */
bool flmem_nvflare_is_client_api(const char *path);

/* What is the same for all calls of a script; initialised once. */
struct flmem_nvflare_senders {
	bool imported; /* the script imports such a class */
	/* Searches of objects in the text that are left: a hostile text has any number. */
	size_t searches;
};

void flmem_nvflare_senders_init(const struct flmem_check *check,
				struct flmem_nvflare_senders *ret_senders);

/*
 * Whether a call of a method `send` is one of the client API: by the name of its argument, by the
 * name of its object ("context.api"), or by what the script shows about that object. If the script
 * only imports such a class, False as second argument decides, which sockets and queues do not
 * take.
 */
bool flmem_nvflare_is_send_of_object(const struct flmem_check *check,
				     struct flmem_nvflare_senders *senders,
				     const struct flmem_node *call);

#endif
