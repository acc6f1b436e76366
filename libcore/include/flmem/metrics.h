/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_METRICS_H
#define FLMEM_METRICS_H

/*
 * Results of a watch as metrics: their table, their text in the formats that Prometheus scrapes,
 * and an HTTP endpoint. docs/metrics.md is generated from the table.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/visibility.h>
#include <flmem/watch.h>

/*
 * A row of the table. Names follow the conventions of Prometheus and OpenMetrics 1.0. All texts are
 * static.
 */
struct flmem_metric {
	/* Name of the metric family: counters without "_total", infos without "_info". */
	const char *name;
	const char *type;   /* OpenMetrics type: gauge, counter, info or stateset */
	const char *unit;   /* unit, which is the last part of the name; or NULL */
	const char *labels; /* labels besides those of the process, separated by blanks; or NULL */
	const char *help;   /* one sentence with a full stop */
	bool per_process;   /* one sample per process, with its labels; false: a single one */
};

/* Returns a row of the table; NULL after the last. */
FLMEM_API const struct flmem_metric *flmem_metric(size_t index);

/*
 * Returns the suffix of the metric's sample names after the family name: "_total", "_info" or "";
 * static text.
 */
FLMEM_API const char *flmem_metric_suffix(const struct flmem_metric *metric);

enum flmem_exposition {
	FLMEM_EXPOSITION_TEXT,	      /* Prometheus text format 0.0.4 */
	FLMEM_EXPOSITION_OPENMETRICS, /* OpenMetrics 1.0 */
};

/*
 * Writes a snapshot as metrics; unknown values are omitted. The caller frees the text with free();
 * NULL if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_watch_metrics(const struct flmem_watch_snapshot_data *state,
			   enum flmem_exposition exposition);

struct flmem_endpoint;

/*
 * Serves GET and HEAD of /metrics until flmem_endpoint_close(), in a separate thread that has all
 * signals blocked. A response is the watch that `snapshot` shows at that time; status 503 while it
 * shows none. The endpoint borrows the snapshot. The address is "127.0.0.1:9477", "[::1]:9477" or
 * "localhost:9477", with port 0 for any free port. The number of connections and the seconds that
 * each may take are limited; each serves one request. Responses never contain parts of a request.
 * FLMEM_EUSAGE for an invalid address or a port in use, FLMEM_EPERM for a privileged port,
 * FLMEM_EUNSUPPORTED without libmicrohttpd.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_endpoint_open(const char *address,
						   struct flmem_watch_snapshot *snapshot,
						   struct flmem_endpoint **ret_endpoint,
						   struct flmem_error *err);

/* Ends the endpoint's thread immediately, even with open connections. NULL is allowed. */
FLMEM_API void flmem_endpoint_close(struct flmem_endpoint *endpoint);

/*
 * Returns "http://127.0.0.1:9477/metrics", with the actual port; valid until the endpoint is
 * closed.
 */
FLMEM_API const char *flmem_endpoint_url(const struct flmem_endpoint *endpoint);

/* Returns true if the endpoint can be reached from this host only. */
FLMEM_API bool flmem_endpoint_is_local(const struct flmem_endpoint *endpoint);

#endif
