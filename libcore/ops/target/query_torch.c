/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/query_torch.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "ops/target/target_guard.h"
#include "ops/target/target_hooks.h"
#include "runtimes/cpython_call.h"

/*
 * Names as torch.cuda.memory_stats and torch.cuda.host_memory_stats (from 2.6 on) document them.
 * For page-locked memory, `reserved` is the total and `allocated` the part in use; in later
 * releases these are `allocated` and `active` (HostStats in ATen's CachingHostAllocator.h). If CUDA
 * was not initialised through torch, the query would initialise it.
 */
static const char code_text[] = "import sys\n"
				"t=sys.modules.get('torch')\n"
				"c=getattr(t,'cuda',None)\n"
				"if c is None or not c.is_initialized():print('0 0 0 0 0')\n"
				"else:\n"
				" s=[c.memory_stats(i) for i in range(c.device_count())]\n"
				" n=[sum(d.get(k+'.all.current',0) for d in s) for k in "
				"('reserved_bytes','allocated_bytes','inactive_split_bytes')]\n"
				" h=getattr(c,'host_memory_stats',dict)()\n"
				" p=('reserved_bytes','allocated_bytes','active_bytes')\n"
				" p=p[:2] if 'reserved_bytes.current' in h else p[1:]\n"
				" n+=[h.get(k+'.current','-') for k in p]\n"
				" print(*n)\n";

static const char no_answer[] = "PyTorch did not report it";
static const char not_told[] = "this release of PyTorch does not report it";
static const char refused[] = "its Python interpreter could not be queried";

static void set_all(struct flmem_cuda_report *cuda, const char *reason)
{
	cuda->reserved_bytes = FLMEM_UNKNOWN(reason);
	cuda->allocated_bytes = FLMEM_UNKNOWN(reason);
	cuda->inactive_split_bytes = FLMEM_UNKNOWN(reason);
	cuda->pinned_bytes = FLMEM_UNKNOWN(reason);
	cuda->pinned_active_bytes = FLMEM_UNKNOWN(reason);
}

void flmem_query_torch_parse(const char *answer, struct flmem_cuda_report *cuda)
{
	struct flmem_u64 *const fields[] = {
		&cuda->reserved_bytes, &cuda->allocated_bytes,	   &cuda->inactive_split_bytes,
		&cuda->pinned_bytes,   &cuda->pinned_active_bytes,
	};

	set_all(cuda, no_answer);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(fields); i++) {
		uint64_t value;

		if (*answer == '-') {
			*fields[i] = FLMEM_UNKNOWN(not_told);
			answer++;
		} else if (flmem_text_read_digits(&answer, &value)) {
			*fields[i] = FLMEM_KNOWN(value);
		} else {
			return;
		}
		answer += *answer == ' ';
	}
}

void flmem_query_torch(const struct flmem_view *view, const struct flmem_allocator_list *list,
		       const struct flmem_detect_options *how, struct flmem_cuda_report *cuda,
		       struct flmem_query_report *asked)
{
	FLMEM_AUTO_CPYTHON_RESULT struct flmem_cpython_result result = {0};
	struct flmem_error err = {0};
	struct flmem_guard guard = {0};
	const struct flmem_cpython_call call = {
		.code = {"flmem detect", code_text, sizeof(code_text) - 1},
		.guard = &guard,
		.timeout_us = how->timeout_us,
		.assume_seccomp = how->assume_seccomp,
	};
	int rc;

	flmem_target_guard_fill(view, list, &guard);
	asked->tried = true;
	rc = flmem_target_guard_check(view, list, FLMEM_TARGET_GUARD_QUICK_US, &err);
	if (!rc)
		rc = flmem_target_hooks_check_start(view, list, &call, &asked->stopped_us, &err);
	if (!rc)
		rc = flmem_cpython_call(view, &call, &result, &err);
	asked->thread = result.tid ? result.tid : asked->thread;
	asked->stopped_us += result.stopped_us;
	set_all(cuda, rc ? refused : no_answer);
	if (rc) {
		asked->code = rc;
		snprintf(asked->reason, sizeof(asked->reason), "%s", err.message);
	} else if (result.answer.output && !result.answer.exception) {
		flmem_query_torch_parse(result.answer.output, cuda);
	}
}
