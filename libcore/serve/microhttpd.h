/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_MICROHTTPD_H
#define FLMEM_SERVE_MICROHTTPD_H

/*
 * GNU libmicrohttpd, which speaks HTTP. It is loaded when an endpoint is opened, so that commands
 * without one start without it; its header is needed to build. Only serve/ includes it.
 */

#include <microhttpd.h>

#include <flmem/error.h>

/* The functions that are used, without their MHD_. */
#define FLMEM_MICROHTTPD_FUNCTIONS(X)  \
	X(start_daemon)                \
	X(stop_daemon)                 \
	X(run)                         \
	X(get_daemon_info)             \
	X(get_connection_info)         \
	X(get_timeout)                 \
	X(lookup_connection_value)     \
	X(create_response_from_buffer) \
	X(add_response_header)         \
	X(queue_response)              \
	X(destroy_response)

struct flmem_microhttpd {
#define FLMEM_MICROHTTPD_MEMBER(name) __typeof__ (&MHD_##name)(name);
	FLMEM_MICROHTTPD_FUNCTIONS(FLMEM_MICROHTTPD_MEMBER)
#undef FLMEM_MICROHTTPD_MEMBER
};

/* FLMEM_EUNSUPPORTED when it is not installed. It stays loaded. */
int flmem_microhttpd_load(struct flmem_microhttpd *ret_http, struct flmem_error *err);

#endif
