/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/server_options.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "aggregate/algorithm.h"
#include "base/cleanup.h"
#include "ops/exchange/server/lockstep.h"
#include "ops/exchange/server/verified_round.h"

#define CLIENTS_MAX UINT64_C(10000)
#define ROUNDS_MAX  UINT64_C(1000000)

static int set_usage(const char *text, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s", text);
}

static int check_numbers(const struct flmem_exchange_serve_options *o, struct flmem_error *err)
{
	if (!o->clients || o->clients > CLIENTS_MAX)
		return set_usage("--clients accepts 1 to 10000", err);
	if (!o->rounds || o->rounds > ROUNDS_MAX)
		return set_usage("--rounds accepts 1 to 1000000", err);
	if (o->quorum > o->clients)
		return set_usage("--quorum exceeds --clients", err);
	if (o->quorum && !o->deadline_us)
		return set_usage("--quorum needs --deadline: until then a round waits for all "
				 "clients",
				 err);
	if (!flmem_algorithm_find(o->aggregate.algorithm ?: "fedavg"))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "unknown algorithm '%.60s'",
				       o->aggregate.algorithm);
	return o->lockstep ? flmem_lockstep_check_options(o, err) : 0;
}

int flmem_exchange_check_options(const struct flmem_exchange_serve_options *o,
				 struct flmem_error *err)
{
	int rc = check_numbers(o, err);

	if (!rc)
		rc = flmem_verified_check_options(o, err);
	if (rc)
		return rc;
	if (!o->tls_cert != !o->tls_key)
		return set_usage("--tls-cert and --tls-key need each other", err);
	if (o->client_ca && !o->tls_cert)
		return set_usage("--client-ca needs --tls-cert and --tls-key", err);
	if (o->authorised && !o->client_ca)
		return set_usage("--authorised-clients needs --client-ca", err);
	if (o->client_ca && o->token_file)
		return set_usage("--client-ca and --token-file exclude each other: one of them "
				 "names the clients",
				 err);
	return 0;
}

int flmem_exchange_read_credentials(struct flmem_exchange *x, struct flmem_error *err)
{
	const struct flmem_exchange_serve_options *o = x->options;
	int rc = 0;

	if (o->token_file)
		rc = flmem_credentials_read(o->token_file, true, &x->tokens, err);
	if (!rc && o->authorised)
		rc = flmem_credentials_read(o->authorised, false, &x->certificates, err);
	return rc;
}

/* Prints the settings that determine the result. */
static void print_exchange_settings(const struct flmem_exchange *x, struct flmem_buf *text)
{
	const struct flmem_exchange_serve_options *o = x->options;
	const struct flmem_aggregate_request *a = &o->aggregate;

	flmem_buf_printf(text,
			 FLMEM_SPOOL_MARK
			 "mode %s\nclients %" PRIu64 "\nrounds %" PRIu64 "\nquorum %" PRIu64
			 "\ndeadline %" PRIu64 " us\nalgorithm %s\nnan %u\n"
			 "non-float %u\ntrim %.17g\nclip-norm %.17g\nhostile %zu\nkeep %zu\n"
			 "server-rate %.17g\nbeta1 %.17g\nbeta2 %.17g\ntau %.17g\nkey %s\n",
			 o->lockstep ? "lockstep" : "staged", o->clients, o->rounds, x->quorum,
			 o->deadline_us, a->algorithm ?: "fedavg", (unsigned)a->nan,
			 (unsigned)a->non_float, a->trim, a->clip_norm, a->hostile, a->keep,
			 a->server_rate, a->beta1 ? *a->beta1 : -1.0, a->beta2 ? *a->beta2 : -1.0,
			 a->tau, a->key ?: "");
	for (size_t i = 0; i < o->verify_count; i++)
		flmem_buf_printf(text, "verify %s=%s\n", o->verify[i].client, o->verify[i].model);
}

/* Compares the settings line by line; the error names the first line that differs. */
static int compare_settings(const struct flmem_exchange *x, const char *kept, const char *now,
			    struct flmem_error *err)
{
	char before[100], after[100];

	while (*now && strcspn(kept, "\n") == strcspn(now, "\n") &&
	       strncmp(kept, now, strcspn(now, "\n") + 1) == 0) {
		now += strcspn(now, "\n") + 1;
		kept += strcspn(kept, "\n") + 1;
	}
	if (!*now && !*kept)
		return 0;
	snprintf(before, sizeof(before), "%.*s", (int)strcspn(kept, "\n"), kept);
	snprintf(after, sizeof(after), "%.*s", (int)strcspn(now, "\n"), now);
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is of an exchange with '%s', but now it is '%s'; use the same "
			       "options, or another --state",
			       x->spool.path, before, after);
}

int flmem_exchange_compare_options(struct flmem_exchange *x, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf now = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf kept = FLMEM_BUF_INIT;
	int rc;

	print_exchange_settings(x, &now);
	if (now.failed)
		return flmem_error_nomem(err, "cannot compare the options");
	rc = flmem_spool_read(x->spool.root, "exchange", &kept);
	/* A file with only the mark is accepted: no server has begun to serve with it. */
	if (!rc && strcmp(kept.data, FLMEM_SPOOL_MARK) != 0)
		return compare_settings(x, kept.data, now.data, err);
	return !rc || rc == -ENOENT ? 0
				    : flmem_error_set(err, FLMEM_EFAILED, -rc,
						      "cannot read '%s/exchange'", x->spool.path);
}

int flmem_exchange_keep_options(struct flmem_exchange *x, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf now = FLMEM_BUF_INIT;
	int rc;

	print_exchange_settings(x, &now);
	rc = now.failed ? -ENOMEM
			: flmem_spool_write(x->spool.root, "exchange", now.data, now.length);
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write '%s/exchange'",
				    x->spool.path)
		  : 0;
}
