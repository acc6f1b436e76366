/* SPDX-License-Identifier: Apache-2.0 */
/* How far each step of the lists is done: settings of the process, of the job, and its trend. */
#include "frameworks/troubles.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "rules/live_rules.h"
#include "rules/trend_rules.h"

static const char name_job[] = "name the job's folder, with its Python, beside it";
static const char look_at_it[] = "flmem detect --pid PID, while it runs";
static const char no_environment[] = "neither its recording nor its end tells the environment";

__attribute__((format(printf, 3, 4))) static void
say(struct flmem_trouble_answer *answer, enum flmem_step_state state, const char *format, ...)
{
	va_list arguments;

	answer->state = state;
	va_start(arguments, format);
	vsnprintf(answer->evidence, sizeof(answer->evidence), format, arguments);
	va_end(arguments);
}

__attribute__((format(printf, 2, 3))) static void advise(struct flmem_trouble_answer *answer,
							 const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer->next, sizeof(answer->next), format, arguments);
	va_end(arguments);
}

/* A file's finding, or one about this very process; a recording tells of several. */
static bool is_own(const struct flmem_trouble_case *one, const struct flmem_finding *f)
{
	char owner[32];
	int length;

	if (f->line)
		return true;
	if (!one->place || strcmp(f->file, one->place) != 0)
		return false;
	if (one->process)
		return true;
	length = snprintf(owner, sizeof(owner), "process %d", (int)one->pid);
	return strncmp(f->path, owner, (size_t)length) == 0 && strchr(" :", f->path[length]);
}

/* A finding of one of the rules: those about processes for this one only. NULL: none. */
static const struct flmem_finding *finding(const struct flmem_trouble_case *one,
					   const char *const *rules)
{
	for (const char *const *rule = rules; *rule; rule++) {
		for (size_t i = 0; i < one->found->finding_count; i++) {
			const struct flmem_finding *f = &one->found->findings[i];

			if (strcmp(f->rule->id, *rule) == 0 && is_own(one, f))
				return f;
		}
	}
	return NULL;
}

#define FINDING(one, ...) finding((one), (const char *const[]){__VA_ARGS__, NULL})

/* What it is now, where, and the rule; of findings about the process itself without the where. */
static void say_finding(struct flmem_trouble_answer *answer, const struct flmem_finding *f)
{
	char where[128] = "";

	if (f->line)
		snprintf(where, sizeof(where), "%.100s:%u: ", f->file, f->line);
	say(answer, FLMEM_STEP_NOT_DONE, "%s%.80s is %.60s (%s)", where, f->path,
	    f->current ? f->current : "absent", f->rule->id);
	if (f->proposed)
		advise(answer, "set it to %.60s%s", f->proposed,
		       f->fixable ? "; flmem recommend --fix on the job writes it" : "");
}

static bool is_server(const struct flmem_trouble_case *one)
{
	return flmem_role_is_server(one->role);
}

/* NULL where it is not known which of the three it is. */
static const char *start_role(const struct flmem_trouble_case *one)
{
	if (!one->role)
		return NULL;
	if (one->role == FLMEM_ROLE_TRAINER)
		return "trainer";
	return is_server(one) ? "server" : "client";
}

static void advise_start(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer,
			 const char *more)
{
	bool foreign = one->framework && one->framework != FLMEM_FRAMEWORK_NVFLARE;

	advise(answer, "flmem start --role %s%s%s%s -- COMMAND",
	       start_role(one) ? start_role(one) : "client", foreign ? " --framework " : "",
	       foreign ? flmem_framework_name(one->framework) : "", more);
}

static void advise_watch(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer,
			 const char *why)
{
	if (one->process)
		advise(answer, "flmem watch --pid %d --record run.rec%s", (int)one->pid, why);
	else
		advise(answer, "flmem watch --all --role %s --record run.rec%s",
		       is_server(one) ? "server" : "client", why);
}

/* Only NVFlare has the settings of its guide. */
static bool is_foreign(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer,
		       const char *setting)
{
	if (!one->framework || one->framework == FLMEM_FRAMEWORK_NVFLARE)
		return false;
	say(answer, FLMEM_STEP_NOT_NEEDED, "%s is NVFlare's, and this is %s", setting,
	    flmem_framework_name(one->framework));
	return true;
}

static bool is_watchable_instead(const struct flmem_trouble_case *one,
				 struct flmem_trouble_answer *answer)
{
	if (!is_foreign(one, answer, "memory_gc_rounds"))
		return false;
	if (one->process)
		advise(answer, "flmem watch --pid %d --auto cleans up from outside", (int)one->pid);
	return true;
}

static const struct flmem_allocator_report *allocator(const struct flmem_trouble_case *one,
						      struct flmem_trouble_answer *answer)
{
	const struct flmem_allocator_report *known;

	if (!one->process) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "%s", no_environment);
		advise(answer, "%s", look_at_it);
		return NULL;
	}
	known = flmem_live_malloc(one->process);
	if (!known || known->kind == FLMEM_ALLOCATOR_UNKNOWN) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "its allocator is not known: %s",
		    one->process->allocators_unknown ? one->process->allocators_unknown
						     : "flmem does not recognise it");
		return NULL;
	}
	return known;
}

static void say_arenas(const struct flmem_process_report *process,
		       struct flmem_trouble_answer *answer)
{
	const char *value = flmem_live_setting(process, "MALLOC_ARENA_MAX");
	const char *tunables = flmem_live_setting(process, "GLIBC_TUNABLES");
	char count[48] = "";

	if (!process->heap.arenas.unknown)
		snprintf(count, sizeof(count), "; %" PRIu64 " by now", process->heap.arenas.value);
	if (value)
		say(answer, FLMEM_STEP_DONE, "MALLOC_ARENA_MAX=%.40s%s", value, count);
	else if (tunables && strstr(tunables, "glibc.malloc.arena_max"))
		say(answer, FLMEM_STEP_DONE, "GLIBC_TUNABLES=%.80s%s", tunables, count);
	else
		say(answer, FLMEM_STEP_NOT_DONE, "MALLOC_ARENA_MAX is not set%s", count);
}

void flmem_trouble_arenas(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad =
		FINDING(one, "LIVE-ARENA-EXCEEDED", "LIVE-ARENA-CLIENT-4", "LIVE-ARENA-HIGH",
			"NVF-ARENA-UNSET", "NVF-ARENA-CLIENT-4", "NVF-ARENA-HIGH");
	const struct flmem_allocator_report *known = allocator(one, answer);

	if (known && known->kind != FLMEM_ALLOCATOR_GLIBC) {
		say(answer, FLMEM_STEP_NOT_NEEDED, "malloc is that of %s, which does not read it",
		    flmem_allocator_name(known->kind));
		return;
	}
	if (known && one->process->settings_unknown)
		say(answer, FLMEM_STEP_CANNOT_TELL, "its environment: %s",
		    one->process->settings_unknown);
	else if (known)
		say_arenas(one->process, answer);
	if (bad && (!known || answer->state == FLMEM_STEP_DONE))
		say_finding(answer, bad);
	if (answer->state == FLMEM_STEP_NOT_DONE)
		advise_start(one, answer, "");
}

static void say_interval(struct flmem_trouble_answer *answer, struct flmem_u64 rounds,
			 const struct flmem_finding *bad)
{
	if (bad) {
		say_finding(answer, bad);
	} else if (rounds.unknown) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "%s", rounds.unknown);
		advise(answer, "%s", name_job);
	} else if (!rounds.value) {
		say(answer, FLMEM_STEP_NOT_DONE, "memory_gc_rounds is 0 in the job");
		advise(answer, "flmem recommend --fix on the job");
	} else {
		say(answer, FLMEM_STEP_DONE, "memory_gc_rounds is %" PRIu64 " in the job",
		    rounds.value);
	}
}

void flmem_trouble_server_gc(const struct flmem_trouble_case *one,
			     struct flmem_trouble_answer *answer)
{
	if (!is_watchable_instead(one, answer))
		say_interval(answer, one->found->server_gc_rounds,
			     FINDING(one, "NVF-SRV-GC-OFF", "NVF-SRV-GC-IGNORED"));
}

/* The environment of a trainer of its own comes before the job (NVFlare before 2.9). */
static struct flmem_u64 client_rounds(const struct flmem_trouble_case *one)
{
	static const char own[] = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS is in its environment, which "
				  "NVFlare before 2.9 reads first";

	if (one->process && flmem_live_setting(one->process, "NVFLARE_CLIENT_MEMORY_GC_ROUNDS"))
		return FLMEM_UNKNOWN(own);
	return one->found->client_gc_rounds;
}

/* A recorded client that climbs, or whose group was short, at an interval above 1. */
static const struct flmem_finding *tune(const struct flmem_trouble_case *one, bool back)
{
	const struct flmem_finding *f = FINDING(one, "NVF-CLI-GC-TUNE");

	return f && f->proposed && (strcmp(f->proposed, "1") == 0) == back ? f : NULL;
}

void flmem_trouble_client_gc(const struct flmem_trouble_case *one,
			     struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad = FINDING(one, "NVF-CLI-GC-OFF", "NVF-CUDA-NOOP");

	if (!is_watchable_instead(one, answer))
		say_interval(answer, client_rounds(one), bad ? bad : tune(one, true));
}

static const char *trend_word(const struct flmem_watch_result *recorded)
{
	return flmem_trend_verdict_name(recorded->trend.verdict);
}

void flmem_trouble_interval(const struct flmem_trouble_case *one,
			    struct flmem_trouble_answer *answer)
{
	const struct flmem_watch_result *recorded = one->recorded;
	const struct flmem_finding *more = tune(one, false);
	struct flmem_u64 rounds = client_rounds(one);

	if (is_watchable_instead(one, answer))
		return;
	if (more) {
		say_finding(answer, more);
	} else if (!rounds.unknown && rounds.value >= 5) {
		say(answer, FLMEM_STEP_DONE, "memory_gc_rounds is %" PRIu64, rounds.value);
	} else if (!recorded) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "whether RSS is stable takes a recording");
		advise_watch(one, answer, "");
	} else if (recorded->trend.verdict == FLMEM_TREND_TOO_EARLY) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "recorded for %" PRIu64 " rounds: %s",
		    recorded->rounds, recorded->trend.because);
		advise_watch(one, answer, "");
	} else if (recorded->trend.verdict != FLMEM_TREND_FLAT ||
		   flmem_recorded_was_short(recorded)) {
		say(answer, FLMEM_STEP_NOT_NEEDED, "RSS is not stable: %s%s", trend_word(recorded),
		    flmem_recorded_was_short(recorded) ? ", and memory was short" : "");
	} else {
		say(answer, FLMEM_STEP_CANNOT_TELL, "RSS is flat; memory_gc_rounds: %s",
		    rounds.unknown ? rounds.unknown : "too few rounds recorded to raise it");
	}
}

/* Of the sides that are known: that of the process, or both where its role is not. */
void flmem_trouble_every_round(const struct flmem_trouble_case *one,
			       struct flmem_trouble_answer *answer)
{
	struct flmem_u64 server = one->found->server_gc_rounds, client = client_rounds(one);
	bool both = !one->role;
	bool ask_server = (both || is_server(one)) && !server.unknown;
	bool ask_client = (both || !is_server(one)) && !client.unknown;

	if (is_watchable_instead(one, answer))
		return;
	if ((ask_server && server.value != 1) || (ask_client && client.value != 1)) {
		bool at_server = ask_server && server.value != 1;

		say(answer, FLMEM_STEP_NOT_DONE, "memory_gc_rounds is %" PRIu64 " for the %s",
		    at_server ? server.value : client.value, at_server ? "server" : "clients");
		advise(answer, "set it to 1 until memory is stable");
	} else if (ask_server || ask_client) {
		say(answer, FLMEM_STEP_DONE, "memory_gc_rounds is 1 in the job");
	} else {
		say(answer, FLMEM_STEP_CANNOT_TELL, "%s",
		    !both && is_server(one) ? server.unknown : client.unknown);
		advise(answer, "%s", name_job);
	}
}

void flmem_trouble_clear_cache(const struct flmem_trouble_case *one,
			       struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad =
		FINDING(one, "NVF-CLEAR-CACHE-FALSE", "NVF-LIGHTNING-KEEPS-PARAMS");
	struct flmem_u64 known = one->found->clear_cache;

	if (is_foreign(one, answer, "clear_cache"))
		return;
	if (bad) {
		say_finding(answer, bad);
	} else if (known.unknown) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "%s", known.unknown);
		advise(answer, "%s", name_job);
	} else if (known.value) {
		say(answer, FLMEM_STEP_DONE, "no call of send() in the Python of the job says no");
	} else { /* its finding is silenced */
		say(answer, FLMEM_STEP_NOT_DONE, "a call of send() has clear_cache False");
	}
}

/* Whether it uses a GPU; the reason where that is not known. */
static struct flmem_u64 gpu(const struct flmem_trouble_case *one)
{
	if (one->process)
		return one->process->cuda.used_bytes;
	return one->recorded ? one->recorded->gpu_bytes
			     : FLMEM_UNKNOWN("there is no process to look at");
}

void flmem_trouble_cuda(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad = FINDING(one, "NVF-CUDA-NOOP", "NVF-CUDA-MISSING");
	struct flmem_u64 known = one->found->cuda_empty_cache, used = gpu(one);
	char shown[FLMEM_TEXT_BYTES_MAX];

	if (is_foreign(one, answer, "cuda_empty_cache"))
		return;
	if (bad) {
		say_finding(answer, bad);
	} else if (!used.unknown && !used.value) {
		say(answer, FLMEM_STEP_NOT_NEEDED, "it uses no GPU");
	} else if (!known.unknown && known.value) {
		say(answer, FLMEM_STEP_DONE, "cuda_empty_cache is true in the job");
	} else if (!known.unknown && !used.unknown) {
		say(answer, FLMEM_STEP_NOT_DONE, "it holds %s of a GPU, and the job leaves it off",
		    flmem_text_bytes(used.value, shown, sizeof(shown)));
		advise(answer, "set cuda_empty_cache to true in the client's executor");
	} else {
		say(answer, FLMEM_STEP_CANNOT_TELL, "%s",
		    known.unknown ? known.unknown : used.unknown);
		advise(answer, "%s", known.unknown ? name_job : look_at_it);
	}
}

/* Whether jemalloc serves malloc; false when the answer is given already. */
static bool has_jemalloc(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	const struct flmem_finding *bad = FINDING(one, "LIVE-JEMALLOC-NOT-LOADED");
	const struct flmem_allocator_report *known = allocator(one, answer);

	if (!known)
		return false;
	if (known->kind == FLMEM_ALLOCATOR_JEMALLOC)
		return true;
	say(answer, FLMEM_STEP_NOT_DONE, "malloc is that of %s%s",
	    flmem_allocator_name(known->kind), bad ? ", although jemalloc was asked for" : "");
	advise_start(one, answer, " --jemalloc");
	return false;
}

void flmem_trouble_jemalloc(const struct flmem_trouble_case *one,
			    struct flmem_trouble_answer *answer)
{
	if (has_jemalloc(one, answer))
		say(answer, FLMEM_STEP_DONE, "malloc is that of jemalloc %.40s",
		    flmem_live_malloc(one->process)->version
			    ? flmem_live_malloc(one->process)->version
			    : "");
}

void flmem_trouble_decay(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	const char *value;

	if (!has_jemalloc(one, answer))
		return;
	value = flmem_live_setting(one->process, "MALLOC_CONF");
	if (one->process->settings_unknown) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "its environment: %s",
		    one->process->settings_unknown);
	} else if (FINDING(one, "LIVE-JEMALLOC-DECAY")) {
		say(answer, FLMEM_STEP_NOT_DONE, "jemalloc runs, MALLOC_CONF is %.80s",
		    value ? value : "not set");
		advise_start(one, answer, " --jemalloc");
	} else {
		say(answer, FLMEM_STEP_DONE, "jemalloc runs with MALLOC_CONF=%.100s",
		    value ? value : "");
	}
}

static void say_recorded(const struct flmem_trouble_case *one, enum flmem_step_state state,
			 struct flmem_trouble_answer *answer)
{
	const struct flmem_watch_result *recorded = one->recorded;
	char span[FLMEM_TEXT_BYTES_MAX];

	say(answer, state, "recorded for %s, %" PRIu64 " rounds: %s, %s",
	    flmem_text_span(recorded->watched_us / 1000000, span, sizeof(span)), recorded->rounds,
	    trend_word(recorded), recorded->trend.because);
}

void flmem_trouble_monitor(const struct flmem_trouble_case *one,
			   struct flmem_trouble_answer *answer)
{
	if (one->recorded) {
		say_recorded(one, FLMEM_STEP_DONE, answer);
		return;
	}
	say(answer, FLMEM_STEP_CANNOT_TELL, "whether someone watches it cannot be seen");
	advise_watch(one, answer, "");
}

void flmem_trouble_leaks(const struct flmem_trouble_case *one, struct flmem_trouble_answer *answer)
{
	static const char why[] = ", which tells a leak from what the allocator keeps";

	if (!one->recorded) {
		say(answer, FLMEM_STEP_CANNOT_TELL, "growth from round to round takes a recording");
		advise_watch(one, answer, why);
	} else if (one->recorded->trend.verdict == FLMEM_TREND_CLIMBING) {
		say_recorded(one, FLMEM_STEP_NOT_DONE, answer);
		advise(answer, "look for what grows with each round: lists of results, graphs kept "
			       "by losses that are not detached, caches");
	} else if (one->recorded->trend.verdict == FLMEM_TREND_TOO_EARLY) {
		say_recorded(one, FLMEM_STEP_CANNOT_TELL, answer);
		advise_watch(one, answer, why);
	} else {
		say_recorded(one, FLMEM_STEP_DONE, answer);
	}
}

static void put_bytes(char *out, size_t size, const char *label, struct flmem_u64 bytes)
{
	char shown[FLMEM_TEXT_BYTES_MAX];

	snprintf(out, size, "%s%s", label,
		 bytes.unknown ? "unknown" : flmem_text_bytes(bytes.value, shown, sizeof(shown)));
}

static void say_killed(const struct flmem_oom_kill *kill, struct flmem_trouble_answer *answer)
{
	char anon[64], shmem[64], limit[64], share[64] = "";

	put_bytes(anon, sizeof(anon), "it held ", kill->anon_bytes);
	put_bytes(shmem, sizeof(shmem), " anonymous and ", kill->shmem_bytes);
	if (kill->of_group)
		put_bytes(limit, sizeof(limit), " shared, limit ", kill->limit_bytes);
	else
		snprintf(limit, sizeof(limit), " shared, and the host had no more");
	if (!kill->share_percent.unknown && kill->tasks.value > 1)
		snprintf(share, sizeof(share), ", %" PRIu64 " %% of what %" PRIu64 " tasks held",
			 kill->share_percent.value, kill->tasks.value);
	say(answer, FLMEM_STEP_CANNOT_TELL, "the batch size is the training code's own; %s%s%s%s",
	    anon, shmem, limit, share);
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
	if (one->kill)
		say_killed(one->kill, answer);
	else
		say(answer, FLMEM_STEP_CANNOT_TELL, "the batch size is the training code's own%s%s",
		    held, limit);
	if (is_server(one))
		say(answer, FLMEM_STEP_NOT_NEEDED, "a server does not train%s%s", held, limit);
	else
		advise(answer, "halve it, and compare the peaks of two recordings");
}
