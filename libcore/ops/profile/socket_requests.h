/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_SOCKET_REQUESTS_H
#define FLMEM_OPS_PROFILE_SOCKET_REQUESTS_H

#include <flmem/attach.h>

/*
 * Attaches or detaches through the socket of the process, if it has one: no thread is borrowed, and
 * flmem need not be allowed to trace the process. *ret_is_done false, with 0 returned: this was not
 * possible, and nothing was changed; result->no_socket has the reason if a socket was requested.
 */
int flmem_socket_requests_run(pid_t pid, const struct flmem_attach_options *options, bool detach,
			      struct flmem_attach_result *result, bool *ret_is_done,
			      struct flmem_error *err);

#endif
