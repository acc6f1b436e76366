/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_WATCH_LISTEN_H
#define FLMEM_CLI_WATCH_LISTEN_H

/* Serves the metrics endpoint of a watch. */

#include <flmem/metrics.h>
#include <flmem/watch.h>

struct watch_listen {
	struct flmem_watch_snapshot *snapshot;
	struct flmem_endpoint *endpoint;
};

/*
 * Serves metrics of the watch with these options at `address` and prints the URL on stderr. End
 * with watch_listen_end(), also after a failure.
 */
int watch_listen_begin(const char *address, struct flmem_watch_options *watch,
		       struct watch_listen *ret_listen, struct flmem_error *err);
void watch_listen_end(struct watch_listen *listen);

#endif
