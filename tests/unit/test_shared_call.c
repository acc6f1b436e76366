/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the processes of an MPI job divide an output: each byte once, in about equal parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/shapes.h"
#include "ops/aggregate/shared_call.h"

#define KIB(n) (UINT64_C(n) << 10)
#define MIB(n) (UINT64_C(n) << 20)

static void begin_call(struct flmem_aggregate_call *call, struct flmem_tensor_list *list,
		       uint64_t shard_bytes)
{
	*call = (struct flmem_aggregate_call){.part = FLMEM_PART_FILE_INIT};
	call->output.path = "folder";
	call->output.part = &call->part;
	call->output.shard_bytes = shard_bytes;
	flmem_buf_init(&call->output.text);
	assert_int_equal(flmem_layout_init(&call->layout, list, "model", NULL), 0);
	assert_int_equal(flmem_output_plan(&call->output, &call->layout, NULL, 0, NULL), 0);
}

static void end_call(struct flmem_aggregate_call *call)
{
	flmem_output_clear(&call->output);
	flmem_layout_clear(&call->layout);
}

static void take_part(struct flmem_aggregate_call *call, unsigned rank, unsigned count,
		      uint64_t chunk)
{
	call->ranks.rank = rank;
	call->ranks.count = count;
	call->run.chunk_bytes = chunk;
	flmem_shared_call_divide(call, FLMEM_RUN_COMBINE);
}

/* Makes a list of tensors of these numbers of kilobytes, in this order. */
static struct flmem_tensor_list make_list(const unsigned *kilobytes, size_t count)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	struct flmem_tensor_list list = {.count = count};

	list.tensors = calloc(count, sizeof(*list.tensors));
	list.extents = calloc(count, sizeof(*list.extents));
	assert_non_null(list.tensors);
	assert_non_null(list.extents);
	for (size_t i = 0; i < count; i++) {
		list.extents[i] = kilobytes[i] * UINT64_C(250);
		list.tensors[i] = (struct flmem_tensor){
			.name = names[i],
			.dtype = flmem_dtype_find("F32"),
			.bytes = list.extents[i] * 4,
			.shape = i,
			.rank = 1,
		};
	}
	return list;
}

static void parts_have_each_byte_once(void **state)
{
	static const uint64_t shards[] = {0, KIB(1), MIB(1), MIB(5), MIB(20), UINT64_C(1) << 40};
	static const uint64_t chunks[] = {KIB(64), MIB(4), MIB(64)};
	struct flmem_aggregate_call call;

	(void)state;
	for (size_t i = 0; i < 6 * 3; i++) {
		uint64_t chunk = chunks[i % 3];
		struct flmem_tensor_list list = {0};

		assert_int_equal(flmem_shape_list("resnet18", NULL, &list, NULL), 0);
		begin_call(&call, &list, shards[i / 3]);
		for (unsigned count = 1; count < 40; count++) {
			uint64_t at = 0, share = flmem_layout_bytes(&call.layout) / count;

			for (unsigned rank = 0; rank < count; rank++) {
				take_part(&call, rank, count, chunk);
				assert_true(call.run.begin == at && call.run.end >= at);
				at = call.run.end;
				assert_true(at - call.run.begin <= share * 3 / 2 + chunk);
			}
			assert_true(at == flmem_layout_bytes(&call.layout));
		}
		end_call(&call);
	}
}

/* The model alone decides where the rounded sums of a measuring pass begin. */
static void measured_parts_begin_at_whole_units(void **state)
{
	struct flmem_aggregate_call call;
	struct flmem_tensor_list list = {0};

	(void)state;
	assert_int_equal(flmem_shape_list("resnet18", NULL, &list, NULL), 0);
	begin_call(&call, &list, MIB(5));
	for (unsigned rank = 0; rank < 7; rank++) {
		take_part(&call, rank, 7, KIB(64));
		flmem_shared_call_divide(&call, FLMEM_RUN_MEASURE);
		assert_true(call.run.begin % KIB(64) == 0);
	}
	assert_true(call.run.end == flmem_layout_bytes(&call.layout));
	end_call(&call);
}

static void equal_shards_are_not_cut(void **state)
{
	static const unsigned sizes[] = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 900};
	struct flmem_tensor_list list = make_list(sizes, 8);
	struct flmem_aggregate_call call;

	(void)state;
	begin_call(&call, &list, 1000000);
	for (unsigned count = 1; count <= 8; count *= 2)
		for (unsigned rank = 0; rank < count; rank++) {
			take_part(&call, rank, count, KIB(64));
			assert_true(call.run.begin == rank * UINT64_C(8000000) / count);
		}
	end_call(&call);
}

static void shards_that_would_not_divide_the_work_are_cut(void **state)
{
	static const unsigned sizes[] = {100, 8000, 100};
	struct flmem_tensor_list list = make_list(sizes, 3);
	struct flmem_aggregate_call call;

	(void)state;
	begin_call(&call, &list, 1000000);
	take_part(&call, 0, 2, KIB(64));
	assert_true(call.run.begin == 0 && call.run.end == (8200000 / 2 / KIB(64) + 1) * KIB(64));
	take_part(&call, 1, 2, KIB(64));
	assert_true(call.run.end == 8200000);
	/* If chunks are longer than the parts, some processes have nothing to do. */
	take_part(&call, 1, 3, MIB(16));
	assert_true(call.run.begin == 8100000 && call.run.end == call.run.begin);
	assert_true(call.run.first_chunk == call.run.chunk_limit);
	end_call(&call);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_have_each_byte_once),
		cmocka_unit_test(measured_parts_begin_at_whole_units),
		cmocka_unit_test(equal_shards_are_not_cut),
		cmocka_unit_test(shards_that_would_not_divide_the_work_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
