/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_METRICS_H
#define FLMEM_METRICS_H

/*
 * What a watch has learnt as metrics: their table, their text in the formats that Prometheus
 * scrapes, and an endpoint that serves a text over HTTP. docs/metrics.md is made from the table.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/visibility.h>
#include <flmem/watch.h>

/* Names follow the conventions of Prometheus and OpenMetrics 1.0. All texts are static. */
struct flmem_metric {
	const char *name;   /* of the family: counters without "_total", infos without "_info" */
	const char *type;   /* OpenMetrics: gauge, counter, info, stateset */
	const char *unit;   /* that the name ends in, or NULL */
	const char *labels; /* separated by blanks: besides those of the process; or NULL */
	const char *help;   /* one sentence with a full stop */
	bool per_process;   /* has the labels of a process; else there is one of it */
};

/* The table in its order; NULL behind the last. */
FLMEM_API const struct flmem_metric *flmem_metric(size_t index);

enum flmem_exposition {
	FLMEM_EXPOSITION_TEXT,	      /* Prometheus text format 0.0.4 */
	FLMEM_EXPOSITION_OPENMETRICS, /* OpenMetrics 1.0 */
};

/* Heap string, NULL when memory is out. Values that are unknown are left out. */
FLMEM_API char *flmem_report_watch_metrics(const struct flmem_watch_snapshot_data *state,
					   enum flmem_exposition exposition);

struct flmem_endpoint;

struct flmem_endpoint_options {
	/* "127.0.0.1:9477", "[::1]:9477", "localhost:9477"; port 0: any that is free */
	const char *address;
	/*
	 * Gives a new heap string, or NULL: then the request is answered with status 503. Called by
	 * the endpoint's own thread, some times per second at most.
	 */
	char *(*render)(void *context, enum flmem_exposition exposition);
	void *context;
};

/*
 * Serves GET and HEAD of /metrics, in a thread of its own that has all signals blocked, until
 * flmem_endpoint_close(). Connections are few, live for seconds, and serve one request each;
 * nothing of a request comes back in its answer. FLMEM_EUSAGE for a bad address or a port that is
 * in use, FLMEM_EPERM for one that needs privileges, FLMEM_EUNSUPPORTED without libmicrohttpd.
 */
FLMEM_API int flmem_endpoint_open(const struct flmem_endpoint_options *options,
				  struct flmem_endpoint **ret_endpoint, struct flmem_error *err);
FLMEM_API void flmem_endpoint_close(struct flmem_endpoint *endpoint);

/* "http://127.0.0.1:9477/metrics", with the port that was chosen. */
FLMEM_API const char *flmem_endpoint_url(const struct flmem_endpoint *endpoint);

/* Whether only this host reaches it. */
FLMEM_API bool flmem_endpoint_is_local(const struct flmem_endpoint *endpoint);

#endif
