/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/jemalloc/jemalloc_profiling.h"

#include <string.h>

#include "allocators/call_plan.h"
#include "base/cleanup.h"

/*
 * Names and sizes as in src/ctl.c of 5.x; the hook exists from 5.3 on. An unknown name leaves its
 * place unwritten.
 */
#define PROFILING_NAMES(X)                     \
	X(BUILT, "config.prof", sizeof(bool))  \
	X(PREPARED, "opt.prof", sizeof(bool))  \
	X(ACTIVE, "prof.active", sizeof(bool)) \
	X(DUMP, "experimental.hooks.prof_dump", sizeof(void *))

enum profiling_name {
#define PROFILING_ENUM(name, text, size) PROFILING_##name,
	PROFILING_NAMES(PROFILING_ENUM)
#undef PROFILING_ENUM
	PROFILING_COUNT
};

static const struct {
	const char *text;
	uint64_t size;
} profiling_names[] = {
#define PROFILING_ROW(name, text, size) {text, size},
	PROFILING_NAMES(PROFILING_ROW)
#undef PROFILING_ROW
};

int flmem_jemalloc_plan_profiling(const struct flmem_allocator *found, struct flmem_chain *chain,
				  uint64_t *ret_answers, struct flmem_error *err)
{
	uint64_t function, answers;
	int rc = flmem_call_plan_function(found, "mallctl", &function, err);

	if (rc)
		return rc;
	answers = flmem_call_plan_answers(chain, PROFILING_COUNT);
	for (size_t i = 0; i < PROFILING_COUNT; i++) {
		struct flmem_call *call = flmem_chain_add(chain, "mallctl", function);

		call->args[0] = flmem_chain_put_string(chain, profiling_names[i].text);
		call->args[1] = answers + i * sizeof(uint64_t);
		call->args[2] = flmem_chain_put(chain, &profiling_names[i].size, sizeof(uint64_t));
		call->data_args = 7U;
	}
	*ret_answers = answers;
	return 0;
}

/* mallctl() writes only the first byte of a bool. */
static bool is_set(const unsigned char *answers, enum profiling_name name)
{
	struct flmem_u64 answer = flmem_call_plan_answer(answers, name, "");

	return !answer.unknown && (answer.value & UINT8_MAX) != 0;
}

static bool has_dump_hook(const unsigned char *answers)
{
	struct flmem_u64 hook = flmem_call_plan_answer(answers, PROFILING_DUMP, "");

	return !hook.unknown && hook.value;
}

int flmem_jemalloc_take_profiling(const struct flmem_view *view, const unsigned char *answers,
				  struct flmem_jemalloc_profiling *ret_state,
				  struct flmem_error *err)
{
	const struct flmem_jemalloc_profiling state = {
		.built = is_set(answers, PROFILING_BUILT),
		.prepared = is_set(answers, PROFILING_PREPARED),
		.active = is_set(answers, PROFILING_ACTIVE),
		.has_dump_hook = has_dump_hook(answers),
	};
	int pid = (int)view->process->pid;

	if (flmem_call_plan_answer(answers, PROFILING_BUILT, "").unknown)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the jemalloc of process %d does not report whether it can "
				       "profile (config.prof)",
				       pid);
	if (!state.built)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the jemalloc of process %d is built without profiling "
				       "(--enable-prof); Debian's libjemalloc2 has it",
				       pid);
	if (!state.prepared)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d was started without profiling by its jemalloc; "
				       "start it with MALLOC_CONF=prof:true,prof_active:false",
				       pid);
	if (flmem_call_plan_answer(answers, PROFILING_ACTIVE, "").unknown)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the jemalloc of process %d has no prof.active", pid);
	*ret_state = state;
	return 0;
}

int flmem_jemalloc_plan_active(const struct flmem_allocator *found, bool active,
			       struct flmem_chain *chain, struct flmem_error *err)
{
	struct flmem_call *call;
	uint64_t function;
	int rc = flmem_call_plan_function(found, "mallctl", &function, err);

	if (rc)
		return rc;
	call = flmem_chain_add(chain, "prof.active", function);
	call->args[0] = flmem_chain_put_string(chain, "prof.active");
	call->args[3] = flmem_chain_put(chain, &active, sizeof(active));
	call->args[4] = sizeof(active);
	call->data_args = 1U | 1U << 3;
	return 0;
}

int flmem_jemalloc_plan_dump(const struct flmem_allocator *found, const char *path,
			     unsigned char *area, size_t size, struct flmem_chain *chain,
			     struct flmem_error *err)
{
	const size_t pointer = sizeof(uint64_t), length = strlen(path) + 1;
	struct flmem_call *call;
	uint64_t function;
	int rc = flmem_call_plan_function(found, "mallctl", &function, err);

	if (rc)
		return rc;
	if (length > size - pointer)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "the path of the dump is too long");
	/* The new value of "prof.dump" is a pointer to the path. */
	memcpy(area + pointer, path, length);
	chain->area = (struct flmem_chain_area){
		.bytes = area,
		.length = pointer + length,
		.writes_pointer = true,
		.pointer_to = pointer,
	};
	call = flmem_chain_add(chain, "prof.dump", function);
	call->args[0] = flmem_chain_put_string(chain, "prof.dump");
	call->data_args = 1U;
	call->args[3] = 0;
	call->area_args = 1U << 3;
	call->args[4] = pointer;
	return 0;
}
