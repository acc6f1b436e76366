/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/task/TID/syscall */
#include "fuzz.h"
#include "proc/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_task_wait wait;
	char *text = fuzz_text(data, size);

	if (flmem_task_wait_parse(text, &wait) == 1 && wait.number < -1)
		abort();
	free(text);
	return 0;
}
