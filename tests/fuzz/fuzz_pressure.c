/* SPDX-License-Identifier: Apache-2.0 */
/* memory.events, memory.oom_control and memory.pressure of a control group. */
#include "fuzz.h"
#include "proc/limits/pressure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_pressure pressure;
	char *text = fuzz_text(data, size);

	flmem_pressure_init(&pressure, "none");
	flmem_pressure_parse_events(text, &pressure);
	flmem_pressure_parse_stalls(text, &pressure);
	if (!pressure.some_avg10_hundredths.unknown && pressure.some_avg10_hundredths.value > 10099)
		abort();
	free(text);
	return 0;
}
