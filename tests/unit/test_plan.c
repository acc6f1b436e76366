/* SPDX-License-Identifier: Apache-2.0 */
/* Tests plans against the numbers that guides and measurements give for real jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/plan.h>

#include "base/cleanup.h"

#define MIB (UINT64_C(1) << 20)
#define GB  UINT64_C(1000000000)

static void make(const struct flmem_model *model, struct flmem_plan_request request,
		 struct flmem_plan *ret_plan)
{
	struct flmem_error err = {0};

	request.model = model;
	if (flmem_plan_make(&request, ret_plan, &err))
		fail_msg("%s", err.message);
}

static const struct flmem_plan_strategy *way_of(const struct flmem_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->strategy_count; i++)
		if (strcmp(plan->strategies[i].name, name) == 0)
			return &plan->strategies[i];
	fail_msg("no way named %s", name);
	return NULL;
}

static void assert_within(uint64_t planned, uint64_t measured, unsigned percent)
{
	uint64_t off = planned > measured ? planned - measured : measured - planned;

	if (off * 100 > measured * percent)
		fail_msg("planned %llu, measured %llu", (unsigned long long)planned,
			 (unsigned long long)measured);
}

/* The numbers are APPFL's own profiles of a 70B model, with two clients and chunks of 4 GiB. */
static void appfl_70b_is_as_its_guide_measured(void **state)
{
	struct flmem_plan plan = {0};
	struct flmem_model model;

	(void)state;
	assert_int_equal(flmem_model_read("llama-3.1-70b", NULL, &model, NULL), 0);
	make(&model,
	     (struct flmem_plan_request){
		     .framework = FLMEM_FRAMEWORK_APPFL, .clients = 2, .node_bytes = 512 * GB},
	     &plan);
	assert_string_equal(plan.strategies[plan.chosen].name, "chunked");
	assert_int_equal(plan.strategies[plan.chosen].chunk_bytes.value, UINT64_C(4) << 30);
	assert_int_equal(plan.strategies[plan.chosen].message_bytes.value, 104857600);
	assert_within(plan.strategies[plan.chosen].server_peak_bytes, 309800000000, 5);
	assert_within(plan.strategies[plan.chosen].client_peak_bytes, 302600000000, 5);
	assert_non_null(strstr(plan.texts[0].text, "model_chunk_size: 4294967296\n"));
	assert_non_null(strstr(plan.texts[0].text, "max_message_size: 104857600\n"));
	assert_non_null(strstr(plan.texts[1].text, "use_model_chunking: True\n"));
	flmem_plan_clear(&plan);
	flmem_model_clear(&model);
}

/*
 * The numbers are those of NVFlare's simulator 2.8.3 less a job without weights, as
 * tests/bench/nvflare/peaks.py measured them for docs/guides/planning.md. In the second and third
 * row two uploads overlap, less and more.
 */
static void nvflare_is_as_measured(void **state)
{
	static const struct {
		uint64_t model_mib, tensor_mib, clients, server_mib, client_mib;
	} rows[] = {
		{512, 16, 1, 3106, 1414}, {512, 16, 2, 3289, 1411}, {512, 16, 2, 4351, 1418},
		{512, 16, 4, 5165, 1406}, {256, 64, 1, 1532, 800},  {256, 64, 4, 2720, 864},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_plan plan = {0};
		struct flmem_model model;

		assert_int_equal(flmem_model_make(rows[i].model_mib * MIB / 4, NULL, &model, NULL),
				 0);
		model.largest_bytes = FLMEM_KNOWN(rows[i].tensor_mib * MIB);
		make(&model,
		     (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_NVFLARE,
						 .clients = rows[i].clients},
		     &plan);
		assert_within(way_of(&plan, "memory")->server_peak_bytes - plan.runtime_bytes,
			      rows[i].server_mib * MIB, 17);
		assert_within(way_of(&plan, "memory")->client_peak_bytes - plan.runtime_bytes,
			      rows[i].client_mib * MIB, 6);
		flmem_plan_clear(&plan);
		flmem_model_clear(&model);
	}
}

static void the_first_way_that_fits_is_chosen(void **state)
{
	static const struct {
		uint64_t node_bytes;
		const char *strategy;
		bool fits;
	} rows[] = {
		{0, "memory", true},
		{UINT64_C(64) << 30, "memory", true},
		{UINT64_C(8) << 30, "offload", true},
		{UINT64_C(1) << 30, "offload", false},
		{1, "offload", false},
	};
	struct flmem_model model;

	(void)state;
	assert_int_equal(flmem_model_make(UINT64_C(256) << 20, NULL, &model, NULL), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_plan plan = {0};

		make(&model,
		     (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_NVFLARE,
						 .clients = 8,
						 .node_bytes = rows[i].node_bytes},
		     &plan);
		assert_string_equal(plan.strategies[plan.chosen].name, rows[i].strategy);
		assert_int_equal(plan.strategies[plan.chosen].fits, rows[i].fits);
		assert_int_equal(!!strstr(plan.texts[0].text, "disk_offload"),
				 strcmp(rows[i].strategy, "offload") == 0);
		flmem_plan_clear(&plan);
	}
	flmem_model_clear(&model);
}

/* A job that APPFL-CHUNK-OFF reports is not planned. */
static void large_models_of_appfl_are_sent_in_chunks(void **state)
{
	static const struct {
		uint64_t parameters;
		bool chunked;
	} rows[] = {{8000000000, true}, {300000000, true}, {11000000, false}};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_plan plan = {0};
		struct flmem_model model;

		assert_int_equal(flmem_model_make(rows[i].parameters, NULL, &model, NULL), 0);
		make(&model,
		     (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_APPFL, .clients = 4},
		     &plan);
		assert_int_equal(!!strstr(plan.texts[0].text, "use_model_chunking: True"),
				 rows[i].chunked);
		flmem_plan_clear(&plan);
		flmem_model_clear(&model);
	}
}

static void a_simulator_holds_the_server_and_its_actors(void **state)
{
	struct flmem_plan plan = {0}, fitting = {0}, spread = {0};
	const struct flmem_plan_strategy *way;
	struct flmem_plan_request request = {
		.framework = FLMEM_FRAMEWORK_FLOWER, .clients = 16, .actors = 4};
	struct flmem_model model;

	(void)state;
	assert_int_equal(flmem_model_make(UINT64_C(256) << 20, NULL, &model, NULL), 0);
	make(&model, request, &plan);
	way = &plan.strategies[plan.chosen];
	assert_true(way->simulator_bytes.value ==
		    way->server_peak_bytes + 4 * way->client_peak_bytes);
	request.node_bytes = way->simulator_bytes.value / 9 * 10 + 1000;
	make(&model, request, &fitting);
	assert_true(fitting.strategies[fitting.chosen].fits);
	request.actors = 5;
	make(&model, request, &spread);
	assert_false(spread.strategies[spread.chosen].fits);
	flmem_plan_clear(&spread);
	request.actors = 0;
	make(&model, request, &spread);
	assert_true(spread.strategies[spread.chosen].fits);
	assert_non_null(spread.strategies[spread.chosen].simulator_bytes.unknown);
	request.model = &model;
	request.actors = 17;
	assert_int_equal(flmem_plan_make(&request, &plan, NULL), FLMEM_EUSAGE);
	flmem_plan_clear(&plan);
	flmem_plan_clear(&fitting);
	flmem_plan_clear(&spread);
	flmem_model_clear(&model);
}

static void tensors_above_nvflares_limit_raise_it(void **state)
{
	static const struct {
		struct flmem_u64 tensor;
		const char *line; /* the expected line; NULL: none */
	} rows[] = {
		{FLMEM_UNKNOWN("of this test"), NULL},
		{FLMEM_KNOWN(UINT64_C(4) << 30), NULL},
		{FLMEM_KNOWN((UINT64_C(4) << 30) + 1), "STREAMING_MAX_BLOB_SIZE=8589934592 "},
		{FLMEM_KNOWN(UINT64_C(9) << 30), "STREAMING_MAX_BLOB_SIZE=12884901888 "},
	};
	struct flmem_model model;

	(void)state;
	assert_int_equal(flmem_model_make(UINT64_C(1) << 36, NULL, &model, NULL), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_plan plan = {0};

		model.largest_bytes = rows[i].tensor;
		make(&model,
		     (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_NVFLARE,
						 .clients = 2},
		     &plan);
		if (!!strstr(plan.texts[2].text, "MAX_BLOB_SIZE") != (rows[i].line != NULL) ||
		    (rows[i].line && !strstr(plan.texts[2].text, rows[i].line)))
			fail_msg("row %zu: %s", i, plan.texts[2].text);
		flmem_plan_clear(&plan);
	}
	flmem_model_clear(&model);
}

static void chunks_shrink_until_the_node_holds_them(void **state)
{
	struct flmem_plan large = {0}, small = {0};
	struct flmem_model model;

	(void)state;
	assert_int_equal(flmem_model_read("llama-3.1-8b", NULL, &model, NULL), 0);
	make(&model, (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_APPFL, .clients = 16},
	     &large);
	make(&model,
	     (struct flmem_plan_request){
		     .framework = FLMEM_FRAMEWORK_APPFL, .clients = 16, .node_bytes = 110 * GB},
	     &small);
	assert_int_equal(way_of(&large, "chunked")->chunk_bytes.value, UINT64_C(1) << 30);
	/*
	 * The chunk is not below the largest tensor of 1002 MiB, which is its own chunk at any
	 * size.
	 */
	assert_int_equal(way_of(&small, "chunked")->chunk_bytes.value, UINT64_C(1) << 30);
	assert_true(way_of(&small, "chunked")->fits);
	flmem_plan_clear(&large);
	flmem_plan_clear(&small);
	flmem_model_clear(&model);
}

static void training_counts_only_with_an_optimizer(void **state)
{
	struct flmem_plan without = {0}, with = {0};
	struct flmem_model model;

	(void)state;
	assert_int_equal(flmem_model_make(UINT64_C(256) << 20, NULL, &model, NULL), 0);
	make(&model, (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_FLOWER, .clients = 2},
	     &without);
	make(&model,
	     (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_FLOWER,
					 .clients = 2,
					 .optimizer = FLMEM_OPTIMIZER_ADAM},
	     &with);
	/*
	 * A client has two models, and three for gradients and moments, instead of three at the
	 * exchange.
	 */
	assert_int_equal(with.strategies[0].client_peak_bytes -
				 without.strategies[0].client_peak_bytes,
			 2 * model.bytes);
	assert_int_equal(with.strategies[0].server_peak_bytes,
			 without.strategies[0].server_peak_bytes);
	assert_non_null(with.caveat);
	flmem_plan_clear(&without);
	flmem_plan_clear(&with);
	flmem_model_clear(&model);
}

/* Filters need copies of the model, on clients alone. Filters of another framework are refused. */
static void filters_add_a_step_of_the_client(void **state)
{
	static const struct {
		enum flmem_framework framework;
		const char *filter;
		uint64_t tenths, tensors;
	} rows[] = {
		{FLMEM_FRAMEWORK_NVFLARE, "percentile", 50, 0},
		{FLMEM_FRAMEWORK_NVFLARE, "svt", 33, 0},
		{FLMEM_FRAMEWORK_NVFLARE, "float16", 25, 2},
		{FLMEM_FRAMEWORK_FLOWER, "clipping", 50, 0},
		{FLMEM_FRAMEWORK_FLOWER, "local-dp", 50, 0},
	};
	struct flmem_model model = {.bytes = 1000 * MIB, .largest_bytes = FLMEM_KNOWN(10 * MIB)};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_plan_request request = {.framework = rows[i].framework, .clients = 2};
		struct flmem_plan plain = {0}, plan = {0};
		const struct flmem_plan_strategy *way;

		make(&model, request, &plain);
		request.filter = rows[i].filter;
		make(&model, request, &plan);
		way = &plan.strategies[0];
		assert_int_equal(way->step_count, plain.strategies[0].step_count + 1);
		assert_string_equal(way->steps[way->step_count - 1].name, "filter the result");
		assert_int_equal(way->steps[way->step_count - 1].bytes,
				 plan.runtime_bytes +
					 (rows[i].tenths * 100 + rows[i].tensors * 10) * MIB);
		assert_true(way->client_peak_bytes >= way->steps[way->step_count - 1].bytes);
		assert_int_equal(way->server_peak_bytes, plain.strategies[0].server_peak_bytes);
		flmem_plan_clear(&plain);
		flmem_plan_clear(&plan);
	}
}

static void filters_of_other_frameworks_are_refused(void **state)
{
	struct flmem_model model = {.bytes = 1000 * MIB, .largest_bytes = FLMEM_KNOWN(10 * MIB)};
	struct flmem_plan_request request = {.model = &model,
					     .framework = FLMEM_FRAMEWORK_NVFLARE,
					     .clients = 2,
					     .filter = "clipping"};
	struct flmem_plan plan = {0};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_plan_make(&request, &plan, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "choose from percentile, svt, float16"));
	request.framework = FLMEM_FRAMEWORK_APPFL;
	assert_int_equal(flmem_plan_make(&request, &plan, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "not known"));
}

/* The bytes of a tensor are kept once for all receivers, until the slowest one has them. */
static void several_receivers_share_the_serialised_model(void **state)
{
	struct flmem_model model = {.bytes = 1000 * MIB, .largest_bytes = FLMEM_KNOWN(10 * MIB)};
	uint64_t sent[3];

	(void)state;
	for (uint64_t clients = 1; clients <= 3; clients++) {
		struct flmem_plan plan = {0};

		make(&model,
		     (struct flmem_plan_request){.framework = FLMEM_FRAMEWORK_NVFLARE,
						 .clients = clients},
		     &plan);
		assert_string_equal(plan.strategies[0].steps[1].name, "send the model");
		sent[clients - 1] = plan.strategies[0].steps[1].bytes;
		flmem_plan_clear(&plan);
	}
	assert_int_equal(sent[1] - sent[0], 1050 * MIB);
	assert_int_equal(sent[2] - sent[1], 50 * MIB);
}

static void numbers_that_no_machine_has_are_refused(void **state)
{
	struct flmem_plan_request request = {.framework = FLMEM_FRAMEWORK_NVFLARE, .clients = 1};
	struct flmem_plan plan = {.chosen = 7};
	struct flmem_model model;

	(void)state;
	assert_int_equal(flmem_model_make(UINT64_C(1) << 50, NULL, &model, NULL), 0);
	request.model = &model;
	assert_int_equal(flmem_plan_make(&request, &plan, NULL), FLMEM_EUSAGE);
	flmem_model_clear(&model);
	assert_int_equal(flmem_model_make(1, "int8", &model, NULL), 0);
	request.model = &model;
	request.clients = 0;
	assert_int_equal(flmem_plan_make(&request, &plan, NULL), FLMEM_EUSAGE);
	request.clients = 10001;
	assert_int_equal(flmem_plan_make(&request, &plan, NULL), FLMEM_EUSAGE);
	request.clients = 1;
	request.framework = FLMEM_FRAMEWORK_NONE;
	assert_int_equal(flmem_plan_make(&request, &plan, NULL), FLMEM_EUSAGE);
	assert_int_equal(plan.chosen, 7);
	flmem_model_clear(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appfl_70b_is_as_its_guide_measured),
		cmocka_unit_test(nvflare_is_as_measured),
		cmocka_unit_test(the_first_way_that_fits_is_chosen),
		cmocka_unit_test(large_models_of_appfl_are_sent_in_chunks),
		cmocka_unit_test(a_simulator_holds_the_server_and_its_actors),
		cmocka_unit_test(tensors_above_nvflares_limit_raise_it),
		cmocka_unit_test(chunks_shrink_until_the_node_holds_them),
		cmocka_unit_test(training_counts_only_with_an_optimizer),
		cmocka_unit_test(filters_add_a_step_of_the_client),
		cmocka_unit_test(filters_of_other_frameworks_are_refused),
		cmocka_unit_test(several_receivers_share_the_serialised_model),
		cmocka_unit_test(numbers_that_no_machine_has_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
