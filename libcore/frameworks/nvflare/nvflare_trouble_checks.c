/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether each step of the lists is done, by the settings of process and job and by the
 * trend.
 */
#include "frameworks/nvflare/nvflare_troubles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "frameworks/framework.h"
#include "frameworks/nvflare/nvflare_trouble_answers.h"
#include "rules/live_rules.h"
#include "rules/trend_rules.h"

static const char name_job[] = "also pass the job's folder, with its Python files";
static const char look_at_it[] = "flmem detect --pid PID, while it runs";
static const char no_environment[] =
	"neither a recording nor a kernel log contains the environment";

#define FINDING(one, ...) flmem_answer_find((one), (const char *const[]){__VA_ARGS__, NULL})

static bool is_watchable_instead(const struct flmem_trouble_case *one,
				 struct flmem_trouble_answer *answer)
{
	if (!flmem_answer_is_foreign(one, answer, "memory_gc_rounds"))
		return false;
	if (one->process)
		flmem_answer_set_next(answer, "flmem watch --pid %d --auto trims it from outside",
				      (int)one->pid);
	return true;
}

static const struct flmem_allocator_report *serving_allocator(const struct flmem_trouble_case *one,
							      struct flmem_trouble_answer *answer)
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
			  struct flmem_trouble_answer *answer)
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
	else if (flmem_glibc_arena_max_find(value, NULL, &limit))
		flmem_answer_set_state(answer, FLMEM_STEP_DONE, "MALLOC_ARENA_MAX=%.40s%s", value,
				       count);
	else if (value)
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "MALLOC_ARENA_MAX='%.40s' sets no limit%s", value, count);
	else
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE, "MALLOC_ARENA_MAX is not set%s",
				       count);
}

void flmem_trouble_arenas(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad = FINDING(
		one, "LIVE-ARENA-EXCEEDED", "LIVE-ARENA-CLIENT-4", "LIVE-ARENA-HIGH",
		"NVF-ARENA-UNSET", "NVF-ARENA-IGNORED", "NVF-ARENA-CLIENT-4", "NVF-ARENA-HIGH");
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

static const char in_job[] = "in the job", in_environment[] = "in its environment";

#define GUIDE_MAX 5U /* the largest interval that the guide names */

static void report_rare(struct flmem_trouble_answer *answer, uint64_t rounds, const char *where,
			unsigned then)
{
	flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
			       "memory_gc_rounds is %" PRIu64 " %s, above the guide's %u", rounds,
			       where, GUIDE_MAX);
	flmem_answer_set_next(answer, "set it to %u", then);
}

/* `wanted` is the guide's value. */
static void report_interval(struct flmem_trouble_answer *answer, struct flmem_u64 rounds,
			    const char *where, unsigned wanted, const struct flmem_finding *bad)
{
	if (bad) {
		flmem_answer_report(answer, bad);
	} else if (rounds.unknown) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s", rounds.unknown);
		flmem_answer_set_next(answer, "%s", name_job);
	} else if (!rounds.value) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE, "memory_gc_rounds is 0 %s",
				       where);
		flmem_answer_set_next(answer, "%s",
				      where == in_job
					      ? "flmem recommend --fix on the job"
					      : "start it without NVFLARE_CLIENT_MEMORY_GC_ROUNDS");
	} else if (rounds.value > GUIDE_MAX) {
		report_rare(answer, rounds.value, where, wanted);
	} else {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "memory_gc_rounds is %" PRIu64 " %s", rounds.value, where);
	}
}

void flmem_trouble_server_gc(const struct flmem_trouble_case *one,
			     struct flmem_trouble_answer *answer)
{
	if (!is_watchable_instead(one, answer))
		report_interval(answer, one->found->server_gc_rounds, in_job, 5,
				FINDING(one, "NVF-SRV-GC-OFF", "NVF-SRV-GC-IGNORED"));
}

static struct flmem_u64 client_rounds(const struct flmem_trouble_case *one)
{
	struct flmem_u64 job = one->found->client_gc_rounds;

	return one->process ? flmem_gc_rounds_of(one->process, job) : job;
}

/*
 * A recorded client whose memory rises, or whose group was short of memory, at an interval above 1.
 */
static const struct flmem_finding *find_interval_advice(const struct flmem_trouble_case *one,
							bool back)
{
	const struct flmem_finding *f = FINDING(one, "NVF-CLI-GC-TUNE");

	return f && f->proposed && (strcmp(f->proposed, "1") == 0) == back ? f : NULL;
}

void flmem_trouble_client_gc(const struct flmem_trouble_case *one,
			     struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad = FINDING(one, "NVF-CLI-GC-OFF", "NVF-CUDA-NOOP");
	struct flmem_u64 nothing = FLMEM_UNKNOWN(""), own = nothing;

	/* An environment that overrides the job also overrides the findings about it. */
	if (one->process)
		own = flmem_gc_rounds_of(one->process, nothing);
	if (!own.unknown)
		bad = NULL;
	if (!is_watchable_instead(one, answer))
		report_interval(answer, client_rounds(one), own.unknown ? in_job : in_environment,
				1, bad ? bad : find_interval_advice(one, true));
}

static const char *trend_word(const struct flmem_watch_result *recorded)
{
	return flmem_trend_verdict_name(recorded->trend.verdict);
}

static bool is_unstable(const struct flmem_watch_result *recorded)
{
	return recorded->trend.verdict == FLMEM_TREND_CLIMBING ||
	       flmem_recorded_had_pressure(recorded);
}

void flmem_trouble_interval(const struct flmem_trouble_case *one,
			    struct flmem_trouble_answer *answer)
{
	const struct flmem_watch_result *recorded = one->recorded;
	const struct flmem_finding *more = find_interval_advice(one, false);
	struct flmem_u64 rounds = client_rounds(one);
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (is_watchable_instead(one, answer))
		return;
	if (more) {
		flmem_answer_report(answer, more);
	} else if (!rounds.unknown && rounds.value > 1 && recorded && is_unstable(recorded)) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "RSS is not stable at memory_gc_rounds %" PRIu64 ": %s",
				       rounds.value, trend_word(recorded));
		flmem_answer_set_next(answer, "set it back to 1");
	} else if (!rounds.unknown && rounds.value > GUIDE_MAX) {
		report_rare(answer, rounds.value, "now", 1);
	} else if (!rounds.unknown && rounds.value == GUIDE_MAX) {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE, "memory_gc_rounds is %" PRIu64,
				       rounds.value);
	} else if (!recorded) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
				       "a recording is needed to check whether RSS is stable");
		flmem_answer_advise_watch(one, answer, "");
	} else if (recorded->trend.verdict == FLMEM_TREND_TOO_EARLY) {
		flmem_answer_set_state(
			answer, FLMEM_STEP_CANNOT_TELL, "recorded for %s: %s",
			flmem_text_counted(recorded->rounds, "round", count, sizeof(count)),
			recorded->trend.reason);
		flmem_answer_advise_watch(one, answer, "");
	} else if (recorded->trend.verdict != FLMEM_TREND_FLAT ||
		   flmem_recorded_had_pressure(recorded)) {
		flmem_answer_set_state(
			answer, FLMEM_STEP_NOT_NEEDED, "RSS is not stable: %s%s",
			trend_word(recorded),
			flmem_recorded_had_pressure(recorded) ? ", and memory was short" : "");
	} else {
		flmem_answer_set_state(
			answer, FLMEM_STEP_CANNOT_TELL, "RSS is flat; memory_gc_rounds: %s",
			rounds.unknown ? rounds.unknown : "too few recorded rounds to raise it");
	}
}

/* For the known sides: the one of the process, or both if its role is unknown. */
void flmem_trouble_every_round(const struct flmem_trouble_case *one,
			       struct flmem_trouble_answer *answer)
{
	struct flmem_u64 server = one->found->server_gc_rounds, client = client_rounds(one);
	bool both = !one->role;
	bool ask_server = (both || flmem_role_is_server(one->role)) && !server.unknown;
	bool ask_client = (both || !flmem_role_is_server(one->role)) && !client.unknown;

	if (is_watchable_instead(one, answer))
		return;
	if ((ask_server && server.value != 1) || (ask_client && client.value != 1)) {
		bool at_server = ask_server && server.value != 1;

		flmem_answer_set_state(
			answer, FLMEM_STEP_NOT_DONE, "memory_gc_rounds is %" PRIu64 " for the %s",
			at_server ? server.value : client.value, at_server ? "server" : "clients");
		flmem_answer_set_next(answer, "set it to 1 until memory is stable");
	} else if (ask_server || ask_client) {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE, "memory_gc_rounds is 1 in the job");
	} else {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s",
				       !both && flmem_role_is_server(one->role) ? server.unknown
										: client.unknown);
		flmem_answer_set_next(answer, "%s", name_job);
	}
}

void flmem_trouble_clear_cache(const struct flmem_trouble_case *one,
			       struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad =
		FINDING(one, "NVF-CLEAR-CACHE-FALSE", "NVF-LIGHTNING-KEEPS-PARAMS");
	struct flmem_u64 known = one->found->clear_cache;

	if (flmem_answer_is_foreign(one, answer, "clear_cache"))
		return;
	if (bad) {
		flmem_answer_report(answer, bad);
	} else if (known.unknown) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s", known.unknown);
		flmem_answer_set_next(answer, "%s", name_job);
	} else if (known.value) {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "no call of send() in the job's Python files disables it");
	} else { /* the finding is suppressed */
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "a call of send() has clear_cache False");
	}
}

/* Whether it uses a GPU, or the reason why that is not known. */
static struct flmem_u64 gpu_in_use(const struct flmem_trouble_case *one)
{
	if (one->process)
		return one->process->cuda.used_bytes;
	return one->recorded ? one->recorded->gpu_bytes : FLMEM_UNKNOWN("no process was given");
}

/* The parent of NVFlare's client launches jobs and never trains; --role does not change that. */
static bool is_parent(const struct flmem_trouble_case *one)
{
	enum flmem_role own = one->process    ? one->process->role
			      : one->recorded ? one->recorded->process.role
					      : FLMEM_ROLE_NONE;

	return own == FLMEM_ROLE_CLIENT && one->framework == FLMEM_FRAMEWORK_NVFLARE;
}

void flmem_trouble_cuda(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad = FINDING(one, "NVF-CUDA-NOOP", "NVF-CUDA-MISSING");
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
		flmem_answer_set_next(answer, "%s", known.unknown ? name_job : look_at_it);
	}
}

/* Whether jemalloc serves malloc; false when the answer is already set. */
static bool has_jemalloc(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad = FINDING(one, "LIVE-JEMALLOC-NOT-LOADED");
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

void flmem_trouble_jemalloc(const struct flmem_trouble_case *one,
			    struct flmem_trouble_answer *answer)
{
	if (has_jemalloc(one, answer))
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "malloc is served by jemalloc %.40s",
				       flmem_live_malloc(one->process)->version
					       ? flmem_live_malloc(one->process)->version
					       : "");
}

void flmem_trouble_decay(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
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
	} else if (FINDING(one, "LIVE-JEMALLOC-DECAY")) {
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

static void report_recorded(const struct flmem_trouble_case *one, enum flmem_step_state state,
			    struct flmem_trouble_answer *answer)
{
	const struct flmem_watch_result *recorded = one->recorded;
	char span[FLMEM_TEXT_BYTES_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	flmem_answer_set_state(answer, state, "recorded for %s, %s: %s, %s",
			       flmem_text_span(recorded->watched_us / 1000000, span, sizeof(span)),
			       flmem_text_counted(recorded->rounds, "round", count, sizeof(count)),
			       trend_word(recorded), recorded->trend.reason);
}

void flmem_trouble_monitor(const struct flmem_trouble_case *one,
			   struct flmem_trouble_answer *answer)
{
	if (one->recorded) {
		report_recorded(one, FLMEM_STEP_DONE, answer);
		return;
	}
	flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "not known whether a monitor runs");
	flmem_answer_advise_watch(one, answer, "");
}

void flmem_trouble_leaks(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
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

static void put_bytes(char *out, size_t size, const char *label, struct flmem_u64 bytes)
{
	char shown[FLMEM_TEXT_BYTES_MAX];

	snprintf(out, size, "%s%s", label,
		 bytes.unknown ? "unknown" : flmem_text_bytes(bytes.value, shown, sizeof(shown)));
}

static void report_killed(const struct flmem_oom_kill *kill, struct flmem_trouble_answer *answer)
{
	char anon[64], shmem[64], limit[64], share[64] = "";

	put_bytes(anon, sizeof(anon), "it held ", kill->anon_bytes);
	put_bytes(shmem, sizeof(shmem), " anonymous and ", kill->shmem_bytes);
	if (kill->of_group)
		put_bytes(limit, sizeof(limit), " shared, limit ", kill->limit_bytes);
	else
		snprintf(limit, sizeof(limit), " shared, and the host was out of memory");
	if (!kill->share_percent.unknown && kill->tasks.value > 1)
		snprintf(share, sizeof(share), ", %" PRIu64 " %% of what %" PRIu64 " tasks held",
			 kill->share_percent.value, kill->tasks.value);
	flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
			       "the training code sets the batch size; %s%s%s%s", anon, shmem,
			       limit, share);
}

static void report_gpu_failure(const struct flmem_gpu_oom *gpu, struct flmem_trouble_answer *answer)
{
	char tried[64], left[64], total[64];

	put_bytes(tried, sizeof(tried), "it tried to allocate ", gpu->tried_bytes);
	put_bytes(left, sizeof(left), " of GPU memory, free ", gpu->free_bytes);
	put_bytes(total, sizeof(total), " of ", gpu->total_bytes);
	flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
			       "the training code sets the batch size; %s%s%s", tried, left, total);
}

void flmem_trouble_batch(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	char held[64] = "", limit[64] = "";

	if (one->process) {
		put_bytes(held, sizeof(held), "; anonymous memory ",
			  one->process->memory.anon_bytes);
		put_bytes(limit, sizeof(limit), ", limit ", one->process->limit.cgroup_max_bytes);
	} else if (one->recorded) {
		put_bytes(held, sizeof(held), "; peak ", one->recorded->peak_bytes);
		put_bytes(limit, sizeof(limit), ", limit ", one->recorded->limit_bytes);
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
