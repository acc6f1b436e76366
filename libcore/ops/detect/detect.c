/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/detect_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/allocator.h"
#include "allocators/call_plan.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "elf/modules.h"
#include "frameworks/framework.h"
#include "ops/detect/detect_argv_env.h"
#include "ops/detect/detect_python.h"
#include "ops/detect/detect_settings.h"
#include "ops/detect/memory_classes.h"
#include "ops/detect/verdict.h"
#include "ops/target/madv_free.h"
#include "ops/target/query.h"
#include "ops/target/query_cuda.h"
#include "ops/target/trim_precheck.h"
#include "proc/files/backing.h"
#include "proc/host_facts.h"
#include "proc/huge_pages.h"
#include "proc/limits/cgroup.h"
#include "proc/limits/headroom.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "remote/checks/preflight.h"
#include "remote/sampled_file.h"
#include "runtimes/cpython.h"
#include "runtimes/nvml.h"
#include "settings/observed.h"

#define BUDGET_US_MIN 5000U

static const char heap_skipped[] = "heap not read (--no-heap)";
static const char cuda_unasked[] = "only the process itself can report it: use --ask-runtime";
static const char no_python[] = "the process has no CPython";
static const char detect_unreadable[] = "its mappings could not be read";
static const char no_files[] = "its program files could not be read";
static const char none_known[] = "none of its program files contains an allocator that flmem knows";
static const char no_driver[] =
	"it uses an NVIDIA GPU, but the driver's library (NVML) does not answer";
static const char no_ulimit[] = "no limit of the process is set (ulimit)";
static const char no_limits[] = "its limits could not be read";
static const char no_mounts[] = "the mounts of this machine could not be read";

/* State that the processes of one call share; each part is opened at its first use. */
struct flmem_detect_session {
	struct flmem_detect_options options;
	int proc;
	struct flmem_image_cache *images;
	struct flmem_cgroups *cgroups;
	struct flmem_relatives relatives;
	struct flmem_nvml *nvml;
	bool nvml_tried;
	struct flmem_python_places pythons;
	uint64_t ends_us;      /* time at which the budget for all heaps ends; 0: no budget */
	uint64_t heap_ends_us; /* time at which the budget for the current process's heap ends */
};

static int open_shared_state(struct flmem_detect_session *session, struct flmem_error *err)
{
	session->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (session->proc < 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, errno,
				       "cannot open /proc; mount it first");
	session->relatives.proc_dirfd = session->proc;
	session->images = flmem_image_cache_new();
	if (!session->images)
		return flmem_error_nomem(err, "cannot read processes");
	/* Continue without the mounts: then only the limits are unknown. */
	flmem_cgroups_open(&session->cgroups, NULL);
	return 0;
}

struct flmem_detect_session *flmem_detect_session_new(const struct flmem_detect_options *options,
						      uint64_t ends_us, struct flmem_error *err)
{
	struct flmem_detect_session *session = calloc(1, sizeof(*session));

	if (!session) {
		flmem_error_nomem(err, "cannot read processes");
		return NULL;
	}
	session->options = *options;
	if (!session->options.budget_us)
		session->options.budget_us = FLMEM_DETECT_BUDGET_US_DEFAULT;
	if (!session->options.timeout_us)
		session->options.timeout_us = FLMEM_DETECT_TIMEOUT_US_DEFAULT;
	session->ends_us = ends_us;
	if (open_shared_state(session, err)) {
		flmem_detect_session_free(session);
		return NULL;
	}
	return session;
}

void flmem_detect_session_free(struct flmem_detect_session *session)
{
	if (!session)
		return;
	flmem_relatives_clear(&session->relatives);
	flmem_nvml_close(session->nvml);
	flmem_cgroups_free(session->cgroups);
	flmem_image_cache_free(session->images);
	flmem_cleanup_close(&session->proc);
	free(session);
}

static const char *set_denied(const struct flmem_process *process,
			      struct flmem_process_report *report)
{
	enum flmem_gate gate = flmem_preflight_reading_gate(process);

	report->denied_why = flmem_gate_why(gate);
	report->denied_how = flmem_gate_how(gate);
	return report->denied_why;
}

static struct flmem_cuda_report unknown_cuda_report(struct flmem_u64 used, const char *rest)
{
	return (struct flmem_cuda_report){.used_bytes = used,
#define CUDA_UNKNOWN(field) .field = FLMEM_UNKNOWN(rest),
					  FLMEM_CUDA_QUERIED(CUDA_UNKNOWN)
#undef CUDA_UNKNOWN
	};
}

static void init_process_report(const struct flmem_process *process,
				struct flmem_process_report *report)
{
	*report = (struct flmem_process_report){
		.pid = process->pid,
		.start_time = process->start_time,
		.memory.thp_bytes = FLMEM_UNKNOWN(detect_unreadable),
		.memory.madv_free_bytes = FLMEM_UNKNOWN(flmem_madv_free_unsought),
		.cuda = unknown_cuda_report(FLMEM_UNKNOWN(detect_unreadable), detect_unreadable),
		.limit.cgroup_max_bytes = FLMEM_UNKNOWN(no_mounts),
		.limit.headroom_bytes = FLMEM_UNKNOWN(no_mounts),
		.limit.address_space_max_bytes = FLMEM_UNKNOWN(no_limits),
		.limit.address_space_left_bytes = FLMEM_UNKNOWN(no_limits),
		.limit.data_max_bytes = FLMEM_UNKNOWN(no_limits),
		.limit.data_left_bytes = FLMEM_UNKNOWN(no_limits),
	};
	flmem_python_report_init(no_python, &report->python);
}

static int read_memory(const struct flmem_process *process, struct flmem_memory_report *memory,
		       struct flmem_status *ret_status, struct flmem_error *err)
{
	int rc = flmem_status_read(process, ret_status, err);

	if (rc)
		return rc;
	if (ret_status->rss_bytes.unknown)
		rc = flmem_preflight_identity(process, err);
	if (rc)
		return rc;
	memory->rss_bytes = ret_status->rss_bytes;
	memory->anon_bytes = ret_status->anon_bytes;
	memory->file_bytes = ret_status->file_bytes;
	memory->shmem_bytes = ret_status->shmem_bytes;
	memory->swap_bytes = ret_status->swap_bytes;
	memory->hugetlb_bytes = ret_status->hugetlb_bytes;
	return 0;
}

/*
 * Reads the memory counters again after the heap: they fit the heap figures better, and the change
 * since the first read is the error of both.
 */
static int read_memory_again(const struct flmem_process *process,
			     struct flmem_memory_report *memory, struct flmem_status *ret_status,
			     struct flmem_error *err)
{
	struct flmem_u64 before = memory->rss_bytes;
	int rc = read_memory(process, memory, ret_status, err);
	struct flmem_u64 after = memory->rss_bytes;

	if (before.unknown || after.unknown)
		memory->drift_bytes = before.unknown ? before : after;
	else
		memory->drift_bytes =
			FLMEM_KNOWN(before.value > after.value ? before.value - after.value
							       : after.value - before.value);
	return rc;
}

static int read_target_argv_env(struct flmem_detect_session *session,
				const struct flmem_process *process,
				struct flmem_process_report *report, struct flmem_error *err)
{
	bool denied;
	int rc = flmem_detect_argv_env(process, &session->relatives, report, &denied, err);

	if (!rc && denied)
		report->settings_unknown = set_denied(process, report);
	return rc;
}

static int copy_allocator(const struct flmem_view *view, const struct flmem_allocator *found,
			  struct flmem_allocator_report *report)
{
	*report = (struct flmem_allocator_report){
		.kind = found->ops->kind,
		.linkage = found->linkage,
		.serves_malloc = found->serves_malloc,
		.evidence = found->evidence,
		.answers = flmem_call_plan_can_answer(view, found),
		.heap = FLMEM_HEAP_UNKNOWN(heap_skipped),
		.path = strdup(found->module->path),
		.version = found->version[0] ? strdup(found->version) : NULL,
		.prefix = found->prefix ? strdup(found->prefix) : NULL,
	};
	return report->path && (report->version || !found->version[0]) &&
			       (report->prefix || !found->prefix)
		       ? 0
		       : -ENOMEM;
}

static uint64_t subtract_or_0(uint64_t from, uint64_t other)
{
	return from > other ? from - other : 0;
}

/*
 * Begins the time budget for the heap of one process. Once the budget for all is spent, every
 * further heap gets a small one.
 */
static void start_heap_budget(struct flmem_detect_session *session)
{
	uint64_t now_us = flmem_clock_us(), budget_us = session->options.budget_us;
	uint64_t left_us = subtract_or_0(session->ends_us, now_us);

	if (session->ends_us && left_us < budget_us)
		budget_us = left_us > BUDGET_US_MIN ? left_us : BUDGET_US_MIN;
	session->heap_ends_us = now_us + budget_us;
}

/* The rest of the time budget; never 0. */
static uint64_t heap_budget_us(const struct flmem_detect_session *session)
{
	uint64_t left_us = subtract_or_0(session->heap_ends_us, flmem_clock_us());

	return left_us ? left_us : 1;
}

static void read_heap(const struct flmem_detect_session *session, const struct flmem_view *view,
		      const struct flmem_allocator *found, struct flmem_allocator_report *report)
{
	const struct flmem_heap_limits limits = {.budget_us = heap_budget_us(session)};
	const char *why = session->options.skip_heap
				  ? heap_skipped
				  : flmem_query_why_closed(found, report->answers);

	if (why)
		report->heap = FLMEM_HEAP_UNKNOWN(why);
	else
		found->ops->read_heap(view, found, &limits, &report->heap);
}

/* The program files of one process, found once. */
struct program_files {
	struct flmem_allocator_list allocators;
	struct flmem_cpython python;
	bool has_python;
};

static struct flmem_borrow_options query_options(const struct flmem_detect_session *session)
{
	return (struct flmem_borrow_options){.timeout_us = session->options.timeout_us,
					     .assume_seccomp = session->options.assume_seccomp};
}

/* Queries CUDA's pools; code runs in the process only if it uses a GPU and has an interpreter. */
static void query_cuda(const struct flmem_detect_session *session, const struct flmem_view *view,
		       const struct program_files *found, struct flmem_process_report *report)
{
	const struct flmem_borrow_options how = query_options(session);

	if (session->options.ask && report->cuda.reserved_bytes.unknown == cuda_unasked &&
	    found->has_python && !flmem_query_must_end(&report->query))
		flmem_query_cuda(view, &found->allocators, &how, &report->cuda, &report->query);
}

static int read_allocators(struct flmem_detect_session *session, const struct flmem_view *view,
			   const struct program_files *found, struct flmem_process_report *report)
{
	const struct flmem_module *program = flmem_modules_main(view->modules);
	const struct flmem_allocator_list *list = &found->allocators;
	const struct flmem_borrow_options how = query_options(session);
	const char *why = no_files;

	if (!list->count) {
		report->allocators_unknown = none_known;
		if (!program || !flmem_module_image(program, &why))
			report->allocators_unknown = why;
		return 0;
	}
	report->allocators = calloc(list->count, sizeof(*report->allocators));
	if (!report->allocators)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++) {
		report->allocator_count++;
		if (copy_allocator(view, &list->rows[i], &report->allocators[i]))
			return -ENOMEM;
		read_heap(session, view, &list->rows[i], &report->allocators[i]);
	}
	if (session->options.ask && !session->options.skip_heap)
		flmem_query_all(view, list, &how, report->allocators, &report->query);
	query_cuda(session, view, found, report);
	return 0;
}

static int read_interpreter(struct flmem_detect_session *session, const struct flmem_view *view,
			    const struct program_files *found, struct flmem_process_report *report)
{
	const struct flmem_python_reading reading = {
		.python = found->has_python ? &found->python : NULL,
		.budget_us = session->options.skip_heap ? 0 : heap_budget_us(session),
		.places = &session->pythons,
	};
	int rc = flmem_python_report_read(view, &reading, report);

	if (!rc)
		flmem_python_settle_mimalloc(reading.python, report);
	return rc;
}

/* Every CUDA context maps the driver's device files. */
static bool maps_gpu_devices(const struct flmem_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		if (flmem_nvml_is_device(maps->rows[i].name))
			return true;
	return false;
}

static struct flmem_cuda_report read_cuda(struct flmem_detect_session *session,
					  const struct flmem_process *process,
					  const struct flmem_maps *maps)
{
	if (!maps_gpu_devices(maps))
		return (struct flmem_cuda_report){0};
	if (!session->nvml_tried)
		flmem_nvml_open(&session->nvml, NULL);
	session->nvml_tried = true;
	return unknown_cuda_report(session->nvml
					   ? flmem_nvml_process_bytes(session->nvml, process->pid)
					   : FLMEM_UNKNOWN(no_driver),
				   cuda_unasked);
}

/* The shared memory and the files that back its pages; the smaller ones are left out. */
static int read_backings(const struct flmem_process *process, const struct flmem_maps *maps,
			 struct flmem_process_report *report)
{
	FLMEM_AUTO_BACKINGS struct flmem_backings backings = {0};
	struct flmem_u64 shared = report->memory.shmem_bytes;

	if (flmem_backings_read(process, maps, shared.unknown || shared.value, FLMEM_BACKINGS_MAX,
				&backings, NULL)) {
		report->backings_unknown = detect_unreadable;
		return 0;
	}
	report->backings = calloc(FLMEM_BACKINGS_MAX, sizeof(*report->backings));
	if (!report->backings)
		return -ENOMEM;
	for (size_t i = 0; i < backings.count && backings.rows[i].resident_bytes; i++) {
		report->backings[i] = (struct flmem_backing_report){
			.kind = backings.rows[i].kind,
			.name = strdup(backings.rows[i].name),
			.mapped_bytes = backings.rows[i].mapped_bytes,
			.resident_bytes = backings.rows[i].resident_bytes,
		};
		if (!report->backings[i].name)
			return -ENOMEM;
		report->backing_count++;
	}
	return 0;
}

/* Returns true if a trim would not be refused: only then is it advised. */
static bool is_trim_advisable(const struct flmem_process_report *report)
{
	struct flmem_heap_report heap = flmem_heap_sum(report->allocators, report->allocator_count,
						       report->allocators_unknown);
	uint64_t bytes =
		flmem_u64_or(heap.trimmable_bytes, 0) + flmem_u64_or(heap.decaying_bytes, 0);

	return bytes >= flmem_verdict_worth(report);
}

static int check_trim(const struct flmem_view *view, const struct flmem_allocator_list *list,
		      struct flmem_process_report *report)
{
	struct flmem_error err = {0};

	if (!is_trim_advisable(report))
		return 0;
	report->trim_refused_code = flmem_trim_precheck(view, list, &err);
	report->trim_is_filtered = flmem_trim_precheck_is_filtered(view->process);
	if (report->trim_refused_code)
		report->trim_refused = strdup(err.message);
	return report->trim_refused_code && !report->trim_refused ? -ENOMEM : 0;
}

static int read_files(struct flmem_detect_session *session, const struct flmem_process *process,
		      const struct flmem_maps *maps, struct flmem_process_report *report)
{
	FLMEM_AUTO_MODULES struct flmem_modules modules = {0};
	struct flmem_view view = {.process = process, .maps = maps, .modules = &modules};
	struct program_files found = {0};
	int rc = flmem_modules_load(process, maps, session->images, &modules, NULL);

	if (rc) {
		report->allocators_unknown = no_files;
		report->python.unknown = no_files;
		return 0;
	}
	start_heap_budget(session);
	flmem_allocators_find(&view, &found.allocators);
	found.has_python = flmem_cpython_find(&view, &found.python);
	rc = read_allocators(session, &view, &found, report);
	if (!rc)
		flmem_detect_note_settings(report);
	if (!rc && !session->options.skip_heap)
		report->memory.madv_free_bytes =
			flmem_madv_free_bytes(&view, &found.allocators, report->allocators);
	if (!rc)
		rc = check_trim(&view, &found.allocators, report);
	if (!rc)
		rc = read_interpreter(session, &view, &found, report);
	if (!rc && !session->options.skip_heap)
		flmem_madv_free_search(process, report);
	return rc;
}

/* Reads everything that needs ptrace access to the process. */
static int read_traced_parts(struct flmem_detect_session *session,
			     const struct flmem_process *process,
			     struct flmem_process_report *report, struct flmem_error *err)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	int rc = flmem_maps_read(process, &maps, err);

	if (rc == FLMEM_ENOPROC)
		return rc;
	if (rc) {
		const char *why =
			rc == FLMEM_EPERM ? set_denied(process, report) : detect_unreadable;

		report->allocators_unknown = why;
		flmem_python_report_init(why, &report->python);
		report->python.unknown = why;
		report->backings_unknown = why;
		report->memory.thp_bytes = FLMEM_UNKNOWN(why);
		report->cuda = unknown_cuda_report(FLMEM_UNKNOWN(why), why);
		return 0;
	}
	report->memory.thp_bytes = flmem_huge_bytes(process, &maps, report->memory.rss_bytes.value);
	report->cuda = read_cuda(session, process, &maps);
	report->sampled_into = flmem_sampled_file_of(process, &maps);
	if (read_backings(process, &maps, report) || read_files(session, process, &maps, report))
		return flmem_error_nomem(err, "cannot store the report");
	return 0;
}

static void read_cgroup_limit(struct flmem_detect_session *session,
			      const struct flmem_process *process,
			      struct flmem_limit_report *report)
{
	struct flmem_cgroup_limit limit;

	if (!session->cgroups)
		return;
	flmem_cgroups_limit(session->cgroups, process, &limit);
	report->cgroup_max_bytes = limit.max_bytes;
	report->headroom_bytes = limit.headroom_bytes;
}

/* Finds a limit in `limits`, the contents of /proc/PID/limits. */
static void find_ulimit(const char *limits, const char *name, struct flmem_u64 used,
			struct flmem_u64 *ret_max, struct flmem_u64 *ret_left)
{
	uint64_t max;

	if (!flmem_headroom_limit_find(limits, name, &max))
		return;
	*ret_max = *ret_left = FLMEM_UNKNOWN(no_ulimit);
	if (max == UINT64_MAX)
		return;
	*ret_max = FLMEM_KNOWN(max);
	*ret_left = used;
	if (!used.unknown)
		*ret_left = FLMEM_KNOWN(subtract_or_0(max, used.value));
}

static void read_ulimits(const struct flmem_process *process, const struct flmem_status *status,
			 struct flmem_limit_report *limit)
{
	FLMEM_AUTO_BUF struct flmem_buf limits = FLMEM_BUF_INIT;

	if (!flmem_headroom_limits_read(process, &limits))
		return;
	find_ulimit(limits.data, "Max address space", status->size_bytes,
		    &limit->address_space_max_bytes, &limit->address_space_left_bytes);
	find_ulimit(limits.data, "Max data size", status->data_bytes, &limit->data_max_bytes,
		    &limit->data_left_bytes);
}

static int add_verdict(const struct flmem_detect_session *session,
		       struct flmem_process_report *report, struct flmem_error *err)
{
	report->heap = flmem_heap_sum(report->allocators, report->allocator_count,
				      report->allocators_unknown);
	flmem_verdict_judge(report, &report->verdict);
	if (session->options.skip_heap)
		flmem_verdict_withhold(&report->verdict, heap_skipped);
	return flmem_verdict_explain(report, &report->verdict, err);
}

int flmem_detect_session_read(struct flmem_detect_session *session, pid_t pid,
			      struct flmem_process_report *ret_report, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_process_report_clear) struct flmem_process_report report = {0};
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_status status;
	int rc = flmem_process_open(pid, &process, err);

	if (!rc)
		rc = flmem_preflight_identity(&process, err);
	if (rc)
		return rc;
	/*
	 * Pins the memory before the first read. If access is denied, a later borrow of a thread
	 * reports it.
	 */
	if (session->options.ask)
		(void)flmem_process_pin_memory(&process, NULL);
	init_process_report(&process, &report);
	rc = read_memory(&process, &report.memory, &status, err);
	if (!rc)
		rc = read_target_argv_env(session, &process, &report, err);
	if (!rc)
		rc = read_traced_parts(session, &process, &report, err);
	if (!rc)
		rc = read_memory_again(&process, &report.memory, &status, err);
	if (!rc)
		rc = add_verdict(session, &report, err);
	if (rc)
		return rc;
	read_cgroup_limit(session, &process, &report.limit);
	read_ulimits(&process, &status, &report.limit);
	/* Values read from a process that was ending are invalid. */
	if (!flmem_process_alive(&process))
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "process %d ended while it was read",
				       (int)pid);
	*ret_report = report;
	report = (struct flmem_process_report){0};
	return 0;
}
