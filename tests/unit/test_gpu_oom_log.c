/* SPDX-License-Identifier: Apache-2.0 */
/* Tests PyTorch's "CUDA out of memory" in logs of jobs, in the wording of several versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "findings.h"
#include "proc/limits/gpu_oom_log.h"
#include "rules/oom_rules.h"

#define NONE UINT64_MAX
#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)

#define PYTORCH_1                                                                                \
	"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 3; 24.00 GiB total " \
	"capacity; 22.00 GiB already allocated; 10.50 MiB free; 22.50 GiB reserved in total by " \
	"PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb"
#define PYTORCH_2                                                                               \
	"2026-11-01 10:00:00 - worker - ERROR - torch.OutOfMemoryError: CUDA out of memory. "   \
	"Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.50 GiB of which 17.25 "   \
	"MiB is free. Including non-PyTorch memory, this process has 79.12 GiB memory in use. " \
	"Of the allocated memory 77.25 GiB is allocated by PyTorch, with 8.00 MiB allocated "   \
	"in private pools (e.g., CUDA Graphs), and 1.25 GiB is reserved by PyTorch but "        \
	"unallocated. If reserved but unallocated memory is large try setting"
#define PYTORCH_2_0                                                                           \
	"torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 512 bytes. GPU 0 " \
	"has a total capacty of 16.00 GiB of which 0 bytes is free."
#define RUNTIME "RuntimeError: CUDA error: out of memory"

struct gpu_case {
	const char *text;
	size_t count;
	unsigned line;
	uint64_t device, tried, total, left, allocated, unused; /* NONE: unknown */
};

static const struct gpu_case cases[] = {
	{PYTORCH_1, 1, 1, 3, 20 * MIB, 24 * GIB, 10 * MIB + MIB / 2, 22 * GIB, GIB / 2},
	{"a\n\n" PYTORCH_2 "\nb\n", 1, 3, 1, 2 * GIB, 79 * GIB + GIB / 2, 17 * MIB + MIB / 4,
	 77 * GIB + GIB / 4, GIB + GIB / 4},
	{"{\"message\": \"" PYTORCH_2_0 "\\nTraceback\"}", 1, 1, 0, 512, 16 * GIB, 0, NONE, NONE},
	{RUNTIME "\n", 1, 1, NONE, NONE, NONE, NONE, NONE, NONE},
	{"HIP error: out of memory", 1, 1, NONE, NONE, NONE, NONE, NONE, NONE},
	/* The last message counts, with its figures only. */
	{PYTORCH_1 "\n" PYTORCH_1 "\n" RUNTIME, 3, 3, NONE, NONE, NONE, NONE, NONE, NONE},
	/* Damaged figures are unknown. */
	{"CUDA out of memory. Tried to allocate 20.0 MiB (GPU x; GiB total capacity; "
	 "already allocated;  free; 99999999999999999999 GiB reserved in total by PyTorch)",
	 1, 1, NONE, NONE, NONE, NONE, NONE, NONE},
	{"CUDA out of memory. Tried to allocate 184467440737.00 GiB. GPU 1 of which 5 TiB is free",
	 1, 1, 1, NONE, NONE, NONE, NONE, NONE},
	/* The pool is smaller than its tensors. */
	{"CUDA out of memory. Tried to allocate 1.00 MiB (GPU 0; 3.00 GiB already allocated; 1.00 "
	 "GiB reserved in total by PyTorch)",
	 1, 1, 0, MIB, NONE, NONE, 3 * GIB, NONE},
};

static void expect(const struct gpu_case *row, const char *what, struct flmem_u64 got,
		   uint64_t wanted)
{
	if (wanted == NONE ? !got.unknown : got.unknown || got.value != wanted)
		fail_msg("%s: %s is %s, %llu", row->text, what, got.unknown ? got.unknown : "known",
			 (unsigned long long)got.value);
}

static void messages_of_all_versions_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		const struct gpu_case *row = &cases[i];
		struct flmem_gpu_oom oom;

		if (!flmem_gpu_oom_log_read(row->text, &oom))
			fail_msg("not read: %s", row->text);
		assert_int_equal(oom.count, row->count);
		assert_int_equal(oom.line, row->line);
		expect(row, "device", oom.device, row->device);
		expect(row, "tried", oom.tried_bytes, row->tried);
		expect(row, "total", oom.total_bytes, row->total);
		expect(row, "free", oom.free_bytes, row->left);
		expect(row, "allocated", oom.allocated_bytes, row->allocated);
		expect(row, "unused", oom.unused_bytes, row->unused);
	}
}

static void prose_and_host_memory_are_no_failure(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"to avoid CUDA out of memory, reduce the batch size\n",
		"CUDA out of memory.\nTried to allocate 20.00 MiB",
		"CUDA error: invalid argument",
		"MemoryError: Unable to allocate 2.00 GiB",
	};
	struct flmem_gpu_oom oom;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++)
		if (flmem_gpu_oom_log_read(texts[i], &oom))
			fail_msg("%s", texts[i]);
}

static void check_rules(const char *text, bool fragmented, const char *current, const char *detail)
{
	FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
	const struct flmem_finding *last = NULL;
	struct flmem_gpu_oom oom;

	assert_true(flmem_gpu_oom_log_read(text, &oom));
	assert_int_equal(flmem_gpu_oom_rules_run(&oom, "log.txt", &found, NULL), 0);
	assert_int_equal(findings_of(&found, "OOM-GPU-FRAGMENTED", &last), fragmented);
	assert_int_equal(findings_of(&found, "OOM-GPU", &last), 1);
	if (!last)
		return;
	assert_string_equal(last->file, "log.txt");
	assert_int_equal(last->line, oom.line);
	assert_string_equal(last->current, current);
	if (!strstr(last->message, detail))
		fail_msg("%s", last->message);
}

static void a_pool_with_enough_unallocated_memory_is_fragmented(void **state)
{
	(void)state;
	check_rules(PYTORCH_1, true, "20971520",
		    "tried to allocate 20 MiB, free 10.5 MiB of 24 GiB");
	check_rules("x\n" PYTORCH_2, false, "2147483648", "of 79.5 GiB");
	check_rules(RUNTIME, false, "unknown", "free unknown of unknown");
	check_rules(PYTORCH_2 "\n" PYTORCH_2, false, "2147483648", "; the last of 2 reports");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_all_versions_are_read),
		cmocka_unit_test(prose_and_host_memory_are_no_failure),
		cmocka_unit_test(a_pool_with_enough_unallocated_memory_is_fragmented),
	};

	return cmocka_run_group_tests_name("gpu_oom_log", tests, NULL, NULL);
}
