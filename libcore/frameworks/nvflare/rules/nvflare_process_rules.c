/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about live and recorded processes of NVFlare. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "frameworks/nvflare/nvflare_comm.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"
#include "rules/live_rules.h"
#include "rules/trend_rules.h"
#include "runtimes/cpython_int.h"

/* The guide's "stable": at least this many cleanups after these rounds of warm-up. */
#define CLEANUPS_SEEN 2U
#define WARM_UP	      2U

#define COMM_CODE "NVFlare 2.7.2 to 2.9.0, fuel/f3/comm_config.py"

#define GC_ROUNDS "NVFLARE_CLIENT_MEMORY_GC_ROUNDS"

/* Set for external trainers from 2.9 on, which do not read the interval from the environment. */
#define BOOTSTRAP "NVFLARE_CLIENT_API_BOOTSTRAP"

/* By client/ex_process/api.py of 2.7.2 to 2.8. A value below 1 turns the cleanup off. */
struct flmem_u64 flmem_nvflare_own_gc_rounds(const struct flmem_process_report *process)
{
	const char *value = flmem_live_setting(process, GC_ROUNDS);
	int64_t rounds;

	if (process->role != FLMEM_ROLE_TRAINER || !value || flmem_live_setting(process, BOOTSTRAP))
		return FLMEM_UNKNOWN("its environment does not set it");
	if (flmem_python_int_parse(value, &rounds) != FLMEM_PYTHON_INT_VALID)
		return FLMEM_UNKNOWN(GC_ROUNDS " in its environment is not a whole number");
	return FLMEM_KNOWN(rounds > 0 ? (uint64_t)rounds : 0);
}

/* Only for clients and their trainers, which inherit the environment of the client. */
static bool check_process_gc_invalid(const struct flmem_process_report *process,
				     struct flmem_live_remark *remark)
{
	const char *value = flmem_live_setting(process, GC_ROUNDS);
	int64_t rounds;

	if (process->framework != FLMEM_FRAMEWORK_NVFLARE || !process->role ||
	    flmem_role_is_server(process->role) || !value ||
	    flmem_live_setting(process, BOOTSTRAP) ||
	    flmem_python_int_parse(value, &rounds) != FLMEM_PYTHON_INT_INVALID)
		return false;
	remark->path = GC_ROUNDS;
	flmem_live_put(remark->current, sizeof(remark->current), value);
	return true;
}

/* Not only for some roles: any process of NVFlare may send tensors. */
static bool check_process_chunk(const struct flmem_process_report *process,
				struct flmem_live_remark *remark)
{
	static const char *const names[] = {FLMEM_NVFLARE_TENSOR_CHUNK, FLMEM_NVFLARE_NUMPY_CHUNK};

	if (process->framework != FLMEM_FRAMEWORK_NVFLARE)
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		const char *value = flmem_live_setting(process, names[i]);
		enum flmem_python_int kind;
		int64_t size = 0;

		kind = value ? flmem_python_int_parse(value, &size) : FLMEM_PYTHON_INT_UNDECIDED;
		if (kind == FLMEM_PYTHON_INT_UNDECIDED ||
		    (kind == FLMEM_PYTHON_INT_VALID && size > 0))
			continue;
		remark->path = names[i];
		flmem_live_put(remark->current, sizeof(remark->current), value);
		flmem_live_put(remark->proposed, sizeof(remark->proposed), "2097152");
		return true;
	}
	return false;
}

/* Puts a fault into the remark; the first of several faults is kept. */
static void put_comm_fault(const struct flmem_comm_config *config,
			   const struct flmem_comm_fault *fault)
{
	struct flmem_live_remark *remark = config->context;
	const struct flmem_comm_key_row *row = &flmem_comm_keys[fault->key];

	if (remark->path)
		return;
	remark->path = row->variable;
	if (fault->corrects)
		snprintf(remark->proposed, sizeof(remark->proposed), "%" PRId64, row->older);
	if (fault->detail)
		snprintf(remark->detail, sizeof(remark->detail), "%s", fault->detail);
}

/* Whether variables that stand for sizes of comm_config.json have a fault of this kind. */
static bool has_comm_fault(const struct flmem_process_report *process, flmem_comm_look *look,
			   struct flmem_live_remark *remark)
{
	struct flmem_comm_config config = {.report = put_comm_fault, .context = remark};

	if (process->framework != FLMEM_FRAMEWORK_NVFLARE || remark->path)
		return false;
	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++) {
		const char *value = flmem_live_setting(process, flmem_comm_keys[key].variable);

		if (value)
			config.values[key] = flmem_comm_value_of_text(value);
	}
	look(&config);
	if (remark->path)
		flmem_live_put(remark->current, sizeof(remark->current),
			       flmem_live_setting(process, remark->path));
	return remark->path;
}

static bool live_comm_fails(const struct flmem_process_report *process,
			    struct flmem_live_remark *remark)
{
	return has_comm_fault(process, flmem_comm_find_invalid, remark) ||
	       has_comm_fault(process, flmem_comm_find_zero, remark) ||
	       has_comm_fault(process, flmem_comm_find_above_message, remark);
}

static bool live_comm_stalls(const struct flmem_process_report *process,
			     struct flmem_live_remark *remark)
{
	return has_comm_fault(process, flmem_comm_find_stalls, remark);
}

static bool live_comm_limit(const struct flmem_process_report *process,
			    struct flmem_live_remark *remark)
{
	return has_comm_fault(process, flmem_comm_find_above_blob, remark) ||
	       has_comm_fault(process, flmem_comm_find_blob_small, remark) ||
	       has_comm_fault(process, flmem_comm_find_retry_small, remark) ||
	       has_comm_fault(process, flmem_comm_find_no_limit, remark);
}

static bool profile_blind(const struct flmem_process_report *process,
			  struct flmem_live_remark *remark)
{
	const char *value = flmem_live_setting(process, "NVFLARE_CLIENT_MEMORY_PROFILE");

	if (process->role != FLMEM_ROLE_TRAINER || !value ||
	    (strcmp(value, "1") != 0 && strcmp(value, "true") != 0 && strcmp(value, "yes") != 0))
		return false;
	remark->path = "NVFLARE_CLIENT_MEMORY_PROFILE";
	flmem_live_put(remark->current, sizeof(remark->current), value);
	return true;
}

static bool temporary_in_memory(const struct flmem_process_report *process,
				struct flmem_live_remark *remark)
{
	const char *path = flmem_live_setting(process, "TMPDIR");

	if (process->temporary_in_memory.unknown || !process->temporary_in_memory.value)
		return false;
	remark->path = "TMPDIR";
	flmem_live_put(remark->current, sizeof(remark->current), path ? path : "");
	snprintf(remark->detail, sizeof(remark->detail), "%.100s is on tmpfs or ramfs",
		 path ? path : "/tmp");
	return true;
}

/* Whether processes of a role clean up: those of jobs do, the parents that launch them do not. */
static bool is_job_role(enum flmem_role role)
{
	return role && role != FLMEM_ROLE_SERVER && role != FLMEM_ROLE_CLIENT;
}

/*
 * Reports allocators for which the cleanup has no effect: memory_utils.py finds malloc_trim() in
 * libc.so.6, whichever malloc the process uses. Not jemalloc, which decays by itself, and not musl,
 * which has its own rule.
 */
static bool gc_wrong_allocator(const struct flmem_process_report *process,
			       struct flmem_live_remark *remark)
{
	const struct flmem_allocator_report *allocator = flmem_live_malloc(process);

	if (process->framework != FLMEM_FRAMEWORK_NVFLARE || !is_job_role(process->role) ||
	    !allocator || allocator->kind == FLMEM_ALLOCATOR_UNKNOWN ||
	    allocator->kind == FLMEM_ALLOCATOR_GLIBC ||
	    allocator->kind == FLMEM_ALLOCATOR_JEMALLOC || allocator->kind == FLMEM_ALLOCATOR_MUSL)
		return false;
	remark->path = "allocators";
	snprintf(remark->current, sizeof(remark->current), "%s",
		 flmem_allocator_name(allocator->kind));
	if (allocator->kind == FLMEM_ALLOCATOR_TCMALLOC ||
	    allocator->kind == FLMEM_ALLOCATOR_MIMALLOC)
		snprintf(remark->detail, sizeof(remark->detail), "flmem trim --pid %d trims it",
			 (int)process->pid);
	return true;
}

static bool live_arena_client_4(const struct flmem_process_report *process,
				struct flmem_live_remark *remark)
{
	uint64_t arenas;

	if (process->framework != FLMEM_FRAMEWORK_NVFLARE || !process->role ||
	    flmem_role_is_server(process->role) ||
	    !flmem_live_malloc_is(process, FLMEM_ALLOCATOR_GLIBC) ||
	    !flmem_live_requested_arenas(process, &arenas) || arenas != 4)
		return false;
	remark->path = flmem_live_arena_setting(process);
	flmem_live_put(remark->current, sizeof(remark->current), "4");
	flmem_live_put(remark->proposed, sizeof(remark->proposed), "2");
	return true;
}

/*
 * For processes of any framework: scripts that flmem writes for the others have this variable, too.
 */
static bool jemalloc_not_loaded(const struct flmem_process_report *process,
				struct flmem_live_remark *remark)
{
	const char *value = flmem_live_setting(process, FLMEM_NVFLARE_JEMALLOC_PRELOAD),
		   *preload = flmem_live_setting(process, "LD_PRELOAD");
	bool asked = value && strcmp(value, "true") == 0;

	if (!flmem_live_malloc(process) || flmem_live_malloc_is(process, FLMEM_ALLOCATOR_JEMALLOC))
		return false;
	if (!asked && !(preload && strstr(preload, "jemalloc")))
		return false;
	remark->path = asked ? FLMEM_NVFLARE_JEMALLOC_PRELOAD : "LD_PRELOAD";
	flmem_live_put(remark->current, sizeof(remark->current), asked ? value : preload);
	snprintf(remark->detail, sizeof(remark->detail), "malloc is served by %s",
		 flmem_allocator_name(flmem_live_malloc(process)->kind));
	return true;
}

static const struct flmem_live_row live_rows[] = {
	{.rule = {.id = "LIVE-ARENA-CLIENT-4",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .condition = "a client of NVFlare that runs with 4 arenas",
		  .message = "sub_start.sh gives clients the server's number of arenas; start the "
			     "client with MALLOC_ARENA_MAX=2 in the environment",
		  .source = "NVFlare's master template, 2.7.2 to 2.9.0"},
	 .after = "LIVE-ARENA-HIGH",
	 .check = live_arena_client_4},
	{.rule = {.id = "LIVE-JEMALLOC-NOT-LOADED",
		  .severity = FLMEM_SEVERITY_ERROR,
		  .condition = "jemalloc requested by NVFLARE_ENABLE_JEMALLOC_PRELOAD or "
			       "LD_PRELOAD, and another malloc in use",
		  .message = "jemalloc was requested but does not serve malloc: NVFlare's start "
			     "script tries three fixed paths and prints nothing when all are "
			     "missing, and the loader skips a library that it cannot load; flmem "
			     "start verifies the preload",
		  .source = "NVFlare's master template, 2.7.2 to 2.9.0"},
	 .after = "LIVE-ARENA-USELESS",
	 .check = jemalloc_not_loaded},
	{.rule = {.id = "LIVE-NVF-GC-WRONG-ALLOCATOR",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.7.2",
		  .condition = "a process of a job of NVFlare whose malloc is neither glibc's, "
			       "jemalloc's nor musl's",
		  .message = "memory_gc_rounds trims the heap of glibc, which this process does "
			     "not use, so its allocator keeps what it retains; preload jemalloc",
		  .source = "NVFlare 2.7.2 to 2.9.0, fuel/utils/memory_utils.py"},
	 .check = gc_wrong_allocator},
	{.rule = {.id = "LIVE-OFFLOAD-TMPFS",
		  .severity = FLMEM_SEVERITY_ERROR,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.8",
		  .condition = "a server whose TMPDIR, or /tmp, is on tmpfs or ramfs or a symbolic "
			       "link to it, beside a job with enable_tensor_disk_offload",
		  .message = FLMEM_OFFLOAD_IN_MEMORY,
		  .source = "NVFlare design note \"Tensor Disk Offload\""},
	 .offload = true,
	 .check = temporary_in_memory},
	{.rule = {.id = "LIVE-PROFILE-BLIND-29",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.9",
		  .certain = true,
		  .condition =
			  "NVFLARE_CLIENT_MEMORY_PROFILE set for a trainer in a separate process",
		  .message = "NVFlare 2.9 does not log the memory of external trainers; use flmem "
			     "watch",
		  .source = "NVFlare code, 2.8.3 and 2.9.0"},
	 .check = profile_blind},
	{.rule = {.id = "LIVE-ENV-GC-INVALID",
		  .severity = FLMEM_SEVERITY_ERROR,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.7.2",
		  .before = "2.9",
		  .condition = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS that is not a whole number, in a "
			       "client or trainer",
		  .message = "flare.init() of an external trainer fails on this value; set a "
			     "whole number, or leave the interval to the job",
		  .source = "NVFlare 2.7.2 and 2.8.1, client/ex_process/api.py"},
	 .check = check_process_gc_invalid},
	{.rule = {.id = "LIVE-ENV-CHUNK",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .condition = "NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE or "
			       "NVFLARE_NP_DOWNLOAD_CHUNK_SIZE that is 0 or less, or not a whole "
			       "number, in a process of NVFlare",
		  .message = "where the job does not set the size itself, models are serialised "
			     "whole with 0 or less, and sending one fails with what is not a whole "
			     "number; leave the variable out",
		  .source = "NVFlare 2.7.2 to 2.9.0, fuel/utils/config_service.py"},
	 .check = check_process_chunk},
	{.rule = {.id = "LIVE-COMM-FAILS",
		  .severity = FLMEM_SEVERITY_ERROR,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .condition = "a variable for a size of comm_config.json "
			       "(NVFLARE_STREAMING_CHUNK_SIZE and so on) in a process of NVFlare "
			       "that is not a whole number, with which nothing is sent, or that "
			       "sets a chunk above max_message_size",
		  .message = "where comm_config.json does not set this size, the process fails, or "
			     "sends nothing; leave the variable out",
		  .source = COMM_CODE},
	 .check = live_comm_fails},
	{.rule = {.id = "LIVE-COMM-STALLS",
		  .severity = FLMEM_SEVERITY_ERROR,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .before = FLMEM_NVFLARE_COMM_LIMITS,
		  .condition = "NVFLARE_STREAMING_WINDOW_SIZE in a process of NVFlare with which "
			       "the sender waits before it has sent more than "
			       "NVFLARE_STREAMING_ACK_INTERVAL (4 MiB by default)",
		  .message = "the receiver acknowledges nothing yet, so streams above the window "
			     "end after streaming_ack_progress_timeout; the window has to be "
			     "above the interval",
		  .source = "NVFlare 2.7.2 and 2.8.1, fuel/f3/streaming/byte_streamer.py and "
			    "byte_receiver.py"},
	 .check = live_comm_stalls},
	{.rule = {.id = "LIVE-COMM-LIMIT",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = FLMEM_NVFLARE_COMM_LIMITS,
		  .condition =
			  "NVFLARE_STREAMING_MAX_BLOB_SIZE of 0 or less, or below 2 MiB or the "
			  "chunk or window of streams, or "
			  "NVFLARE_STREAMING_RETRY_MAX_PENDING_BYTES below what is in flight, in a "
			  "process of NVFlare",
		  .message = "this limit of NVFlare 2.9 refuses what is sent, ends slow streams, "
			     "or bounds nothing; set it above the largest tensor, or leave it out",
		  .source = "NVFlare 2.9.0, fuel/f3/streaming/blob_streamer.py and "
			    "byte_streamer.py"},
	 .check = live_comm_limit},
};

/*
 * The controller, and the swarm client of 2.9, create the directory with tempfile.mkdtemp() and
 * remove it when the workflow ends. It holds a directory nvflare_tensors_* for each received model.
 */
const struct flmem_leftover_row flmem_nvflare_leftover = {
	.prefix = "nvflare_tensor_offload_",
	.rule = {.id = "HOST-OFFLOAD-ORPHAN",
		 .severity = FLMEM_SEVERITY_WARNING,
		 .framework = FLMEM_FRAMEWORK_NVFLARE,
		 .since = "2.8",
		 .condition =
			 "a directory nvflare_tensor_offload_* with files, in TMPDIR or /tmp of "
			 "flmem or of a process of NVFlare, that no process uses (for "
			 "information where that is not known)",
		 .message =
			 "tensors that a job offloaded are still on disk, as after a kill; remove "
			 "the directory with rm -r once no job uses it",
		 .source = "NVFlare 2.9.0, app_common/utils/tensor_disk_offload_context.py, "
			   "app_common/ccwf/swarm_client_ctl.py"},
};

const struct flmem_live_table flmem_nvflare_live_rules = {live_rows, FLMEM_ARRAY_SIZE(live_rows)};

static bool is_nvflare(const struct flmem_recorded *recorded, bool server)
{
	const struct flmem_watch_process *process = &recorded->result->process;

	return process->framework == FLMEM_FRAMEWORK_NVFLARE && process->role &&
	       flmem_role_is_server(process->role) == server;
}

/* Whether memory is flat over enough rounds and nothing requires more cleanups. */
static bool is_stable(const struct flmem_recorded *recorded)
{
	const struct flmem_watch_result *result = recorded->result;
	uint64_t needed = (recorded->gc_rounds.value + 1) * CLEANUPS_SEEN + WARM_UP;

	return result->trend.verdict == FLMEM_TREND_FLAT &&
	       result->trend.basis == FLMEM_TREND_BY_ROUND && result->rounds >= needed &&
	       !flmem_recorded_had_pressure(result);
}

static void put_interval(struct flmem_live_remark *remark, uint64_t now, unsigned then)
{
	remark->path = "memory_gc_rounds";
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64, now);
	snprintf(remark->proposed, sizeof(remark->proposed), "%u", then);
}

static void put_flat(const struct flmem_recorded *recorded, struct flmem_live_remark *remark)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	snprintf(remark->detail, sizeof(remark->detail), "flat over %s",
		 flmem_text_counted(recorded->result->rounds, "round", count, sizeof(count)));
}

/*
 * Proposes intervals 1, 2 and then 5 while memory is flat, and 1 again once memory rises or is
 * short.
 */
static bool report_client_interval(const struct flmem_recorded *recorded,
				   struct flmem_live_remark *remark)
{
	static const enum flmem_severity warning = FLMEM_SEVERITY_WARNING;
	bool climbs = recorded->result->trend.verdict == FLMEM_TREND_CLIMBING;
	uint64_t now = recorded->gc_rounds.value;

	if (!is_nvflare(recorded, false) || recorded->gc_rounds.unknown || !now || now > INT32_MAX)
		return false;
	if (now > 1 && (climbs || flmem_recorded_had_pressure(recorded->result))) {
		put_interval(remark, now, 1);
		remark->severity = &warning;
		snprintf(remark->detail, sizeof(remark->detail), "%s",
			 climbs ? "memory keeps rising" : "its control group ran short of memory");
		return true;
	}
	if (now >= 5 || !is_stable(recorded))
		return false;
	put_interval(remark, now, now < 2 ? 2 : 5);
	put_flat(recorded, remark);
	return true;
}

static bool report_server_every_round(const struct flmem_recorded *recorded,
				      struct flmem_live_remark *remark)
{
	if (!is_nvflare(recorded, true) || recorded->gc_rounds.unknown ||
	    recorded->gc_rounds.value != 1 || !is_stable(recorded))
		return false;
	put_interval(remark, 1, 5);
	put_flat(recorded, remark);
	return true;
}

static const struct flmem_trend_row trend_rows[] = {
	{.rule = {.id = "NVF-CLI-GC-TUNE",
		  .severity = FLMEM_SEVERITY_INFO,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.7.2",
		  .condition = "a recorded client that is flat while memory_gc_rounds is 1 to 4; "
			       "one whose memory keeps rising, or whose control group ran short of "
			       "memory, while it is above 1 (a warning)",
		  .message =
			  "start a client with memory_gc_rounds 1, raise it to 2 and then 5 while "
			  "its memory is flat, and set it back to 1 when memory rises or is short",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = report_client_interval},
	{.rule = {.id = "NVF-SRV-GC-EVERY-ROUND",
		  .severity = FLMEM_SEVERITY_INFO,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.7.2",
		  .condition = "a recorded server that is flat while memory_gc_rounds is 1",
		  .message = "memory is flat with a cleanup after every round; every 5 rounds, as "
			     "recommended for servers, costs less",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = report_server_every_round},
};

const struct flmem_trend_table flmem_nvflare_trend_rules = {trend_rows,
							    FLMEM_ARRAY_SIZE(trend_rows)};
