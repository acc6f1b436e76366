/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/troubles.h"

#include "base/cleanup.h"

struct row {
	struct flmem_trouble_step step;
	flmem_trouble_check *check;
};

/* NVFlare's guide "Memory Management", section "Troubleshooting", in its order. */
static const struct row rows[] = {
	{{FLMEM_TROUBLE_SERVER, "SRV-ARENA", "Check that MALLOC_ARENA_MAX is set"},
	 flmem_trouble_arenas},
	{{FLMEM_TROUBLE_SERVER, "SRV-GC", "Enable server_memory_gc_rounds=5"},
	 flmem_trouble_server_gc},
	{{FLMEM_TROUBLE_SERVER, "SRV-JEMALLOC", "Consider jemalloc (LD_PRELOAD)"},
	 flmem_trouble_jemalloc},
	{{FLMEM_TROUBLE_SERVER, "SRV-MONITOR", "Monitor it"}, flmem_trouble_monitor},
	{{FLMEM_TROUBLE_CLIENT, "CLI-CLEAR-CACHE", "Confirm that flare.send() clears its cache"},
	 flmem_trouble_clear_cache},
	{{FLMEM_TROUBLE_CLIENT, "CLI-ARENA", "Check that MALLOC_ARENA_MAX=2 is set"},
	 flmem_trouble_arenas},
	{{FLMEM_TROUBLE_CLIENT, "CLI-GC", "Start with client_memory_gc_rounds=1"},
	 flmem_trouble_client_gc},
	{{FLMEM_TROUBLE_CLIENT, "CLI-INTERVAL", "Increase it to 2 or 5 only if RSS is stable"},
	 flmem_trouble_interval},
	{{FLMEM_TROUBLE_CLIENT, "CLI-CUDA", "Enable cuda_empty_cache=True for a GPU"},
	 flmem_trouble_cuda},
	{{FLMEM_TROUBLE_CLIENT, "CLI-JEMALLOC", "Consider jemalloc"}, flmem_trouble_jemalloc},
	{{FLMEM_TROUBLE_OOM, "OOM-BATCH", "Reduce the batch size"}, flmem_trouble_batch},
	{{FLMEM_TROUBLE_OOM, "OOM-CLEAR-CACHE", "Confirm that flare.send() clears its cache"},
	 flmem_trouble_clear_cache},
	{{FLMEM_TROUBLE_OOM, "OOM-GC", "Clean up every round (memory_gc_rounds=1)"},
	 flmem_trouble_every_round},
	{{FLMEM_TROUBLE_OOM, "OOM-LEAKS", "Check for leaks in the training code"},
	 flmem_trouble_leaks},
	{{FLMEM_TROUBLE_OOM, "OOM-JEMALLOC", "Use jemalloc with decay settings"},
	 flmem_trouble_decay},
};

const struct flmem_trouble_step *flmem_trouble_step(size_t index)
{
	return index < FLMEM_ARRAY_SIZE(rows) ? &rows[index].step : NULL;
}

void flmem_trouble_answer(size_t index, const struct flmem_trouble_case *one,
			  struct flmem_trouble_answer *ret_answer)
{
	*ret_answer = (struct flmem_trouble_answer){.state = FLMEM_STEP_CANNOT_TELL};
	rows[index].check(one, ret_answer);
}

#define NAME_CASE(prefix, name, text) \
	case prefix##name:            \
		return text;

const char *flmem_trouble_list_name(enum flmem_trouble_list list)
{
#define LIST_CASE(name, text, title) NAME_CASE(FLMEM_TROUBLE_, name, text)
	switch (list) {
		FLMEM_TROUBLE_LISTS(LIST_CASE)
	}
#undef LIST_CASE
	return "";
}

const char *flmem_trouble_list_title(enum flmem_trouble_list list)
{
#define LIST_CASE(name, text, title) NAME_CASE(FLMEM_TROUBLE_, name, title)
	switch (list) {
		FLMEM_TROUBLE_LISTS(LIST_CASE)
	}
#undef LIST_CASE
	return "";
}

const char *flmem_step_state_name(enum flmem_step_state state)
{
#define STATE_CASE(name, text) NAME_CASE(FLMEM_STEP_, name, text)
	switch (state) {
		FLMEM_STEP_STATES(STATE_CASE)
	}
#undef STATE_CASE
	return "";
}
