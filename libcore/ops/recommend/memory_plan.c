/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/plan.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "frameworks/strategies.h"

/* Limits that no machine reaches; they keep all sums within 64 bits. */
#define MODEL_MAX   (UINT64_C(1) << 46)
#define CLIENTS_MAX 10000U

/*
 * The share of a node that one process may use; the rest is for the system and for memory that no
 * plan includes.
 */
#define USABLE_PERCENT 90U

#define CHUNK_MIN     (UINT64_C(1) << 20)
#define CHUNK_SHARES  16U /* chunk size as a share of the model, if no node is given */
#define TENSOR_SHARES 16U /* assumed share of the model for a largest tensor of unknown size */
#define MESSAGE_BYTES (UINT64_C(100) << 20)
#define MESSAGE_MIN   (UINT64_C(4) << 20) /* leaves room for data other than the model */

/* Models held in addition during training: gradients, and the moments of the optimizer. */
static const unsigned optimizer_models[] = {
	[FLMEM_OPTIMIZER_NONE] = 0,
	[FLMEM_OPTIMIZER_SGD] = 1,
	[FLMEM_OPTIMIZER_MOMENTUM] = 2,
	[FLMEM_OPTIMIZER_ADAM] = 3,
};

struct plan_sizes {
	uint64_t runtime, model, tensor, chunk, clients, actors;
	bool guessed;	  /* the size of the largest tensor is not known */
	unsigned trained; /* models that training holds in addition */
	const struct flmem_strategy_filter *filter; /* or NULL */
};

static uint64_t step_bytes(const struct flmem_strategy_step *step, const struct plan_sizes *sizes)
{
	uint64_t models = step->models + step->models_per_client * sizes->clients;
	uint64_t chunks = step->chunks + step->chunks_per_client * sizes->clients;
	uint64_t tensors = step->tensors + step->tensors_per_client * sizes->clients;

	if (sizes->clients > 1)
		models += step->models_if_several;
	if (step->trains)
		models += (uint64_t)sizes->trained * FLMEM_WHOLE;
	return sizes->runtime + models * (sizes->model / FLMEM_WHOLE) +
	       models * (sizes->model % FLMEM_WHOLE) / FLMEM_WHOLE +
	       chunks * sizes->chunk / FLMEM_WHOLE + tensors * sizes->tensor / FLMEM_WHOLE;
}

static uint64_t peak_bytes(const struct flmem_strategy *strategy, enum flmem_role role,
			   const struct plan_sizes *sizes)
{
	uint64_t most = 0;

	if (sizes->filter && sizes->filter->step.role == role)
		most = step_bytes(&sizes->filter->step, sizes);
	for (size_t i = 0; i < strategy->step_count; i++) {
		uint64_t bytes = step_bytes(&strategy->steps[i], sizes);

		if (strategy->steps[i].role == role && bytes > most)
			most = bytes;
	}
	return most;
}

/* Upper bound: the peaks need not be at the same time. */
static uint64_t simulator_bytes(const struct flmem_strategy *strategy,
				const struct plan_sizes *sizes)
{
	return peak_bytes(strategy, FLMEM_ROLE_SERVER, sizes) +
	       sizes->actors * peak_bytes(strategy, FLMEM_ROLE_CLIENT, sizes);
}

static bool strategy_fits(const struct flmem_strategy *strategy, const struct plan_sizes *sizes,
			  uint64_t usable)
{
	if (usable && sizes->actors)
		return simulator_bytes(strategy, sizes) <= usable;
	return !usable || (peak_bytes(strategy, FLMEM_ROLE_SERVER, sizes) <= usable &&
			   peak_bytes(strategy, FLMEM_ROLE_CLIENT, sizes) <= usable);
}

static uint64_t power_of_two_above(uint64_t bytes)
{
	uint64_t power = CHUNK_MIN;

	while (power < bytes)
		power *= 2;
	return power;
}

/*
 * Chooses the chunk size. A tensor above the chunk size is a chunk by itself, so chunks below the
 * largest tensor save nothing. Otherwise the size is a sixteenth of the model, or less if the node
 * requires it.
 */
static uint64_t choose_chunk(const struct flmem_strategy *strategy, struct plan_sizes sizes,
			     uint64_t usable)
{
	uint64_t least = power_of_two_above(sizes.tensor);
	uint64_t chunk = power_of_two_above(sizes.model / CHUNK_SHARES);

	if (strategy->chunk_bytes || !strategy->chunk_max)
		return strategy->chunk_bytes;
	if (chunk > strategy->chunk_max)
		chunk = strategy->chunk_max;
	while (chunk > least) {
		sizes.chunk = chunk;
		if (strategy_fits(strategy, &sizes, usable))
			break;
		chunk /= 2;
	}
	return chunk < least ? least : chunk;
}

static uint64_t choose_message(const struct flmem_strategy *strategy, uint64_t chunk,
			       uint64_t model)
{
	uint64_t bytes = chunk ? chunk : power_of_two_above(model);

	if (bytes > MESSAGE_BYTES)
		bytes = MESSAGE_BYTES;
	if (bytes < MESSAGE_MIN)
		bytes = MESSAGE_MIN;
	return bytes < strategy->message_max ? bytes : strategy->message_max;
}

static void fill_sizes(const struct flmem_strategy *strategy, struct plan_sizes *sizes,
		       uint64_t usable, struct flmem_plan_strategy *ret_strategy)
{
	sizes->chunk = choose_chunk(strategy, *sizes, usable);
	ret_strategy->chunk_bytes =
		strategy->chunk_max ? FLMEM_KNOWN(sizes->chunk)
				    : FLMEM_UNKNOWN("this strategy has no configurable chunk size");
	ret_strategy->message_bytes =
		strategy->message_max
			? FLMEM_KNOWN(choose_message(strategy, sizes->chunk, sizes->model))
			: FLMEM_UNKNOWN("this strategy uses the framework's default settings");
	ret_strategy->server_disk_bytes =
		strategy->disk_models_per_client * sizes->clients * sizes->model;
}

static struct flmem_plan_step make_step(const struct flmem_strategy_step *step,
					const struct plan_sizes *sizes)
{
	return (struct flmem_plan_step){
		.role = step->role,
		.name = step->name,
		.contents = step->contents,
		.bytes = step_bytes(step, sizes),
	};
}

static int make_strategy(const struct flmem_strategy *strategy, struct plan_sizes sizes,
			 uint64_t usable, struct flmem_plan_strategy *ret_strategy,
			 struct flmem_error *err)
{
	*ret_strategy =
		(struct flmem_plan_strategy){.name = strategy->name, .summary = strategy->summary};
	fill_sizes(strategy, &sizes, usable, ret_strategy);
	ret_strategy->steps = calloc(strategy->step_count + 1, sizeof(*ret_strategy->steps));
	if (!ret_strategy->steps)
		return flmem_error_nomem(err, "cannot store the plan");
	ret_strategy->step_count = strategy->step_count;
	for (size_t i = 0; i < strategy->step_count; i++)
		ret_strategy->steps[i] = make_step(&strategy->steps[i], &sizes);
	if (sizes.filter)
		ret_strategy->steps[ret_strategy->step_count++] =
			make_step(&sizes.filter->step, &sizes);
	ret_strategy->server_peak_bytes = peak_bytes(strategy, FLMEM_ROLE_SERVER, &sizes);
	ret_strategy->client_peak_bytes = peak_bytes(strategy, FLMEM_ROLE_CLIENT, &sizes);
	ret_strategy->simulator_bytes = sizes.actors
						? FLMEM_KNOWN(simulator_bytes(strategy, &sizes))
						: FLMEM_UNKNOWN("no simulator is planned");
	ret_strategy->fits = strategy_fits(strategy, &sizes, usable);
	return 0;
}

/*
 * Chooses the first strategy that fits and is meant for models of this size, because the
 * framework's default is first; else the one with the lowest peak.
 */
static size_t choose_strategy(const struct flmem_strategies *strategies, uint64_t model,
			      const struct flmem_plan *plan)
{
	size_t lowest = 0;

	for (size_t i = 0; i < plan->strategy_count; i++) {
		uint64_t most = strategies->strategies[i].model_max;

		if (plan->strategies[i].fits && (!most || model <= most))
			return i;
		if (plan->strategies[i].server_peak_bytes <
		    plan->strategies[lowest].server_peak_bytes)
			lowest = i;
	}
	return lowest;
}

static int write_strategy_texts(const struct flmem_strategy *strategy,
				const struct plan_sizes *sizes, struct flmem_plan *plan,
				struct flmem_error *err)
{
	const struct flmem_plan_strategy *chosen = &plan->strategies[plan->chosen];
	struct flmem_strategy_values values = {
		.clients = sizes->clients,
		.model_bytes = sizes->model,
		.chunk_bytes = chosen->chunk_bytes.value,
		.message_bytes = chosen->message_bytes.value,
		.disk_bytes = chosen->server_disk_bytes,
		.tensor_bytes = sizes->guessed ? 0 : sizes->tensor,
	};

	plan->texts = calloc(strategy->file_count + 1, sizeof(*plan->texts));
	if (!plan->texts)
		return flmem_error_nomem(err, "cannot store the plan");
	for (size_t i = 0; i < strategy->file_count; i++) {
		FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

		strategy->files[i].write(&values, &text);
		plan->texts[i].where = strategy->files[i].where;
		plan->texts[i].text = flmem_buf_take(&text);
		if (!plan->texts[i].text)
			return flmem_error_nomem(err, "cannot store the plan");
		plan->text_count++;
	}
	return 0;
}

static int check_plan_request(const struct flmem_plan_request *request, struct flmem_error *err)
{
	if (!request->clients || request->clients > CLIENTS_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--clients accepts 1 to %u in a plan",
				       CLIENTS_MAX);
	if (request->actors > request->clients)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--simulator exceeds --clients: a simulator cannot run more "
				       "clients at once than there are per round");
	if (!request->model->bytes || request->model->bytes > MODEL_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "a model of %llu bytes (--model, --params) exceeds the "
				       "memory of any machine",
				       (unsigned long long)request->model->bytes);
	return 0;
}

static int find_filter(const struct flmem_strategies *strategies, const char *name,
		       const struct flmem_strategy_filter **ret_filter, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf names = FLMEM_BUF_INIT;

	for (const struct flmem_strategy_filter *f = strategies->filters; f && f->name; f++) {
		if (strcmp(f->name, name) == 0) {
			*ret_filter = f;
			return 0;
		}
		flmem_buf_printf(&names, "%s%s", names.length ? ", " : "", f->name);
	}
	if (!names.length)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the cost of filters of this framework is not known; plan "
				       "without --filter");
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid filter '%s'; choose from %s", name,
			       names.data);
}

static int make_strategies(const struct flmem_strategies *strategies,
			   const struct plan_sizes *sizes, struct flmem_plan *plan,
			   struct flmem_error *err)
{
	int rc = 0;

	plan->strategies = calloc(strategies->count, sizeof(*plan->strategies));
	if (!plan->strategies)
		return flmem_error_nomem(err, "cannot store the plan");
	for (size_t i = 0; i < strategies->count && !rc; i++, plan->strategy_count++)
		rc = make_strategy(&strategies->strategies[i], *sizes, plan->usable_bytes,
				   &plan->strategies[i], err);
	if (rc)
		return rc;
	plan->chosen = choose_strategy(strategies, sizes->model, plan);
	return write_strategy_texts(&strategies->strategies[plan->chosen], sizes, plan, err);
}

int flmem_plan_make(const struct flmem_plan_request *request, struct flmem_plan *ret_plan,
		    struct flmem_error *err)
{
	const struct flmem_strategies *strategies = flmem_strategies_find(request->framework);
	const struct flmem_model *model = request->model;
	struct flmem_plan plan = {0};
	struct plan_sizes sizes;
	int rc = check_plan_request(request, err);

	if (rc)
		return rc;
	if (!strategies)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "a plan needs a framework");
	sizes = (struct plan_sizes){
		.runtime = strategies->runtime_bytes,
		.model = model->bytes,
		.tensor = model->largest_bytes.unknown ? model->bytes / TENSOR_SHARES
						       : model->largest_bytes.value,
		.guessed = model->largest_bytes.unknown,
		.clients = request->clients,
		.actors = request->actors,
		.trained = optimizer_models[request->optimizer],
	};
	if (request->filter)
		rc = find_filter(strategies, request->filter, &sizes.filter, err);
	if (rc)
		return rc;
	plan.runtime_bytes = strategies->runtime_bytes;
	plan.usable_bytes = request->node_bytes / 100 * USABLE_PERCENT;
	plan.usable_bytes += request->node_bytes && !plan.usable_bytes; /* 0: unknown */
	plan.caveat = strategies->caveat;
	plan.beside = request->actors ? NULL : strategies->beside;
	rc = make_strategies(strategies, &sizes, &plan, err);
	if (rc)
		flmem_plan_clear(&plan);
	else
		*ret_plan = plan;
	return rc;
}

void flmem_plan_clear(struct flmem_plan *plan)
{
	for (size_t i = 0; i < plan->strategy_count; i++)
		free(plan->strategies[i].steps);
	free(plan->strategies);
	for (size_t i = 0; i < plan->text_count; i++)
		free(plan->texts[i].text);
	free(plan->texts);
	*plan = (struct flmem_plan){0};
}
