/* SPDX-License-Identifier: Apache-2.0 */
/* Logs that report kills because memory ran out, and GPU memory that ran out. */
#include "fuzz.h"
#include "proc/limits/gpu_oom_log.h"
#include "proc/limits/oom_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct flmem_gpu_oom gpu;
	struct flmem_oom_log log;

	if (flmem_oom_log_read(text, &log)) {
		const struct flmem_oom_kill *kill = &log.last;

		if (!flmem_oom_log_is_likely(text) || kill->pid <= 0 || !log.kills ||
		    strlen(kill->name) >= sizeof(kill->name) ||
		    strlen(kill->group) >= sizeof(kill->group) ||
		    (!kill->share_percent.unknown && kill->share_percent.value > 100))
			abort();
	}
	if (flmem_gpu_oom_log_read(text, &gpu) && (!gpu.count || !gpu.line))
		abort();
	free(text);
	return 0;
}
