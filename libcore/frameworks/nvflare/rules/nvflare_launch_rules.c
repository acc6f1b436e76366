/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about files that start NVFlare: scripts, images, units, Compose and Kubernetes files. */
#include "frameworks/nvflare/rules/nvflare_launch_rules.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "base/text/text.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

#define ARENAS_SERVER_MAX 8
#define ARENAS_CLIENT_MAX 4

static bool preloads_jemalloc(const struct flmem_launch_check *one)
{
	const struct flmem_launch_variable *preload =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_LD_PRELOAD);
	const struct flmem_launch_variable *asked =
		flmem_launch_variable_of(one, FLMEM_NVFLARE_JEMALLOC_PRELOAD);

	return (preload && strstr(preload->value, "jemalloc")) ||
	       (asked && strcmp(asked->value, "true") == 0);
}

/*
 * Whether LD_PRELOAD may load an allocator: a library whose value is not known may be one, a
 * library with another name is none.
 */
static bool preloads_allocator(const struct flmem_launch_check *one)
{
	static const char *const parts[] = {"alloc", "hoard", "flmem"};
	const struct flmem_launch_variable *preload =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_LD_PRELOAD);
	bool found = preload && !preload->known;

	for (size_t i = 0; preload && !found && i < FLMEM_ARRAY_SIZE(parts); i++)
		found = strstr(preload->value, parts[i]);
	return found;
}

/* Whether glibc's tunable limits the arenas, or may do so as its value is not known. */
static bool limits_by_tunable(const struct flmem_launch_check *one)
{
	const struct flmem_launch_variable *tunables =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_TUNABLES);
	uint64_t limit;

	return tunables &&
	       (!tunables->known || flmem_glibc_arena_max_find(NULL, tunables->value, &limit));
}

/* By the variables of the file; perhaps by those of another file, or by another allocator. */
bool flmem_nvflare_limits_arenas(const struct flmem_launch_check *one)
{
	return one->launches->open || preloads_jemalloc(one) || preloads_allocator(one) ||
	       flmem_launch_variable_of(one, FLMEM_LAUNCH_ARENA_MAX) || limits_by_tunable(one);
}

enum flmem_launch_reach flmem_nvflare_limited_by_caller(const struct flmem_check *check)
{
	static const char *const names[] = {FLMEM_LAUNCH_ARENA_MAX, FLMEM_LAUNCH_LD_PRELOAD,
					    FLMEM_LAUNCH_TUNABLES, FLMEM_NVFLARE_JEMALLOC_PRELOAD,
					    NULL};

	return flmem_launch_reach_of_callers(check, names);
}

/* The simulator gets the variables of the script that runs it. */
bool flmem_nvflare_is_simulation(const struct flmem_rule_input *script)
{
	return script && flmem_launch_simulates(&script->document.text, FLMEM_FRAMEWORK_NVFLARE);
}

static void check_simulations(struct flmem_check *check)
{
	struct flmem_launches launches;
	struct flmem_launch_check one = {.check = check, .launches = &launches, .index = -1};

	flmem_launches_read(check->input, &launches);
	if (flmem_nvflare_limits_arenas(&one))
		return;
	for (size_t i = 0; i < launches.doubt_count; i++) {
		const struct flmem_launch_doubt *doubt = &launches.doubts[i];
		struct flmem_node node = {
			.kind = FLMEM_NODE_MAP, .text = "", .place = doubt->place};

		if (!doubt->musl && !doubt->unfollowed &&
		    flmem_nvflare_is_simulation(flmem_launch_script_of(check, doubt)))
			flmem_check_report(check, &(struct flmem_remark){
							  .node = &node,
							  .missing = FLMEM_LAUNCH_ARENA_MAX,
							  .detail = "the script runs the simulator",
							  .proposed = flmem_launch_arenas(
								  FLMEM_ROLE_SIMULATOR_SERVER)});
	}
}

static size_t count_scripts(const struct flmem_launches *launches)
{
	size_t count = 0;

	for (size_t i = 0; i < launches->doubt_count; i++)
		count += *launches->doubts[i].script != '\0';
	return count;
}

/*
 * Calls `look` for the simulator that a file runs by the only script in it. With several scripts it
 * is not known which one gets the variables and mounts.
 */
static void check_simulation(struct flmem_check *check,
			     void (*look)(const struct flmem_launch_check *one))
{
	struct flmem_launches launches;
	struct flmem_launch launch = {.framework = FLMEM_FRAMEWORK_NVFLARE,
				      .role = FLMEM_ROLE_SIMULATOR_SERVER};

	flmem_launches_read(check->input, &launches);
	if (launches.launch_count || count_scripts(&launches) != 1)
		return;
	for (size_t i = 0; i < launches.doubt_count; i++) {
		const struct flmem_launch_doubt *doubt = &launches.doubts[i];

		launch.place = doubt->place;
		launch.musl = doubt->musl;
		if (flmem_nvflare_is_simulation(flmem_launch_script_of(check, doubt)))
			look(&(struct flmem_launch_check){.check = check,
							  .launches = &launches,
							  .launch = &launch,
							  .index = -1});
	}
}

/* Writes why a launch has no limit although the file sets one; "" if that is not known. */
static void explain_unset(const struct flmem_launch_check *one, char detail[96])
{
	const struct flmem_launch_variable *lost =
		flmem_launch_find_lost(one->launches, one->index, FLMEM_LAUNCH_ARENA_MAX);

	*detail = '\0';
	if (lost && lost->local)
		snprintf(detail, 96, "line %u sets it without exporting it", lost->place.line);
	else if (lost && one->launch->dropper)
		snprintf(detail, 96, "line %u sets it, and %s drops it", lost->place.line,
			 one->launch->dropper);
	else if (lost)
		snprintf(detail, 96, "line %u sets it where it does not reach this",
			 lost->place.line);
	else if (one->launches->isolated)
		snprintf(detail, 96, "%s keeps what the submitting shell sets from the job",
			 one->launches->isolated);
}

static void launch_arena_unset(const struct flmem_launch_check *one)
{
	struct flmem_node node = {.kind = FLMEM_NODE_MAP, .text = "", .place = one->launch->place};
	char detail[96];

	if (one->launch->doubted || one->launch->musl || flmem_nvflare_limits_arenas(one))
		return;
	explain_unset(one, detail);
	flmem_check_report(one->check, &(struct flmem_remark){
					       .node = &node,
					       .missing = FLMEM_LAUNCH_ARENA_MAX,
					       .detail = *detail ? detail : NULL,
					       .proposed = flmem_launch_arenas(one->launch->role)});
}

/*
 * Finds the limit of arenas that a launch sets. Returns false if there is none, or it is not known.
 */
static bool find_arena_limit(const struct flmem_launch_check *one,
			     const struct flmem_launch_variable **ret_variable, uint64_t *ret_count)
{
	*ret_variable = flmem_launch_variable_of(one, FLMEM_LAUNCH_ARENA_MAX);
	return *ret_variable && flmem_glibc_arena_max_parse((*ret_variable)->value, ret_count);
}

static void launch_arena_client_4(const struct flmem_launch_check *one)
{
	const struct flmem_launch_variable *variable;
	uint64_t count;

	if (one->launch->role == FLMEM_ROLE_CLIENT && find_arena_limit(one, &variable, &count) &&
	    count == 4 && strcmp(flmem_text_basename(one->check->input->file), "sub_start.sh") == 0)
		flmem_launch_report(one->check, variable, "2", NULL);
}

/* Only for glibc: under jemalloc, another rule reports that the limit has no effect. */
static void launch_arena_high(const struct flmem_launch_check *one)
{
	bool client = one->launch->role == FLMEM_ROLE_CLIENT;
	bool any = one->launch->role == FLMEM_ROLE_NONE;
	const struct flmem_launch_variable *variable;
	uint64_t count;

	if (!preloads_jemalloc(one) && find_arena_limit(one, &variable, &count) &&
	    count > (client ? ARENAS_CLIENT_MAX : ARENAS_SERVER_MAX))
		flmem_launch_report(one->check, variable, flmem_launch_arenas(one->launch->role),
				    any	     ? "a server or client"
				    : client ? "a client"
					     : "a server");
}

static void launch_arena_useless(const struct flmem_launch_check *one)
{
	const struct flmem_launch_variable *variable =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_ARENA_MAX);
	bool musl = one->launch->musl;

	if (variable && (musl || preloads_jemalloc(one)))
		flmem_launch_report(one->check, variable, NULL,
				    musl ? "the image uses musl" : "jemalloc is preloaded");
}

static void launch_musl_no_trim(const struct flmem_launch_check *one)
{
	struct flmem_node node = {.kind = FLMEM_NODE_MAP, .text = "", .place = one->launch->place};

	bool client = one->launch->role == FLMEM_ROLE_CLIENT;
	struct flmem_u64 rounds =
		client ? one->check->found->client_gc_rounds : one->check->found->server_gc_rounds;

	if (one->launch->musl && !rounds.unknown && rounds.value)
		flmem_check_report(one->check,
				   &(struct flmem_remark){.node = &node, .missing = "glibc"});
}

/*
 * Reports allocators that memory_utils.py takes for glibc's, because it finds glibc's malloc_trim()
 * beside them.
 */
static void launch_wrong_allocator(const struct flmem_launch_check *one)
{
	static const char *const parts[] = {"tcmalloc", "mimalloc", "hoard",
					    "snmalloc", "rpmalloc", "scudo"};
	const struct flmem_launch_variable *preload =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_LD_PRELOAD);

	for (size_t i = 0; preload && preload->known && i < FLMEM_ARRAY_SIZE(parts); i++) {
		if (!strstr(preload->value, parts[i]) || strstr(preload->value, "jemalloc"))
			continue;
		flmem_launch_report(one->check, preload, NULL, parts[i]);
		return;
	}
}

/*
 * Not without MALLOC_CONF if NVFlare's start script preloads jemalloc: it then sets both decay
 * times.
 */
static void launch_jemalloc_decay(const struct flmem_launch_check *one)
{
	const struct flmem_launch_variable *conf =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_MALLOC_CONF);
	const struct flmem_launch_variable *preload =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_LD_PRELOAD);
	const char *decay = "dirty_decay_ms:5000,muzzy_decay_ms:5000";

	if (!preloads_jemalloc(one))
		return;
	if (!conf && preload && strstr(preload->value, "jemalloc"))
		flmem_launch_report(one->check, preload, NULL, "MALLOC_CONF is not set");
	else if (conf && conf->value[0] &&
		 (!strstr(conf->value, "dirty_decay_ms:") || strstr(conf->value, "decay_ms:-1")))
		flmem_launch_report(one->check, conf, decay, NULL);
}

static void env_dead(const struct flmem_launch_check *one,
		     const struct flmem_launch_variable *variable)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	const struct flmem_node node = {
		.kind = FLMEM_NODE_STRING, .text = "", .place = variable->place};

	if (flmem_launch_is(variable, FLMEM_NVFLARE_GC_ROUNDS) ||
	    flmem_launch_is(variable, FLMEM_NVFLARE_CUDA_EMPTY_CACHE))
		flmem_check_report(one->check,
				   &(struct flmem_remark){
					   .node = &node,
					   .path = variable->name,
					   .detail = variable->name,
					   .severity = one->check->release.count ? NULL : &info});
}

static void env_cuda_literal(const struct flmem_launch_check *one,
			     const struct flmem_launch_variable *variable)
{
	if (flmem_launch_is(variable, FLMEM_NVFLARE_CUDA_EMPTY_CACHE) &&
	    strcasecmp(variable->value, "true") != 0 && strcasecmp(variable->value, "false") != 0)
		flmem_launch_report(one->check, variable, "true", NULL);
}

static void env_jemalloc_literal(const struct flmem_launch_check *one,
				 const struct flmem_launch_variable *variable)
{
	if (flmem_launch_is(variable, FLMEM_NVFLARE_JEMALLOC_PRELOAD) && variable->value[0] &&
	    strcmp(variable->value, "true") != 0 && strcmp(variable->value, "false") != 0)
		flmem_launch_report(one->check, variable, "true", NULL);
}

static bool is_below(const char *path, const char *top)
{
	size_t length = strlen(top);

	return strncmp(path, top, length) == 0 && (!path[length] || path[length] == '/');
}

/* /dev/shm is always in memory; other directories are if the file mounts them so. */
static void offload_tmpfs(const struct flmem_launch_check *one)
{
	const struct flmem_launch_variable *variable =
		flmem_launch_variable_of(one, FLMEM_LAUNCH_TMPDIR);
	const char *path = variable ? variable->value : "/tmp";
	const struct flmem_launch_mount *mount =
		flmem_launch_mount_of(one->launches, one->index, path);
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = ""};

	if (!one->check->found->disk_offload || one->launch->role == FLMEM_ROLE_CLIENT ||
	    one->launch->doubted || !*path)
		return;
	if (variable && is_below(path, "/dev/shm"))
		flmem_launch_report(one->check, variable, NULL, "/dev/shm is tmpfs");
	if (!mount)
		return;
	node.place = mount->place;
	flmem_check_report(
		one->check,
		&(struct flmem_remark){.node = &node, .path = "TMPDIR", .detail = mount->path});
}

static void check_offload_tmpfs(struct flmem_check *check)
{
	flmem_launch_check_each(check, offload_tmpfs);
	check_simulation(check, offload_tmpfs);
}

static void check_arena_unset(struct flmem_check *check)
{
	if (flmem_nvflare_limited_by_caller(check))
		return;
	flmem_launch_check_each(check, launch_arena_unset);
	check_simulations(check);
}

static void check_arena_client_4(struct flmem_check *check)
{
	flmem_launch_check_each(check, launch_arena_client_4);
}

static void check_arena_high(struct flmem_check *check)
{
	flmem_launch_check_each(check, launch_arena_high);
}

static void check_arena_useless(struct flmem_check *check)
{
	flmem_launch_check_each(check, launch_arena_useless);
}

static void check_musl_no_trim(struct flmem_check *check)
{
	flmem_launch_check_each(check, launch_musl_no_trim);
	check_simulation(check, launch_musl_no_trim);
}

static void check_wrong_allocator(struct flmem_check *check)
{
	flmem_launch_check_each(check, launch_wrong_allocator);
}

static void check_jemalloc_decay(struct flmem_check *check)
{
	flmem_launch_check_each(check, launch_jemalloc_decay);
}

static void check_env_dead(struct flmem_check *check)
{
	flmem_launch_check_variables(check, env_dead);
}

static void check_env_cuda_literal(struct flmem_check *check)
{
	flmem_launch_check_variables(check, env_cuda_literal);
}

static void check_env_jemalloc_literal(struct flmem_check *check)
{
	flmem_launch_check_variables(check, env_jemalloc_literal);
}

#define NVFLARE	 .framework = FLMEM_FRAMEWORK_NVFLARE
#define TEMPLATE "NVFlare start script sub_start.sh"
#define LAUNCH	 .inputs = {&flmem_launch_file}
#define ENVS	 .inputs = {FLMEM_NVFLARE_VARIABLE_FILES}

static const struct flmem_rule_row nvflare_launch_rows[] = {
	{
		.rule = {.id = "NVF-ARENA-UNSET",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition =
				 "a server, client or simulator, or a script beside the file or "
				 "code in it (python3 -c) that "
				 "runs one (SimEnv, SimulatorRunner, simulator_run()), started "
				 "with glibc and without MALLOC_ARENA_MAX or "
				 "glibc.malloc.arena_max; a shell "
				 "script has to export it",
			 .message = "glibc creates up to 8 arenas per processor here, and each "
				    "retains the memory freed in it; set MALLOC_ARENA_MAX (only "
				    "NVFlare's sub_start.sh sets it)",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		LAUNCH,
		.check = check_arena_unset,
	},
	{
		.rule = {.id = "NVF-ARENA-CLIENT-4",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "a client's sub_start.sh that gives it 4 arenas",
			 .message = "the client's script sets the server's number of arenas; start "
				    "the client with MALLOC_ARENA_MAX=2 in the environment, "
				    "because the file may be signed",
			 .source = TEMPLATE},
		LAUNCH,
		.check = check_arena_client_4,
	},
	{
		.rule = {.id = "NVF-ARENA-HIGH",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "MALLOC_ARENA_MAX above 8 for a server, or above 4 for a client",
			 .message = "more arenas than recommended: each retains the memory freed "
				    "in it; "
				    "set a smaller number",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		LAUNCH,
		.check = check_arena_high,
	},
	{
		.rule = {.id = "NVF-ARENA-USELESS",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "MALLOC_ARENA_MAX together with jemalloc, or in an Alpine image",
			 .message = "only glibc's malloc reads MALLOC_ARENA_MAX",
			 .source = "glibc manual, \"Memory Allocation Tunables\""},
		LAUNCH,
		.check = check_arena_useless,
	},
	{
		.rule = {.id = "NVF-MUSL-NO-TRIM",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "a server, client or simulator started in an Alpine image, "
				      "beside a job that sets memory_gc_rounds for it",
			 .message = "musl cannot return memory freed inside its heap to the "
				    "kernel, so memory_gc_rounds only collects garbage; use an "
				    "image with glibc",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		LAUNCH,
		.check = check_musl_no_trim,
	},
	{
		.rule = {.id = "NVF-GC-WRONG-ALLOCATOR",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "a server, client or simulator started with tcmalloc, "
				      "mimalloc, Hoard, snmalloc, rpmalloc or Scudo in LD_PRELOAD",
			 .message = "memory_gc_rounds trims the heap of glibc, which this process "
				    "does not use, so its allocator keeps what it retains; preload "
				    "jemalloc, or trim with flmem trim",
			 .source = "NVFlare 2.7.2 to 2.9.0, fuel/utils/memory_utils.py"},
		LAUNCH,
		.check = check_wrong_allocator,
	},
	{
		.rule = {.id = "NVF-JEMALLOC-DECAY",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition =
				 "jemalloc preloaded with a MALLOC_CONF that lacks decay times or "
				 "has one of -1, or with none at all",
			 .message = "jemalloc may retain freed pages for a long time; set "
				    "MALLOC_CONF to dirty_decay_ms:5000,muzzy_decay_ms:5000",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		LAUNCH,
		.check = check_jemalloc_decay,
	},
	{
		.rule = {.id = "NVF-ENV-DEAD-29",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.9",
			 .condition =
				 "NVFLARE_CLIENT_MEMORY_GC_ROUNDS or NVFLARE_CUDA_EMPTY_CACHE set "
				 "(for information where the version is not known)",
			 .message = "NVFlare 2.9 no longer reads this variable, although its guide "
				    "still lists it; set it in the job instead",
			 .source = "NVFlare code, 2.8.3 and 2.9.0"},
		ENVS,
		.check = check_env_dead,
	},
	{
		.rule = {.id = "NVF-ENV-CUDA-LITERAL",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .before = "2.9",
			 .condition = "NVFLARE_CUDA_EMPTY_CACHE that is neither true nor false",
			 .message = "NVFlare treats any value other than true as false; "
				    "write true or false",
			 .source = "NVFlare code, 2.7.2 to 2.8"},
		ENVS,
		.check = check_env_cuda_literal,
	},
	{
		.rule = {.id = "NVF-ENV-JEMALLOC-LITERAL",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition =
				 "NVFLARE_ENABLE_JEMALLOC_PRELOAD that is neither true nor false",
			 .message = "the start script preloads jemalloc only for the value true, "
				    "in lower case; "
				    "write true or false",
			 .source = TEMPLATE},
		LAUNCH,
		.check = check_env_jemalloc_literal,
	},
	{
		.rule = {.id = "NVF-OFFLOAD-TMPFS",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.8",
			 .condition =
				 "a server or simulator that is started with TMPDIR, or /tmp, on "
				 "tmpfs or an emptyDir of medium Memory, beside a job with "
				 "enable_tensor_disk_offload",
			 .message = FLMEM_OFFLOAD_IN_MEMORY,
			 .source = "NVFlare design note \"Tensor Disk Offload\""},
		LAUNCH,
		.check = check_offload_tmpfs,
	},
};

const struct flmem_rule_table flmem_nvflare_launch_rules = {nvflare_launch_rows,
							    FLMEM_ARRAY_SIZE(nvflare_launch_rows)};
