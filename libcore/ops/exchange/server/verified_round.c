/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/verified_round.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "aggregate/exact_mean.h"
#include "base/cleanup.h"
#include "base/text/text.h"
#include "exchange/valid_names.h"
#include "ops/aggregate/generated.h"
#include "ops/exchange/server/answers.h"
#include "ops/exchange/server/update.h"

#define MARKER "verified"

static const char *find_expected(const struct flmem_exchange_serve_options *options,
				 const char *client, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(options->verify[i].client, client) == 0)
			return options->verify[i].model;
	return NULL;
}

static int check_expected(const struct flmem_exchange_serve_options *options, size_t number,
			  struct flmem_error *err)
{
	const struct flmem_exchange_expected *expected = &options->verify[number];

	if (!flmem_exchange_client_name_is_valid(expected->client))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid name of a client '%.80s' for --verify",
				       expected->client);
	if (!flmem_generated_is_name(expected->model))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%.200s' is not a generated model, and --verify compares "
				       "with those only; expected for example generate:resnet18",
				       expected->model);
	if (find_expected(options, expected->client, number))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--verify names '%s' twice",
				       expected->client);
	return 0;
}

int flmem_verified_check_options(const struct flmem_exchange_serve_options *options,
				 struct flmem_error *err)
{
	const char *name = options->aggregate.algorithm ?: "fedavg";
	const char *why = NULL;
	int rc = 0;

	if (!options->verify_count)
		return 0;
	if (!options->lockstep)
		why = "--verify compares updates while they arrive; use --mode lockstep";
	else if (options->rounds != 1)
		why = "--verify writes no model that a second round could begin with; use "
		      "--rounds 1";
	else if (strcmp(name, "fedavg") != 0)
		why = "--verify compares with exact means; use --algorithm fedavg";
	else if (options->quorum && options->quorum < options->clients)
		why = "--verify compares the updates of all clients, so it excludes --quorum";
	else if (options->clients > (uint64_t)FLMEM_EXACT_MEAN_WEIGHTS)
		why = "--verify adds weights up to 2^20 exactly; use fewer clients";
	if (why)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s", why);
	if (options->verify_count != options->clients)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--verify is given for %zu of %" PRIu64
				       " clients; name the update of each",
				       options->verify_count, options->clients);
	for (size_t i = 0; i < options->verify_count && !rc; i++)
		rc = check_expected(options, i, err);
	return rc;
}

int flmem_verified_check_models(struct flmem_exchange *x, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < x->options->verify_count && !rc; i++)
		rc = flmem_update_check(x, x->options->verify[i].model, err);
	return rc ? flmem_error_prefix(err, rc, "--verify") : 0;
}

const char *flmem_verified_model(const struct flmem_exchange *x, const char *client)
{
	return find_expected(x->options, client, x->options->verify_count);
}

bool flmem_verified_admits(const struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_upload_record *record)
{
	const struct flmem_tus_metadata *m = &record->metadata;
	uint64_t most = (uint64_t)FLMEM_EXACT_MEAN_WEIGHTS / x->options->clients;

	if (!flmem_exchange_verifies(x))
		return true;
	if (!flmem_verified_model(x, m->client)) {
		flmem_exchange_refuse(request, 403, NULL,
				      "this server compares updates, and knows none of '%s'",
				      m->client);
		return false;
	}
	if (m->weight == floor(m->weight) && m->weight >= 1 && m->weight <= (double)most)
		return true;
	flmem_exchange_refuse(request, 400, NULL,
			      "this server compares with exact means, for which weights are whole "
			      "numbers from 1 to %" PRIu64,
			      most);
	return false;
}

int flmem_verified_keep(struct flmem_exchange *x, uint64_t elements, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int round = flmem_spool_open_round(&x->spool, x->round);
	char text[24];
	int rc = round;

	snprintf(text, sizeof(text), "%" PRIu64, elements);
	if (round >= 0)
		rc = flmem_spool_write(round, MARKER, text, strlen(text));
	return rc < 0 ? flmem_error_set(err, FLMEM_EFAILED, -rc,
					"cannot write '%s/rounds/%" PRIu64 "/" MARKER "'",
					x->spool.path, x->round)
		      : 0;
}

int flmem_verified_load(struct flmem_exchange *x, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int round = -1;
	const char *at;
	int rc;

	if (!flmem_exchange_verifies(x))
		return 0;
	round = flmem_spool_open_round(&x->spool, x->round);
	rc = round < 0 ? round : flmem_spool_read(round, MARKER, &text);
	if (rc == -ENOENT)
		return 0;
	at = text.data;
	if (rc || !flmem_text_read_digits(&at, &x->verified) || *at || !x->verified)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "'%s/rounds/%" PRIu64 "/" MARKER "' is damaged; name "
				       "another --state",
				       x->spool.path, x->round);
	return 0;
}
