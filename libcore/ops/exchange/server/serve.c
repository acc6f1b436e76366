/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/exchange_serve.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "base/paused_time.h"
#include "base/portable.h"
#include "ops/exchange/server/answers.h"
#include "ops/exchange/server/lockstep.h"
#include "ops/exchange/server/publish.h"
#include "ops/exchange/server/round_combiner.h"
#include "ops/exchange/server/server_options.h"
#include "ops/exchange/server/update.h"
#include "ops/exchange/server/uploads.h"
#include "ops/exchange/server/verified_round.h"

#define TICK_MS	      200
#define PEM_MAX	      ((size_t)4 << 20)
#define QUOTA_EXTRA   (UINT64_C(16) << 20)
#define SETTLE_MAX_US UINT64_C(3600000000)

void flmem_exchange_log(struct flmem_exchange *x, const struct flmem_exchange_note *note)
{
	const struct flmem_exchange_event event = {
		.wall_us = flmem_clock_wall_us(),
		.event = note->event,
		.warning = note->warning,
		.round = note->round,
		.client = note->client,
		.bytes = note->bytes,
		.took_us = note->took_us,
		.detail = note->detail,
	};

	if (!x->options->log)
		return;
	pthread_mutex_lock(&x->log_lock);
	x->options->log(x->options->context, &event);
	pthread_mutex_unlock(&x->log_lock);
}

void flmem_exchange_wake(struct flmem_exchange *x)
{
	pthread_cond_broadcast(&x->changed);
	eventfd_write(x->wake, 1);
}

static void clear_exchange(struct flmem_exchange *x)
{
	flmem_uploads_clear(x);
	flmem_lockstep_close(x);
	flmem_update_clear(x);
	flmem_published_clear(x);
	free(x->updates);
	flmem_inputs_clear(&x->model, 1);
	flmem_layout_clear(&x->layout);
	flmem_credentials_clear(&x->tokens);
	flmem_credentials_clear(&x->certificates);
	flmem_cleanup_close(&x->wake);
	flmem_spool_close(&x->spool);
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
	pthread_mutex_destroy(&x->log_lock);
}

#define AUTO_EXCHANGE FLMEM_AUTO(clear_exchange)

static void set_limits(struct flmem_exchange *x)
{
	const struct flmem_exchange_serve_options *o = x->options;

	x->chunk_bytes = o->chunk_bytes ?: FLMEM_EXCHANGE_CHUNK_BYTES;
	if (o->max_request_bytes && o->max_request_bytes < x->chunk_bytes)
		x->chunk_bytes = o->max_request_bytes;
	x->quota_bytes = o->quota_bytes ?: 2 * x->model_bytes + QUOTA_EXTRA;
	x->reserve_bytes = o->reserve_bytes ?: FLMEM_EXCHANGE_RESERVE_BYTES;
	x->expire_us = o->expire_us ?: FLMEM_EXCHANGE_EXPIRE_US;
}

static int recover_round(struct flmem_exchange *x, struct flmem_error *err)
{
	bool found = false;
	int rc = 0;

	pthread_mutex_lock(&x->lock);
	flmem_combiner_begin_round(x);
	if (x->phase == FLMEM_PHASE_COLLECTING)
		rc = flmem_combiner_recover(x, &found, err);
	if (found) {
		x->gathered = x->lockstep;
		x->phase = x->lockstep ? x->phase : FLMEM_PHASE_COMBINING;
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

/* Continues what an earlier server left in this state directory. */
static int recover_exchange(struct flmem_exchange *x, struct flmem_error *err)
{
	int rc = flmem_published_newest(x, &x->round, err);

	if (rc)
		return rc;
	x->published_round = x->round;
	if (x->round > x->options->rounds)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' has more rounds than --rounds",
				       x->spool.path);
	rc = flmem_published_load(x, x->published_round, err);
	if (!rc)
		rc = flmem_verified_load(x, err);
	if (!rc)
		rc = flmem_uploads_load(x, err);
	if (rc)
		return rc;
	if (x->round)
		flmem_combiner_remove_old(x, x->round - 1);
	rc = recover_round(x, err);
	if (rc)
		return rc;
	if (x->lockstep)
		flmem_lockstep_recover(x);
	else if (x->phase == FLMEM_PHASE_COLLECTING)
		rc = flmem_update_recover(x, err);
	return rc;
}

static int open_exchange(struct flmem_exchange *x, struct flmem_error *err)
{
	const struct flmem_exchange_serve_options *o = x->options;
	int rc = flmem_exchange_check_options(o, err);

	if (!rc)
		rc = flmem_exchange_read_credentials(x, err);
	if (!rc)
		rc = flmem_spool_open(o->state, &x->spool, err);
	if (rc)
		return rc;
	x->quorum = o->quorum ?: o->clients;
	x->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	x->updates = calloc(o->clients, sizeof(*x->updates));
	if (x->wake < 0 || !x->updates)
		return flmem_error_nomem(err, "cannot serve");
	rc = flmem_exchange_compare_options(x, err);
	if (!rc)
		rc = flmem_published_read(x, err);
	if (!rc)
		rc = flmem_verified_check_models(x, err);
	if (!rc)
		rc = flmem_combiner_check_algorithm(x, err);
	if (!rc)
		rc = flmem_published_begin(x, err);
	if (!rc)
		rc = flmem_exchange_keep_options(x, err);
	if (rc)
		return rc;
	set_limits(x);
	rc = flmem_lockstep_open(x, err);
	return rc ? rc : recover_exchange(x, err);
}

static int read_pem(const char *path, struct flmem_buf *text, struct flmem_error *err)
{
	int rc = path ? flmem_io_read_named(path, PEM_MAX, text) : 0;

	return rc ? flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot read '%s'", path)
		  : 0;
}

static int start_http(struct flmem_exchange *x, struct flmem_error *err)
{
	const struct flmem_exchange_serve_options *o = x->options;
	FLMEM_AUTO_BUF struct flmem_buf cert = FLMEM_BUF_INIT, key = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf ca = FLMEM_BUF_INIT;
	struct flmem_http_server_options http = {
		.address = o->listen,
		.loopback_only = !o->tls_cert && !o->insecure,
		.connections = o->connections ?: FLMEM_EXCHANGE_CONNECTIONS,
		.address_connections = o->address_connections ?: FLMEM_EXCHANGE_ADDRESS_CONNECTIONS,
		.idle_us = o->idle_us ?: FLMEM_EXCHANGE_IDLE_US,
		.handler = &flmem_exchange_handler,
		.context = x,
	};
	int rc = read_pem(o->tls_cert, &cert, err);

	if (!rc)
		rc = read_pem(o->tls_key, &key, err);
	if (!rc)
		rc = read_pem(o->client_ca, &ca, err);
	http.tls_cert = o->tls_cert ? cert.data : NULL;
	http.tls_key = o->tls_key ? key.data : NULL;
	http.client_ca = o->client_ca ? ca.data : NULL;
	if (!rc)
		rc = flmem_http_server_open(&http, &x->server, err);
	explicit_bzero(key.data, key.length);
	if (!rc && o->listening)
		o->listening(o->context, flmem_http_server_url(x->server),
			     flmem_http_server_is_local(x->server));
	return rc;
}

/*
 * If the deadline has passed, combines the updates if they suffice, else ends the exchange. Called
 * with x->lock held.
 */
static void check_deadline(struct flmem_exchange *x)
{
	struct flmem_error err = {0};

	if (x->phase != FLMEM_PHASE_COLLECTING || !x->deadline_us ||
	    flmem_clock_us() < x->deadline_us)
		return;
	if (x->lockstep) {
		if (!flmem_lockstep_check_deadline(x, &err))
			return;
		flmem_combiner_fail(x, FLMEM_EFAILED, &err);
		flmem_combiner_forget_deadline(x);
		return;
	}
	if (x->update_count >= x->quorum) {
		x->phase = FLMEM_PHASE_COMBINING;
		return;
	}
	flmem_error_set(&err, FLMEM_EFAILED, 0,
			"round %llu had %zu of %llu updates at its deadline; the same command of "
			"the server gives it that time again",
			(unsigned long long)x->round, x->update_count,
			(unsigned long long)x->quorum);
	flmem_combiner_fail(x, FLMEM_EFAILED, &err);
	flmem_combiner_forget_deadline(x);
}

/* Makes one step of the main loop. */
static int step_exchange(struct flmem_exchange *x, struct flmem_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&x->lock);
	check_deadline(x);
	flmem_uploads_expire(x);
	if (x->combining && x->combined) {
		pthread_mutex_unlock(&x->lock);
		flmem_combiner_join(x);
		pthread_mutex_lock(&x->lock);
	}
	if ((x->phase == FLMEM_PHASE_COMBINING ||
	     (x->gathered && x->phase == FLMEM_PHASE_COLLECTING)) &&
	    !x->combining)
		rc = flmem_combiner_start(x, err);
	pthread_mutex_unlock(&x->lock);
	flmem_http_server_sweep(x->server);
	return rc;
}

/*
 * Clients could not send anything while this process did not run, and what they have sent meanwhile
 * is still to be read.
 */
static void resume_exchange(struct flmem_exchange *x, uint64_t paused_us)
{
	pthread_mutex_lock(&x->lock);
	flmem_combiner_delay_deadline(x, paused_us);
	flmem_uploads_resume(x, paused_us);
	pthread_mutex_unlock(&x->lock);
	flmem_http_server_resume(x->server, paused_us);
	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = "resumed",
				      .warning = true,
				      .round = x->round,
				      .took_us = paused_us,
				      .detail = "the server did not run; all limits are later by "
						"this time",
			      });
}

/*
 * Returns true if the server may exit: after the end clients still read the last model, or the
 * reason why there is none.
 */
static bool is_settled(struct flmem_exchange *x, uint64_t *ended_us)
{
	uint64_t settle_us = x->options->settle_us ?: FLMEM_EXCHANGE_SETTLE_US;
	struct flmem_http_server_load load;
	uint64_t now_us, last_us;
	bool ended;

	pthread_mutex_lock(&x->lock);
	ended = (x->phase == FLMEM_PHASE_DONE || x->phase == FLMEM_PHASE_FAILED) && !x->combining;
	pthread_mutex_unlock(&x->lock);
	if (!ended)
		return false;
	flmem_http_server_load(x->server, &load);
	/*
	 * Read the clock after the load: a request that ended in between would lie in its future.
	 */
	now_us = flmem_clock_us();
	if (!*ended_us)
		*ended_us = now_us;
	last_us = load.last_us > *ended_us ? load.last_us : *ended_us;
	return now_us - *ended_us > SETTLE_MAX_US ||
	       (!load.requests && now_us - last_us >= settle_us);
}

static int run_exchange(struct flmem_exchange *x, bool *ret_stopped, struct flmem_error *err)
{
	struct pollfd polled[] = {{.fd = x->wake, .events = POLLIN},
				  {.fd = x->options->stop, .events = POLLIN}};
	struct flmem_paused_time turns = {0};
	uint64_t ended_us = 0, paused_us;
	eventfd_t count;
	int rc = 0;

	while (!rc && !polled[1].revents && !is_settled(x, &ended_us)) {
		if (poll(polled, FLMEM_ARRAY_SIZE(polled), TICK_MS) < 0 && errno != EINTR)
			return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot wait");
		eventfd_read(x->wake, &count);
		paused_us = flmem_paused_time_take(&turns);
		if (paused_us) {
			resume_exchange(x, paused_us);
			ended_us = 0;
		}
		rc = step_exchange(x, err);
	}
	pthread_mutex_lock(&x->lock);
	if (!rc && x->phase == FLMEM_PHASE_FAILED)
		rc = flmem_error_set(err, x->code, 0, "%s", x->reason);
	*ret_stopped = x->phase != FLMEM_PHASE_DONE;
	pthread_mutex_unlock(&x->lock);
	return rc;
}

static void stop_exchange(struct flmem_exchange *x)
{
	pthread_mutex_lock(&x->lock);
	x->stopping = true;
	pthread_cond_broadcast(&x->changed);
	flmem_lockstep_end(x);
	pthread_mutex_unlock(&x->lock);
	flmem_http_server_close(x->server);
	flmem_combiner_join(x);
}

void flmem_exchange_served_clear(struct flmem_exchange_served *served)
{
	free(served->model);
	*served = (struct flmem_exchange_served){0};
}

/* Logs a stop. The exit status is 0, as after the last round. */
static void log_stop(struct flmem_exchange *x)
{
	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = "stopped",
				      .round = x->round,
				      .detail = "the same command continues",
			      });
}

static int fill_served(const struct flmem_exchange *x, bool stopped,
		       struct flmem_exchange_served *served, struct flmem_error *err)
{
	*served = (struct flmem_exchange_served){
		.rounds = x->options->rounds,
		.published_round = x->published_round,
		.updates = x->counters.updates,
		.refused_updates = x->counters.refused_updates,
		.received_bytes = x->counters.received_bytes,
		.verified_elements = x->verified,
		.stopped = stopped && !x->verified && x->published_round < x->options->rounds,
		.model = flmem_published_path(x, x->published_round),
	};
	return served->model ? 0 : flmem_error_nomem(err, "cannot report the exchange");
}

int flmem_exchange_serve(const struct flmem_exchange_serve_options *options,
			 struct flmem_exchange_served *ret_served, struct flmem_error *err)
{
	AUTO_EXCHANGE struct flmem_exchange x = {
		.options = options,
		.spool = FLMEM_SPOOL_INIT,
		.wake = -1,
	};
	bool stopped = false;
	int rc;

	flmem_buf_init(&x.layout.header);
	pthread_mutex_init(&x.lock, NULL);
	pthread_mutex_init(&x.log_lock, NULL);
	flmem_cond_init_monotonic(&x.changed);
	rc = open_exchange(&x, err);
	if (!rc)
		rc = start_http(&x, err);
	if (rc) {
		flmem_spool_undo(&x.spool);
		return rc;
	}
	rc = run_exchange(&x, &stopped, err);
	stop_exchange(&x);
	if (!rc)
		rc = fill_served(&x, stopped, ret_served, err);
	if (!rc && ret_served->stopped)
		log_stop(&x);
	return rc;
}
