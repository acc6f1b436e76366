/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether each step of the lists is done, by the settings of the process and its job, and
 * by the trend of a recording.
 */
#include "frameworks/nvflare/troubleshooting/nvflare_troubleshooting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "frameworks/framework.h"
#include "frameworks/nvflare/troubleshooting/nvflare_troubleshooting_answers.h"
#include "rules/live_rules.h"
#include "rules/oom_rules.h"
#include "rules/trend_rules.h"

static const char look_at_it[] = "flmem detect --pid PID, while it runs";
static const char no_environment[] =
	"neither a recording nor a kernel log contains the environment";

static const struct flmem_allocator_report *
serving_allocator(const struct flmem_troubleshoot_case *one,
		  struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_allocator_report *known;

	if (!one->process) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s", no_environment);
		flmem_answer_set_next(answer, "%s", look_at_it);
		return NULL;
	}
	known = flmem_live_malloc(one->process);
	if (!known || known->kind == FLMEM_ALLOCATOR_UNKNOWN) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
				       "its allocator is not known: %s",
				       one->process->allocators_unknown
					       ? one->process->allocators_unknown
					       : "flmem does not recognise its allocator");
		return NULL;
	}
	return known;
}

static void report_arenas(const struct flmem_process_report *process,
			  struct flmem_troubleshoot_answer *answer)
{
	const char *value = flmem_live_setting(process, "MALLOC_ARENA_MAX");
	const char *tunables = flmem_live_setting(process, "GLIBC_TUNABLES");
	char count[48] = "";
	uint64_t limit;

	if (!process->heap.arenas.unknown)
		snprintf(count, sizeof(count), "; %" PRIu64 " now", process->heap.arenas.value);
	if (flmem_glibc_arena_max_find(NULL, tunables, &limit))
		flmem_answer_set_state(answer, FLMEM_STEP_DONE, "GLIBC_TUNABLES=%.80s%s", tunables,
				       count);
	else if (flmem_glibc_arena_max_find(value, tunables, &limit))
		flmem_answer_set_state(answer, FLMEM_STEP_DONE, "MALLOC_ARENA_MAX=%.40s%s", value,
				       count);
	else if (flmem_glibc_arena_max_find(value, NULL, &limit))
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "GLIBC_TUNABLES='%.80s' overrides MALLOC_ARENA_MAX and sets "
				       "no limit%s",
				       tunables, count);
	else if (value)
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "MALLOC_ARENA_MAX='%.40s' sets no limit%s", value, count);
	else
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE, "MALLOC_ARENA_MAX is not set%s",
				       count);
}

void flmem_troubleshoot_arenas(const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_finding *bad = FLMEM_ANSWER_FINDING(
		one, "LIVE-ARENA-EXCEEDED", "LIVE-ARENA-CLIENT-4", "LIVE-ARENA-HIGH",
		"NVF-ARENA-UNSET", "ENV-ARENA-IGNORED", "NVF-ARENA-CLIENT-4", "NVF-ARENA-HIGH");
	const struct flmem_allocator_report *known = serving_allocator(one, answer);

	if (known && known->kind != FLMEM_ALLOCATOR_GLIBC) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_NEEDED,
				       "malloc is served by %s, which does not read it",
				       flmem_allocator_name(known->kind));
		return;
	}
	if (known && one->process->settings_unknown)
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "its environment: %s",
				       one->process->settings_unknown);
	else if (known)
		report_arenas(one->process, answer);
	if (bad && (!known || answer->state == FLMEM_STEP_DONE))
		flmem_answer_report(answer, bad);
	if (answer->state == FLMEM_STEP_NOT_DONE)
		flmem_answer_advise_start(one, answer, "");
}

void flmem_troubleshoot_clear_cache(const struct flmem_troubleshoot_case *one,
				    struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_finding *bad =
		FLMEM_ANSWER_FINDING(one, "NVF-CLEAR-CACHE-FALSE", "NVF-LIGHTNING-KEEPS-PARAMS");
	struct flmem_u64 known = one->found->clear_cache;

	if (flmem_answer_is_foreign(one, answer, "clear_cache"))
		return;
	if (bad) {
		flmem_answer_report(answer, bad);
	} else if (known.unknown) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s", known.unknown);
		flmem_answer_set_next(answer, "%s", FLMEM_ANSWER_NAME_JOB);
	} else if (known.value) {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "no call of send() in the job's Python files disables it");
	} else { /* the finding is suppressed */
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "a call of send() has clear_cache False");
	}
}

/* Whether the process uses a GPU, or the reason why that is not known. */
static struct flmem_u64 gpu_in_use(const struct flmem_troubleshoot_case *one)
{
	if (one->process)
		return one->process->cuda.used_bytes;
	return one->recorded ? one->recorded->gpu_bytes : FLMEM_UNKNOWN("no process was given");
}

/*
 * Whether the process is the parent of NVFlare's client, which launches jobs and never trains,
 * whatever --role is.
 */
static bool is_parent(const struct flmem_troubleshoot_case *one)
{
	enum flmem_role own = one->process    ? one->process->role
			      : one->recorded ? one->recorded->process.role
					      : FLMEM_ROLE_NONE;

	return own == FLMEM_ROLE_CLIENT && one->framework == FLMEM_FRAMEWORK_NVFLARE;
}

void flmem_troubleshoot_cuda(const struct flmem_troubleshoot_case *one,
			     struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_finding *bad =
		FLMEM_ANSWER_FINDING(one, "NVF-CUDA-NOOP", "NVF-CUDA-MISSING");
	struct flmem_u64 known = one->found->cuda_empty_cache, used = gpu_in_use(one);
	char shown[FLMEM_TEXT_BYTES_MAX];

	if (flmem_answer_is_foreign(one, answer, "cuda_empty_cache"))
		return;
	if (bad) {
		flmem_answer_report(answer, bad);
	} else if (!known.unknown && known.value) {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "cuda_empty_cache is true in the job");
	} else if (is_parent(one)) {
		flmem_answer_set_state(
			answer, FLMEM_STEP_CANNOT_TELL,
			"the client's parent process never trains; its jobs may use a GPU");
		flmem_answer_set_next(
			answer, "name the job's process: flmem recommend --troubleshoot --tree %d",
			(int)one->pid);
	} else if (!used.unknown && !used.value) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_NEEDED, "it uses no GPU");
	} else if (!known.unknown && !used.unknown) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "it holds %s of GPU memory, and the job does not set it",
				       flmem_text_bytes(used.value, shown, sizeof(shown)));
		flmem_answer_set_next(answer,
				      "set cuda_empty_cache to true in the client's executor");
	} else {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s",
				       known.unknown ? known.unknown : used.unknown);
		flmem_answer_set_next(answer, "%s",
				      known.unknown ? FLMEM_ANSWER_NAME_JOB : look_at_it);
	}
}

/* Whether jemalloc serves malloc. Returns false if the answer is already set. */
static bool has_jemalloc(const struct flmem_troubleshoot_case *one,
			 struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_finding *bad = FLMEM_ANSWER_FINDING(one, "LIVE-JEMALLOC-NOT-LOADED");
	const struct flmem_allocator_report *known = serving_allocator(one, answer);

	if (!known)
		return false;
	if (known->kind == FLMEM_ALLOCATOR_JEMALLOC)
		return true;
	flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE, "malloc is served by %s%s",
			       flmem_allocator_name(known->kind),
			       bad ? ", although jemalloc was requested" : "");
	flmem_answer_advise_start(one, answer, " --jemalloc");
	return false;
}

void flmem_troubleshoot_jemalloc(const struct flmem_troubleshoot_case *one,
				 struct flmem_troubleshoot_answer *answer)
{
	if (has_jemalloc(one, answer))
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "malloc is served by jemalloc %.40s",
				       flmem_live_malloc(one->process)->version
					       ? flmem_live_malloc(one->process)->version
					       : "");
}

void flmem_troubleshoot_decay(const struct flmem_troubleshoot_case *one,
			      struct flmem_troubleshoot_answer *answer)
{
	const char *value;

	if (one->gpu) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_NEEDED,
				       "GPU memory ran out, which jemalloc does not serve");
		return;
	}
	if (!has_jemalloc(one, answer))
		return;
	value = flmem_live_setting(one->process, "MALLOC_CONF");
	if (one->process->settings_unknown) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "its environment: %s",
				       one->process->settings_unknown);
	} else if (FLMEM_ANSWER_FINDING(one, "LIVE-JEMALLOC-DECAY")) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "jemalloc is in use, MALLOC_CONF is %.80s",
				       value ? value : "not set");
		flmem_answer_advise_start(one, answer, " --jemalloc");
	} else {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "jemalloc is in use with MALLOC_CONF=%.100s",
				       value ? value : "");
	}
}

static void report_recorded(const struct flmem_troubleshoot_case *one, enum flmem_step_state state,
			    struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_watch_result *recorded = one->recorded;
	char span[FLMEM_TEXT_BYTES_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	flmem_answer_set_state(answer, state, "recorded for %s, %s: %s, %s",
			       flmem_text_span(recorded->watched_us / 1000000, span, sizeof(span)),
			       flmem_text_counted(recorded->rounds, "round", count, sizeof(count)),
			       flmem_trend_verdict_name(recorded->trend.verdict),
			       recorded->trend.reason);
}

void flmem_troubleshoot_monitor(const struct flmem_troubleshoot_case *one,
				struct flmem_troubleshoot_answer *answer)
{
	if (one->recorded) {
		report_recorded(one, FLMEM_STEP_DONE, answer);
		return;
	}
	flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "not known whether a monitor runs");
	flmem_answer_advise_watch(one, answer, "");
}

void flmem_troubleshoot_leaks(const struct flmem_troubleshoot_case *one,
			      struct flmem_troubleshoot_answer *answer)
{
	static const char why[] =
		", which distinguishes a leak from memory retained by the allocator";

	if (!one->recorded) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
				       "a recording is needed to check growth per round");
		flmem_answer_advise_watch(one, answer, why);
	} else if (one->recorded->trend.verdict == FLMEM_TREND_CLIMBING) {
		report_recorded(one, FLMEM_STEP_NOT_DONE, answer);
		flmem_answer_set_next(answer,
				      "check what grows with each round: lists of results, graphs "
				      "retained by losses that are not detached, caches");
	} else if (one->recorded->trend.verdict == FLMEM_TREND_TOO_EARLY ||
		   one->recorded->trend.verdict == FLMEM_TREND_STEPPED) {
		report_recorded(one, FLMEM_STEP_CANNOT_TELL, answer);
		flmem_answer_advise_watch(one, answer, why);
	} else {
		report_recorded(one, FLMEM_STEP_DONE, answer);
	}
}

static void report_killed(const struct flmem_oom_kill *kill,
			  struct flmem_troubleshoot_answer *answer)
{
	char anon[64], shmem[64], limit[64], share[64] = "";

	flmem_oom_put_bytes("it held ", kill->anon_bytes, anon, sizeof(anon));
	flmem_oom_put_bytes(" anonymous and ", kill->shmem_bytes, shmem, sizeof(shmem));
	if (kill->of_group)
		flmem_oom_put_bytes(" shared, limit ", kill->limit_bytes, limit, sizeof(limit));
	else
		snprintf(limit, sizeof(limit), " shared, and the host was out of memory");
	if (!kill->share_percent.unknown && kill->tasks.value > 1)
		snprintf(share, sizeof(share), ", %" PRIu64 " %% of what %" PRIu64 " tasks held",
			 kill->share_percent.value, kill->tasks.value);
	flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
			       "the training code sets the batch size; %s%s%s%s", anon, shmem,
			       limit, share);
}

static void report_gpu_failure(const struct flmem_gpu_oom *gpu,
			       struct flmem_troubleshoot_answer *answer)
{
	char tried[64], left[64], total[64];

	flmem_oom_put_bytes("it tried to allocate ", gpu->tried_bytes, tried, sizeof(tried));
	flmem_oom_put_bytes(" of GPU memory, free ", gpu->free_bytes, left, sizeof(left));
	flmem_oom_put_bytes(" of ", gpu->total_bytes, total, sizeof(total));
	flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
			       "the training code sets the batch size; %s%s%s", tried, left, total);
}

void flmem_troubleshoot_batch(const struct flmem_troubleshoot_case *one,
			      struct flmem_troubleshoot_answer *answer)
{
	char held[64] = "", limit[64] = "";

	if (one->process) {
		flmem_oom_put_bytes("; anonymous memory ", one->process->memory.anon_bytes, held,
				    sizeof(held));
		flmem_oom_put_bytes(", limit ", one->process->limit.cgroup_max_bytes, limit,
				    sizeof(limit));
	} else if (one->recorded) {
		flmem_oom_put_bytes("; peak ", one->recorded->peak_bytes, held, sizeof(held));
		flmem_oom_put_bytes(", limit ", one->recorded->limit_bytes, limit, sizeof(limit));
	}
	if (one->gpu)
		report_gpu_failure(one->gpu, answer);
	else if (one->kill)
		report_killed(one->kill, answer);
	else
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
				       "the training code sets the batch size%s%s", held, limit);
	if (flmem_role_is_server(one->role))
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_NEEDED, "a server does not train%s%s",
				       held, limit);
	else
		flmem_answer_set_next(answer, "halve it, and compare the peaks of two recordings");
}
