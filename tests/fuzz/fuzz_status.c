/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/status: the name in it is the target's to choose. */
#include "fuzz.h"
#include "proc/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_error err = {0};
	struct flmem_status status;
	char *text = fuzz_text(data, size);

	if (flmem_status_parse(text, &status, &err) == 0) {
		if (!status.state || !memchr(status.name, '\0', sizeof(status.name)))
			abort();
	} else if (!err.code || !err.message[0]) {
		abort();
	}
	free(text);
	return 0;
}
