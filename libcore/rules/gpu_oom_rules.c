/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "rules/oom_rules.h"

void flmem_oom_put_bytes(const char *label, struct flmem_u64 bytes, char *out, size_t size)
{
	char shown[FLMEM_TEXT_BYTES_MAX];

	snprintf(out, size, "%s%s", label,
		 bytes.unknown ? "unknown" : flmem_text_bytes(bytes.value, shown, sizeof(shown)));
}

static bool report_gpu_oom(const struct flmem_gpu_oom *oom, struct flmem_live_remark *remark)
{
	char tried[48], left[48], total[48], others[48] = "";

	flmem_oom_put_bytes("tried to allocate ", oom->tried_bytes, tried, sizeof(tried));
	flmem_oom_put_bytes(", free ", oom->free_bytes, left, sizeof(left));
	flmem_oom_put_bytes(" of ", oom->total_bytes, total, sizeof(total));
	if (oom->count > 1)
		snprintf(others, sizeof(others), "; the last of %zu reports", oom->count);
	remark->path = "tried-to-allocate";
	flmem_live_put_bytes(remark, oom->tried_bytes);
	snprintf(remark->detail, sizeof(remark->detail), "%s%s%s%s", tried, left, total, others);
	return true;
}

/* Reports that the pool has enough memory, but in pieces that are too small. */
static bool report_fragments(const struct flmem_gpu_oom *oom, struct flmem_live_remark *remark)
{
	char held[48], tried[48];

	if (oom->tried_bytes.unknown || oom->unused_bytes.unknown ||
	    oom->unused_bytes.value < oom->tried_bytes.value)
		return false;
	flmem_oom_put_bytes("", oom->unused_bytes, held, sizeof(held));
	flmem_oom_put_bytes(", tried to allocate ", oom->tried_bytes, tried, sizeof(tried));
	remark->path = "reserved-but-unallocated";
	flmem_live_put_bytes(remark, oom->unused_bytes);
	snprintf(remark->detail, sizeof(remark->detail), "unallocated %s%s", held, tried);
	return true;
}

const struct flmem_gpu_oom_row flmem_gpu_oom_rows[] = {
	{.rule = {.id = "OOM-GPU",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition =
			  "a log of a job with \"CUDA out of memory\" (or HIP) from PyTorch or "
			  "the CUDA runtime",
		  .message = "the job ran out of GPU memory; reduce the batch size, and run flmem "
			     "recommend --troubleshoot with this log for the next steps",
		  .source = "PyTorch, c10/cuda/CUDACachingAllocator.cpp"},
	 .check = report_gpu_oom},
	{.rule = {.id = "OOM-GPU-FRAGMENTED",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "GPU memory ran out while PyTorch's pool held at least the "
			       "requested size unallocated",
		  .message = "the pool is fragmented; set "
			     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True for the trainer, "
			     "or cuda_empty_cache between rounds",
		  .source = "PyTorch, \"CUDA semantics\", memory management"},
	 .check = report_fragments},
};

const size_t flmem_gpu_oom_row_count = FLMEM_ARRAY_SIZE(flmem_gpu_oom_rows);

int flmem_gpu_oom_rules_run(const struct flmem_gpu_oom *oom, const char *file,
			    struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_finding_place place = {.file = file, .line = oom->line};
	int rc = 0;

	for (size_t i = 0; i < flmem_gpu_oom_row_count && !rc; i++) {
		struct flmem_live_remark remark = {0};

		if (flmem_gpu_oom_rows[i].check(oom, &remark))
			rc = flmem_live_finding_add(&flmem_gpu_oom_rows[i].rule, &place, &remark,
						    found, err);
	}
	return rc;
}
