/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregate/algorithm.h"
#include "base/cleanup.h"
#include "ops/exchange/server/round_combiner.h"
#include "ops/exchange/server/verified_round.h"

#define UPDATES_MAX 256U /* most updates of an exchange; each takes a descriptor */

/* Stops a trial: the first progress is reported after everything that the trial checks. */
static bool stop_trial(void *context, const struct flmem_aggregate_progress *progress)
{
	(void)context;
	(void)progress;
	return false;
}

/*
 * Returns true if the failure does not depend on the algorithm. A full disk, or a model with NaN,
 * must not make the server refuse its clients in all rounds.
 */
static bool is_passing_failure(int rc, const struct flmem_error *err)
{
	return rc && (err->sys_errno == EIO || err->sys_errno == ENOMEM ||
		      err->sys_errno == EMFILE || err->sys_errno == ENFILE);
}

static int try_algorithm(const struct flmem_exchange *x, size_t count, struct flmem_error *err)
{
	const struct flmem_algorithm *algorithm =
		flmem_algorithm_find(x->options->aggregate.algorithm ?: "fedavg");
	FLMEM_AUTO_FREE const char **inputs = calloc(count, sizeof(*inputs));
	FLMEM_AUTO_CLOSE int directory =
		flmem_spool_open_directory(x->spool.root, FLMEM_SPOOL_TRIAL);
	FLMEM_AUTO_FREE char *output = NULL, *state = NULL;
	struct flmem_aggregate_request request = x->options->aggregate;
	struct flmem_aggregate_result result = {0};
	int rc;

	if (asprintf(&output, "%s/" FLMEM_SPOOL_TRIAL "/%s", x->spool.path, x->model_name) < 0)
		output = NULL;
	if (asprintf(&state, "%s/" FLMEM_SPOOL_TRIAL "/state.optimizer", x->spool.path) < 0)
		state = NULL;
	if (directory < 0)
		return flmem_error_set(err, FLMEM_EFAILED, -directory,
				       "cannot try the algorithm in '%s/" FLMEM_SPOOL_TRIAL "'",
				       x->spool.path);
	if (!inputs || !output || !state)
		return flmem_error_nomem(err, "cannot try the algorithm");
	for (size_t i = 0; i < count; i++)
		inputs[i] = flmem_exchange_verifies(x) ? x->options->verify[i].model
						       : x->options->model;
	request.inputs = inputs;
	request.input_count = count;
	request.output = flmem_exchange_verifies(x) ? FLMEM_AGGREGATE_VERIFY : output;
	request.state = algorithm->slots ? state : NULL;
	request.base = algorithm->takes_base || algorithm->slots ? x->options->model : NULL;
	request.progress = stop_trial;
	rc = flmem_aggregate(&request, &result, err);
	flmem_aggregate_result_clear(&result);
	flmem_spool_remove(x->spool.root, FLMEM_SPOOL_TRIAL);
	return rc == FLMEM_EUSAGE || is_passing_failure(rc, err) ? rc : 0;
}

/* Finds the smallest number of updates with which the algorithm works; it works with `enough`. */
static int find_needed(const struct flmem_exchange *x, size_t enough, size_t *ret_needed,
		       struct flmem_error *err)
{
	size_t too_few = 0, count = 1; /* most algorithms work with one */

	while (too_few + 1 < enough) {
		struct flmem_error why = {0};
		int rc = try_algorithm(x, count, &why);

		if (is_passing_failure(rc, &why)) {
			*err = why;
			return rc;
		}
		if (rc)
			too_few = count;
		else
			enough = count;
		count = too_few + (enough - too_few) / 2;
	}
	*ret_needed = enough;
	return 0;
}

int flmem_combiner_check_algorithm(struct flmem_exchange *x, struct flmem_error *err)
{
	size_t count = x->quorum < UPDATES_MAX ? (size_t)x->quorum : UPDATES_MAX;
	struct flmem_error why = {0};
	int rc = try_algorithm(x, count, &why);

	x->needed = count;
	if (!rc && !x->lockstep)
		rc = find_needed(x, count, &x->needed, &why);
	if (rc && err)
		*err = why;
	return rc;
}
