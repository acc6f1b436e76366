/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/live_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "base/cleanup.h"
#include "base/text/text.h"
#include "rules/rules.h"

#define DECAY		  "dirty_decay_ms:5000,muzzy_decay_ms:5000"
#define SERVER_MAX	  8U
#define CLIENT_MAX	  4U
#define TRIMMABLE_MIN	  (UINT64_C(64) << 20)
#define TRIMMABLE_PERCENT 20U /* percent of RSS */
#define HEADROOM_PERCENT  10U /* percent of the limit */

const char *flmem_live_setting(const struct flmem_process_report *process, const char *name)
{
	for (size_t i = 0; i < process->setting_count; i++)
		if (strcmp(process->settings[i].name, name) == 0)
			return process->settings[i].value;
	return NULL;
}

/* The allocator that serves plain malloc; NULL when it is not known. */
const struct flmem_allocator_report *flmem_live_malloc(const struct flmem_process_report *process)
{
	for (size_t i = 0; i < process->allocator_count; i++)
		if (process->allocators[i].serves_malloc)
			return &process->allocators[i];
	return NULL;
}

bool flmem_live_malloc_is(const struct flmem_process_report *process,
			  enum flmem_allocator_kind kind)
{
	const struct flmem_allocator_report *allocator = flmem_live_malloc(process);

	return allocator && allocator->kind == kind;
}

static const char *recommended_arenas(const struct flmem_process_report *process)
{
	return flmem_role_is_server(process->role) ? "4" : "2";
}

bool flmem_live_requested_arenas(const struct flmem_process_report *process, uint64_t *ret_arenas)
{
	return flmem_glibc_arena_max_find(flmem_live_setting(process, "MALLOC_ARENA_MAX"),
					  flmem_live_setting(process, "GLIBC_TUNABLES"),
					  ret_arenas);
}

void flmem_live_put(char *field, size_t size, const char *text)
{
	char clean[256];

	snprintf(field, size, "%s", flmem_text_escape(text, clean, sizeof(clean)));
}

void flmem_live_put_bytes(struct flmem_live_remark *remark, struct flmem_u64 bytes)
{
	remark->in_bytes = !bytes.unknown;
	if (bytes.unknown)
		snprintf(remark->current, sizeof(remark->current), "unknown");
	else
		snprintf(remark->current, sizeof(remark->current), "%" PRIu64, bytes.value);
}

#define PUT(field, text) flmem_live_put((field), sizeof(field), (text))

const char *flmem_live_arena_setting(const struct flmem_process_report *process)
{
	const char *variable = flmem_live_setting(process, "MALLOC_ARENA_MAX");
	const char *tunables = flmem_live_setting(process, "GLIBC_TUNABLES");
	uint64_t limit;

	if (flmem_glibc_arena_max_tuned(tunables) &&
	    (!variable || flmem_glibc_arena_max_find(NULL, tunables, &limit) ||
	     !flmem_glibc_arena_max_find("1", tunables, &limit)))
		return "GLIBC_TUNABLES";
	return variable ? "MALLOC_ARENA_MAX" : NULL;
}

/* Whether malloc itself holds a limit of arenas, which is then in effect. */
static bool has_limit_in_force(const struct flmem_process_report *process)
{
	const struct flmem_allocator_report *allocator = flmem_live_malloc(process);

	return allocator && !allocator->heap.arena_max.unknown && allocator->heap.arena_max.value;
}

static bool is_unlimited(const struct flmem_process_report *process)
{
	uint64_t arenas;

	return process->role && !process->settings_unknown &&
	       flmem_live_malloc_is(process, FLMEM_ALLOCATOR_GLIBC) &&
	       !flmem_live_requested_arenas(process, &arenas) && !has_limit_in_force(process);
}

static void put_arenas(const struct flmem_process_report *process, struct flmem_live_remark *remark)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	PUT(remark->proposed, recommended_arenas(process));
	if (!process->heap.arenas.unknown)
		snprintf(remark->detail, sizeof(remark->detail), "%s now",
			 flmem_text_counted(process->heap.arenas.value, "arena", count,
					    sizeof(count)));
}

static bool live_arena_unset(const struct flmem_process_report *process,
			     struct flmem_live_remark *remark)
{
	if (!is_unlimited(process) || flmem_live_arena_setting(process))
		return false;
	remark->path = "MALLOC_ARENA_MAX";
	put_arenas(process, remark);
	return true;
}

static bool live_arena_ignored(const struct flmem_process_report *process,
			       struct flmem_live_remark *remark)
{
	const char *name = flmem_live_arena_setting(process);

	if (!is_unlimited(process) || !name)
		return false;
	remark->path = name;
	PUT(remark->current, flmem_live_setting(process, name));
	put_arenas(process, remark);
	if (flmem_live_malloc(process)->heap.arena_max.unknown &&
	    flmem_glibc_arena_max_until_2_38(flmem_live_setting(process, name)))
		PUT(remark->detail, FLMEM_GLIBC_ARENA_MAX_UNTIL_2_38);
	return true;
}

static bool live_arena_high(const struct flmem_process_report *process,
			    struct flmem_live_remark *remark)
{
	uint64_t arenas;

	if (!process->role || !flmem_live_malloc_is(process, FLMEM_ALLOCATOR_GLIBC) ||
	    !flmem_live_requested_arenas(process, &arenas) ||
	    arenas <= (flmem_role_is_server(process->role) ? SERVER_MAX : CLIENT_MAX))
		return false;
	remark->path = flmem_live_arena_setting(process);
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64, arenas);
	PUT(remark->proposed, recommended_arenas(process));
	return true;
}

/* glibc reads the limit before it creates the first arena; a later change has no effect. */
static bool arena_exceeded(const struct flmem_process_report *process,
			   struct flmem_live_remark *remark)
{
	const struct flmem_allocator_report *allocator = flmem_live_malloc(process);
	uint64_t asked;

	if (!allocator || allocator->kind != FLMEM_ALLOCATOR_GLIBC ||
	    allocator->heap.arenas.unknown || !flmem_live_requested_arenas(process, &asked) ||
	    allocator->heap.arenas.value <= asked)
		return false;
	remark->path = "heap.arenas";
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64,
		 allocator->heap.arenas.value);
	snprintf(remark->detail, sizeof(remark->detail),
		 "%s limits them to %" PRIu64 " in its environment",
		 flmem_live_arena_setting(process), asked);
	return true;
}

static bool live_arena_useless(const struct flmem_process_report *process,
			       struct flmem_live_remark *remark)
{
	const struct flmem_allocator_report *allocator = flmem_live_malloc(process);
	const char *value = flmem_live_setting(process, "MALLOC_ARENA_MAX");

	if (!value || !allocator || allocator->kind == FLMEM_ALLOCATOR_GLIBC ||
	    allocator->kind == FLMEM_ALLOCATOR_UNKNOWN)
		return false;
	remark->path = "MALLOC_ARENA_MAX";
	PUT(remark->current, value);
	snprintf(remark->detail, sizeof(remark->detail), "malloc is served by %s",
		 flmem_allocator_name(allocator->kind));
	return true;
}

/*
 * Whether jemalloc knows these options: 5.0 introduced them, older versions warn and ignore them.
 */
static bool supports_decay(const struct flmem_process_report *process)
{
	const char *version = flmem_live_malloc(process)->version;

	return !version || (!flmem_text_starts(version, "3.") && !flmem_text_starts(version, "4."));
}

static bool live_jemalloc_decay(const struct flmem_process_report *process,
				struct flmem_live_remark *remark)
{
	const char *value = flmem_live_setting(process, "MALLOC_CONF");

	if (process->settings_unknown || !flmem_live_malloc_is(process, FLMEM_ALLOCATOR_JEMALLOC) ||
	    !supports_decay(process) ||
	    (value && strstr(value, "dirty_decay_ms:") && strstr(value, "muzzy_decay_ms:") &&
	     !strstr(value, "decay_ms:-1")))
		return false;
	remark->path = "MALLOC_CONF";
	PUT(remark->current, value ? value : "");
	PUT(remark->proposed, DECAY);
	return true;
}

static bool check_trimmable(const struct flmem_process_report *process,
			    struct flmem_live_remark *remark)
{
	struct flmem_u64 bytes = process->heap.trimmable_bytes, rss = process->memory.rss_bytes;
	char shown[FLMEM_TEXT_BYTES_MAX], of[FLMEM_TEXT_BYTES_MAX];

	if (bytes.unknown || rss.unknown || bytes.value < TRIMMABLE_MIN ||
	    bytes.value < rss.value / 100 * TRIMMABLE_PERCENT)
		return false;
	remark->path = "heap.trimmable_bytes";
	flmem_live_put_bytes(remark, bytes);
	snprintf(remark->detail, sizeof(remark->detail), "%s of %s; flmem trim --pid %d",
		 flmem_text_bytes(bytes.value, shown, sizeof(shown)),
		 flmem_text_bytes(rss.value, of, sizeof(of)), (int)process->pid);
	return true;
}

static bool limit_near(const struct flmem_process_report *process, struct flmem_live_remark *remark)
{
	struct flmem_u64 limit = process->limit.cgroup_max_bytes;
	struct flmem_u64 room = process->limit.headroom_bytes;
	char shown[FLMEM_TEXT_BYTES_MAX], of[FLMEM_TEXT_BYTES_MAX];

	if (limit.unknown || room.unknown || room.value >= limit.value / 100 * HEADROOM_PERCENT)
		return false;
	remark->path = "limit.headroom_bytes";
	flmem_live_put_bytes(remark, room);
	snprintf(remark->detail, sizeof(remark->detail), "%s left of %s",
		 flmem_text_bytes(room.value, shown, sizeof(shown)),
		 flmem_text_bytes(limit.value, of, sizeof(of)));
	return true;
}

static bool live_musl_no_trim(const struct flmem_process_report *process,
			      struct flmem_live_remark *remark)
{
	if (!process->role || !flmem_live_malloc_is(process, FLMEM_ALLOCATOR_MUSL))
		return false;
	remark->path = "allocators";
	PUT(remark->current, flmem_allocator_name(FLMEM_ALLOCATOR_MUSL));
	return true;
}

static const struct flmem_live_row live_rules_rows[] = {
	{.rule = {.id = "LIVE-ARENA-UNSET",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a server, client or trainer that runs with glibc's malloc and "
			       "without MALLOC_ARENA_MAX",
		  .message = "glibc creates up to 8 arenas per processor, and each retains the "
			     "memory freed in it; start the process with MALLOC_ARENA_MAX",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = live_arena_unset},
	{.rule = {.id = "LIVE-ARENA-IGNORED",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a server, client or trainer that runs with glibc's malloc and a "
			       "MALLOC_ARENA_MAX, or tunable, that is not a whole number above 0",
		  .message = "glibc sets no limit with this value and creates up to 8 arenas per "
			     "processor; start the process with a whole number above 0",
		  .source = "glibc 2.36 to 2.43, elf/dl-tunables.c"},
	 .check = live_arena_ignored},
	{.rule = {.id = "LIVE-ARENA-HIGH",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "MALLOC_ARENA_MAX above 8 in a server, or above 4 in a client",
		  .message = "more arenas than recommended: each retains the memory freed in it; "
			     "start the process with a smaller number",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = live_arena_high},
	{.rule = {.id = "LIVE-ARENA-EXCEEDED",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "more of glibc's arenas than MALLOC_ARENA_MAX allows",
		  .message = "the limit is not in effect: glibc reads it once, when the process "
			     "starts, and the program can change it with mallopt",
		  .source = "glibc manual, \"Memory Allocation Tunables\""},
	 .check = arena_exceeded},
	{.rule = {.id = "LIVE-ARENA-USELESS",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "MALLOC_ARENA_MAX in a process whose malloc is not glibc's",
		  .message = "only glibc's malloc reads MALLOC_ARENA_MAX",
		  .source = "glibc manual, \"Memory Allocation Tunables\""},
	 .check = live_arena_useless},
	{.rule = {.id = "LIVE-JEMALLOC-DECAY",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "jemalloc 5 in use with a MALLOC_CONF that lacks decay times or has "
			       "one of -1, or with none at all",
		  .message = "jemalloc may retain freed pages for a long time; set MALLOC_CONF "
			     "to " DECAY,
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = live_jemalloc_decay},
	{.rule = {.id = "LIVE-TRIMMABLE",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a heap of which a trim could release at least 64 MiB and a fifth "
			       "of the resident memory",
		  .message = "the allocator retains memory that the program has freed; a trim "
			     "releases it now, memory_gc_rounds releases it between rounds",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = check_trimmable},
	{.rule = {.id = "LIVE-LIMIT-NEAR",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "less than a tenth left below the memory limit of the control group",
		  .message = "the process is close to the memory limit of its control group, at "
			     "which the kernel kills it; trim it, or clean up every round",
		  .source = "Linux documentation, cgroup-v2, \"memory.max\""},
	 .check = limit_near},
	{.rule = {.id = "LIVE-MUSL-NO-TRIM",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "a federated-learning process with musl's malloc",
		  .message = "musl cannot return memory freed inside its heap to the kernel, so "
			     "cleanups only collect garbage; use an image with glibc",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = live_musl_no_trim},
};

const struct flmem_live_table flmem_live_rules = {live_rules_rows,
						  FLMEM_ARRAY_SIZE(live_rules_rows)};

/* Bytes of the message of a row with its detail. */
#define MESSAGE_MAX 1024

static bool fill_live_finding(struct flmem_finding *finding,
			      const struct flmem_finding_place *place,
			      const struct flmem_live_remark *remark)
{
	const struct flmem_rule *rule = finding->rule;
	char path[128], message[MESSAGE_MAX];

	snprintf(path, sizeof(path), "%s%s", place->owner ? place->owner : "", remark->path);
	snprintf(message, sizeof(message), "%s%s%s%s", rule->message, *remark->detail ? " (" : "",
		 remark->detail, *remark->detail ? ")" : "");
	finding->severity = remark->severity ? *remark->severity : rule->severity;
	finding->message = strdup(message);
	finding->file = strdup(place->file);
	finding->line = place->line;
	finding->path = strdup(path);
	finding->in_bytes = remark->in_bytes;
	finding->current = *remark->current ? strdup(remark->current) : NULL;
	finding->proposed = *remark->proposed ? strdup(remark->proposed) : NULL;
	return finding->message && finding->file && finding->path &&
	       (finding->current || !*remark->current) && (finding->proposed || !*remark->proposed);
}

int flmem_live_finding_add(const struct flmem_rule *rule, const struct flmem_finding_place *place,
			   const struct flmem_live_remark *remark,
			   struct flmem_recommendations *found, struct flmem_error *err)
{
	struct flmem_finding finding = {.rule = rule};

	if (fill_live_finding(&finding, place, remark) && flmem_findings_add(found, &finding))
		return 0;
	flmem_finding_clear(&finding);
	return flmem_error_nomem(err, "cannot store the finding of %s", rule->id);
}

int flmem_live_row_run(const struct flmem_live_row *row, const struct flmem_process_report *process,
		       const struct flmem_version_number *release,
		       struct flmem_recommendations *found, struct flmem_error *err)
{
	char file[32];
	const struct flmem_finding_place place = {.file = file};
	struct flmem_live_remark remark = {0};

	if ((row->offload && !found->disk_offload) || !flmem_rule_holds(&row->rule, release) ||
	    !row->check(process, &remark))
		return 0;
	snprintf(file, sizeof(file), "process %d", (int)process->pid);
	return flmem_live_finding_add(&row->rule, &place, &remark, found, err);
}
