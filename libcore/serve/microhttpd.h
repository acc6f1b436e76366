/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_MICROHTTPD_H
#define FLMEM_SERVE_MICROHTTPD_H

/*
 * GNU libmicrohttpd, the HTTP server library. It is loaded when an endpoint opens, so that other
 * commands start without it; the build needs its header. Only serve/ includes it.
 */

#include <microhttpd.h>

#include <flmem/error.h>

/* The functions used, without the prefix MHD_. */
#define FLMEM_MICROHTTPD_FUNCTIONS(X)          \
	X(start_daemon)                        \
	X(stop_daemon)                         \
	X(quiesce_daemon)                      \
	X(run)                                 \
	X(is_feature_supported)                \
	X(get_daemon_info)                     \
	X(get_connection_info)                 \
	X(get_connection_values)               \
	X(get_timeout)                         \
	X(http_unescape)                       \
	X(lookup_connection_value)             \
	X(create_response_from_buffer)         \
	X(create_response_from_callback)       \
	X(create_response_from_fd_at_offset64) \
	X(add_response_header)                 \
	X(queue_response)                      \
	X(destroy_response)

struct flmem_microhttpd {
#define FLMEM_MICROHTTPD_MEMBER(name) __typeof__ (&MHD_##name)(name);
	FLMEM_MICROHTTPD_FUNCTIONS(FLMEM_MICROHTTPD_MEMBER)
#undef FLMEM_MICROHTTPD_MEMBER
};

/* Loads the library. FLMEM_EUNSUPPORTED if it is not installed. It remains loaded. */
int flmem_microhttpd_load(struct flmem_microhttpd *ret_http, struct flmem_error *err);

/*
 * Returns the path of a request's target: servers have to accept a whole address, too (RFC 9112,
 * 3.2.2).
 */
const char *flmem_microhttpd_path(const char *url);

#endif
