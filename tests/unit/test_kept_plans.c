/* SPDX-License-Identifier: Apache-2.0 */
/* Compares all strategies of all frameworks, step by step, with kept texts (kept.h). */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/plan.h>

#include "base/cleanup.h"
#include "kept.h"

#define MIB (UINT64_C(1) << 20)

/* Sizes are in MiB: exact bytes would change with the runtime's estimate alone. */
static void put_strategy(struct flmem_buf *out, const struct flmem_plan_strategy *one)
{
	flmem_buf_printf(out,
			 "  %s: server %" PRIu64 ", client %" PRIu64 ", disk %" PRIu64
			 ", simulator %" PRIu64 ", chunk %" PRIu64 ", message %" PRIu64 "%s\n",
			 one->name, one->server_peak_bytes / MIB, one->client_peak_bytes / MIB,
			 one->server_disk_bytes / MIB, one->simulator_bytes.value / MIB,
			 one->chunk_bytes.value / MIB, one->message_bytes.value / MIB,
			 one->fits ? "" : "; does not fit");
	for (size_t i = 0; i < one->step_count; i++)
		flmem_buf_printf(out, "    %s, %s: %" PRIu64 "\n",
				 flmem_role_name(one->steps[i].role), one->steps[i].name,
				 one->steps[i].bytes / MIB);
}

static void put_plan(struct flmem_buf *out, const struct flmem_plan_request *request)
{
	FLMEM_AUTO(flmem_plan_clear) struct flmem_plan plan = {0};
	struct flmem_error err = {0};

	flmem_buf_printf(out,
			 "%s, clients %" PRIu64 ", actors %" PRIu64 ", node %" PRIu64
			 ", optimizer %d:\n",
			 flmem_framework_name(request->framework), request->clients,
			 request->actors, request->node_bytes / MIB, (int)request->optimizer);
	if (flmem_plan_make(request, &plan, &err)) {
		flmem_buf_printf(out, "  %s\n", err.message);
		return;
	}
	flmem_buf_printf(out, "  runtime %" PRIu64 ", usable %" PRIu64 ", chosen %s\n",
			 plan.runtime_bytes / MIB, plan.usable_bytes / MIB,
			 plan.strategies[plan.chosen].name);
	for (size_t i = 0; i < plan.strategy_count; i++)
		put_strategy(out, &plan.strategies[i]);
}

static void plans_are_as_kept(void **state)
{
	static const enum flmem_framework frameworks[] = {
		FLMEM_FRAMEWORK_NVFLARE, FLMEM_FRAMEWORK_APPFL, FLMEM_FRAMEWORK_FLOWER};
	static const char *const models[] = {"llama-3.2-1b", "llama-3.1-8b", "llama-3.1-70b"};
	static const struct flmem_plan_request requests[] = {
		{.clients = 1},
		{.clients = 8, .node_bytes = 65536 * MIB},
		{.clients = 8, .actors = 4, .node_bytes = 65536 * MIB},
		{.clients = 3, .node_bytes = 524288 * MIB, .optimizer = FLMEM_OPTIMIZER_ADAM},
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t m = 0; m < FLMEM_ARRAY_SIZE(models); m++) {
		FLMEM_AUTO(flmem_model_clear) struct flmem_model model = {0};

		assert_int_equal(flmem_model_read(models[m], NULL, &model, NULL), 0);
		flmem_buf_printf(&out, "%s: %" PRIu64 "\n", models[m], model.bytes / MIB);
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(requests) * 3; i++) {
			struct flmem_plan_request request = requests[i / 3];

			request.model = &model;
			request.framework = frameworks[i % 3];
			put_plan(&out, &request);
		}
	}
	kept_compare("plans.txt", &out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_as_kept)};

	return cmocka_run_group_tests_name("kept_plans", tests, NULL, NULL);
}
