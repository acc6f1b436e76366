/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLIENT_API_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLIENT_API_H

/* The classes of NVFlare's client API, and what a script sends through their objects. */

#include <stdbool.h>

#include "rules/rules.h"

#define FLMEM_NVFLARE_PATH_MAX 256

/* InProcessClientAPI, CellClientAPI, ExProcessClientAPI of 2.8 and before, APISpec. */
bool flmem_nvflare_is_client_api(const char *path);

/* What decides about all calls of a script. */
struct flmem_nvflare_senders {
	bool imported;	 /* the script imports such a class */
	size_t searches; /* of objects in its text that are left: a hostile one has any number */
};

void flmem_nvflare_senders_init(const struct flmem_check *check,
				struct flmem_nvflare_senders *ret_senders);

/*
 * Whether a call of a method `send` is one of the client API: by the name of its argument, the
 * name of its object ("context.api"), or what the script shows about that. Where it only imports
 * such a class, by False as the second argument, which sockets and queues do not take.
 */
bool flmem_nvflare_is_send_of_object(const struct flmem_check *check,
				     struct flmem_nvflare_senders *senders,
				     const struct flmem_node *call);

#endif
