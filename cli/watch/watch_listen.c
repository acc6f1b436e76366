/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watch_listen.h"

#include <stdio.h>

int watch_listen_begin(const char *address, struct flmem_watch_options *watch,
		       struct watch_listen *ret_listen, struct flmem_error *err)
{
	int rc = flmem_watch_snapshot_new(&ret_listen->snapshot, err);

	if (rc)
		return rc;
	rc = flmem_endpoint_open(address, ret_listen->snapshot, &ret_listen->endpoint, err);
	if (rc)
		return flmem_error_prefix(err, rc, "--listen");
	watch->snapshot = ret_listen->snapshot;
	fprintf(stderr, "flmem watch: metrics at %s\n", flmem_endpoint_url(ret_listen->endpoint));
	if (!flmem_endpoint_is_local(ret_listen->endpoint))
		fputs("flmem watch: warning: every host that can connect can read the metrics, "
		      "including redacted command lines; there is no encryption\n",
		      stderr);
	return 0;
}

void watch_listen_end(struct watch_listen *listen)
{
	flmem_endpoint_close(listen->endpoint);
	flmem_watch_snapshot_free(listen->snapshot);
	*listen = (struct watch_listen){0};
}
