/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreters, threads and lock of a CPython, as its memory shows them. */
#include <fcntl.h>

#include "memory.h"
#include "runtimes/cpython_state.h"

/*
 * More reads than needed: threads of eight reads each, three times over, and the data that are read
 * once.
 */
#define READS_MAX (3U * (FLMEM_CPYTHON_THREADS_MAX * 8U + 256U * 8U + 64U))

static const int minors[] = {8, 9, 10, 11, 12};

static void check(const struct flmem_cpython_state *state)
{
	if (state->thread_count > FLMEM_CPYTHON_THREADS_MAX || !state->interpreters ||
	    state->interpreters > FLMEM_CPYTHON_INTERPRETERS_MAX)
		abort();
	if (state->gil.holder && !flmem_cpython_state_find(state, state->gil.holder))
		abort();
	flmem_cpython_state_main(state);
}

/* The first byte is the version; the rest is memory that begins with _PyRuntime. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_process process = FLMEM_PROCESS_INIT;
	const struct flmem_view view = {.process = &process};
	struct flmem_cpython_place place = {.runtime = FUZZ_MEMORY_START};
	struct flmem_cpython_state state;
	const char *why;
	unsigned which = size ? data[0] % 6U : 0;

	if (!size)
		return 0;
	data++;
	size--;
	if (which < 5 ? !flmem_cpython_layout_known(3, minors[which], &place.layout)
		      : !flmem_cpython_layout_parse(data, size, &place.layout, &why))
		return 0;
	fuzz_memory_set(data, size, READS_MAX);
	process.pid = getpid();
	process.dirfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (flmem_cpython_state_read(&view, &place, &state, NULL) == 0) {
		check(&state);
		flmem_cpython_state_clear(&state);
	}
	flmem_process_close(&process);
	return 0;
}
