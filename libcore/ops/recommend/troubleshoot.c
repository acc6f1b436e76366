/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/troubleshoot.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "frameworks/troubles.h"
#include "proc/limits/cgroup.h"
#include "proc/limits/pressure.h"
#include "proc/process.h"

struct walks {
	struct flmem_troubles troubles;
	const struct flmem_recommendations *found;
	enum flmem_role role; /* that the caller named */
	size_t without_role;
	struct flmem_error *err;
};

static int walks_nomem(struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot hold the troubleshooting list");
}

static void walk_clear(struct flmem_trouble_walk *walk)
{
	for (size_t i = 0; i < walk->step_count; i++) {
		free(walk->steps[i].evidence);
		free(walk->steps[i].next);
	}
	free(walk->subject);
	free(walk->reason);
}

void flmem_troubles_clear(struct flmem_troubles *troubles)
{
	for (size_t i = 0; i < troubles->count; i++)
		walk_clear(&troubles->walks[i]);
	free(troubles->walks);
	*troubles = (struct flmem_troubles){0};
}

/* False when out of memory. */
static bool add_answer(struct flmem_trouble_walk *walk, size_t index,
		       const struct flmem_trouble_case *one)
{
	struct flmem_step_answer *row = &walk->steps[walk->step_count++];
	struct flmem_trouble_answer answer;

	flmem_trouble_answer(index, one, &answer);
	*row = (struct flmem_step_answer){
		.step = flmem_trouble_step(index),
		.state = answer.state,
		.evidence = strdup(answer.evidence),
		.next = *answer.next ? strdup(answer.next) : NULL,
	};
	return row->evidence && (row->next || !*answer.next);
}

static bool fill_walk(struct flmem_trouble_walk *walk, const struct flmem_trouble_case *one,
		      const char *subject, const char *because)
{
	const struct flmem_trouble_step *step;
	bool whole;

	walk->list = one->list;
	walk->subject = strdup(subject);
	walk->reason = strdup(because);
	whole = walk->subject && walk->reason;
	for (size_t i = 0; (step = flmem_trouble_step(i)); i++)
		if (step->list == one->list && walk->step_count < FLMEM_TROUBLE_STEPS_MAX)
			whole &= add_answer(walk, i, one);
	return whole;
}

static int add_walk(struct walks *walks, const struct flmem_trouble_case *one, const char *subject,
		    const char *because)
{
	struct flmem_troubles *troubles = &walks->troubles;
	struct flmem_trouble_walk *grown =
		reallocarray(troubles->walks, troubles->count + 1, sizeof(*grown));
	struct flmem_trouble_walk walk = {0};

	if (grown)
		troubles->walks = grown;
	if (!grown || !fill_walk(&walk, one, subject, because)) {
		walk_clear(&walk);
		return walks_nomem(walks->err);
	}
	grown[troubles->count++] = walk;
	return 0;
}

/*
 * The kernel does not record when a group was created or when a kill in it occurred, so a kill may
 * be older than a live process. The kills in a recording occurred during it.
 */
static void put_kills(const struct flmem_trouble_case *one, uint64_t kills, char *out, size_t size)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	snprintf(out, size, "the kernel has killed %s in its control group %s",
		 flmem_text_counted(kills, "process", count, sizeof(count)),
		 one->recorded
			 ? "while it was recorded"
			 : "since the group was created, possibly before this process started");
}

/*
 * The reason for the choice of the list; false if the role is not known, so that no list applies.
 */
static bool choose_list(const struct walks *walks, struct flmem_trouble_case *one, uint64_t kills,
			char *because, size_t size)
{
	if (walks->role) {
		one->role = walks->role;
		snprintf(because, size, "set by --role");
	} else if (kills) {
		put_kills(one, kills, because, size);
		one->list = FLMEM_TROUBLE_OOM;
		return true;
	} else if (one->role) {
		snprintf(because, size, "its role is %s", flmem_role_name(one->role));
	} else {
		return false;
	}
	one->list = flmem_role_is_server(one->role) ? FLMEM_TROUBLE_SERVER : FLMEM_TROUBLE_CLIENT;
	return true;
}

/* If `place` is a recording, it is first. */
static void put_subject(const struct flmem_trouble_case *one, char *out, size_t size)
{
	const char *role = flmem_role_name(one->role);

	snprintf(out, size, "%.200s%sprocess %d%s%s%s", one->recorded ? one->place : "",
		 one->recorded ? ": " : "", (int)one->pid, role ? " (" : "", role ? role : "",
		 role ? ")" : "");
}

static int walk_case(struct walks *walks, struct flmem_trouble_case *one, struct flmem_u64 kills)
{
	char subject[256], because[160];

	put_subject(one, subject, sizeof(subject)); /* with its own role, not that of --role */
	if (!choose_list(walks, one, flmem_u64_or(kills, 0), because, sizeof(because))) {
		walks->without_role++;
		return 0;
	}
	return add_walk(walks, one, subject, because);
}

/*
 * The counters of its control group. Without a limit, kills in it were caused by the host's memory.
 * A process that has exited meanwhile has no group.
 */
static struct flmem_u64 kills_of(struct flmem_cgroups *cgroups,
				 const struct flmem_process_report *report)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_PRESSURE_FILES struct flmem_pressure_files files = FLMEM_PRESSURE_FILES_INIT;
	struct flmem_pressure pressure;

	if (report->limit.cgroup_max_bytes.unknown)
		return report->limit.cgroup_max_bytes;
	if (flmem_process_open(report->pid, &process, NULL) ||
	    process.start_time != report->start_time)
		return FLMEM_UNKNOWN("the process has exited");
	flmem_pressure_open(cgroups, &process, &files);
	flmem_pressure_read(&files, &pressure);
	return pressure.oom_kill;
}

static int walk_processes(struct walks *walks, const struct flmem_detect_report *report)
{
	struct flmem_cgroups *cgroups = NULL;
	int rc = flmem_cgroups_open(&cgroups, walks->err);

	for (size_t i = 0; i < report->process_count && !rc; i++) {
		const struct flmem_process_report *process = &report->processes[i];
		char place[32];
		struct flmem_trouble_case one = {
			.role = process->role,
			.framework = process->framework,
			.place = place,
			.pid = process->pid,
			.process = process,
			.found = walks->found,
		};

		snprintf(place, sizeof(place), "process %d", (int)process->pid);
		rc = walk_case(walks, &one, kills_of(cgroups, process));
	}
	flmem_cgroups_free(cgroups);
	return rc;
}

static bool is_killed(const struct flmem_recommendations *found, pid_t pid)
{
	for (size_t i = 0; i < found->oom_log_count; i++)
		if (found->oom_logs[i].log.kills && found->oom_logs[i].log.last.pid == pid)
			return true;
	return false;
}

static int walk_recording(struct walks *walks, const struct flmem_checked_recording *recording)
{
	int rc = 0;

	for (size_t i = 0; i < recording->summary->count && !rc; i++) {
		const struct flmem_watch_result *result = &recording->summary->results[i];
		struct flmem_trouble_case one = {
			.role = result->process.role,
			.framework = result->process.framework,
			.place = recording->file,
			.pid = result->process.pid,
			.recorded = result,
			.found = walks->found,
		};

		if (!is_killed(walks->found, one.pid)) /* that walk includes the recording */
			rc = walk_case(walks, &one, result->pressure_rise.oom_kill);
	}
	return rc;
}

/* The recording of the killed process, if one was checked. */
static const struct flmem_watch_result *
find_recorded_process(const struct flmem_recommendations *found, pid_t pid)
{
	for (size_t i = 0; i < found->recording_count; i++)
		for (size_t r = 0; r < found->recordings[i].summary->count; r++)
			if (found->recordings[i].summary->results[r].process.pid == pid)
				return &found->recordings[i].summary->results[r];
	return NULL;
}

static int walk_kill(struct walks *walks, const struct flmem_checked_oom_log *checked)
{
	const struct flmem_oom_kill *kill = &checked->log.last;
	const struct flmem_watch_result *known = find_recorded_process(walks->found, kill->pid);
	struct flmem_trouble_case one = {
		.list = FLMEM_TROUBLE_OOM,
		.role = known ? known->process.role : walks->role,
		.framework = known ? known->process.framework : FLMEM_FRAMEWORK_NONE,
		.place = checked->file,
		.pid = kill->pid,
		.recorded = known,
		.kill = kill,
		.found = walks->found,
	};
	char subject[320], because[96];

	snprintf(subject, sizeof(subject), "%.200s: process %d (%s)", checked->file, (int)kill->pid,
		 kill->name);
	if (checked->log.kills > 1)
		snprintf(because, sizeof(because), "the kernel killed it, the last of %zu kills",
			 checked->log.kills);
	else
		snprintf(because, sizeof(because), "the kernel killed it");
	return add_walk(walks, &one, subject, because);
}

/* A job's log does not name its process. */
static int walk_gpu_failure(struct walks *walks, const struct flmem_checked_oom_log *checked)
{
	struct flmem_trouble_case one = {
		.list = FLMEM_TROUBLE_OOM,
		.role = walks->role,
		.place = checked->file,
		.gpu = &checked->gpu,
		.found = walks->found,
	};
	char subject[320], because[96];

	snprintf(subject, sizeof(subject), "%.300s", checked->file);
	if (checked->gpu.count > 1)
		snprintf(because, sizeof(because), "it reports that GPU memory ran out, %zu times",
			 checked->gpu.count);
	else
		snprintf(because, sizeof(because), "it reports that GPU memory ran out");
	return add_walk(walks, &one, subject, because);
}

static int walk_log(struct walks *walks, const struct flmem_checked_oom_log *checked)
{
	int rc = checked->log.kills ? walk_kill(walks, checked) : 0;

	return rc || !checked->gpu.count ? rc : walk_gpu_failure(walks, checked);
}

static int report_no_walk(const struct walks *walks)
{
	if (walks->without_role)
		return flmem_error_set(walks->err, FLMEM_EUSAGE, 0,
				       "the role of %s is not known, so no list can be chosen; set "
				       "it with --role server or --role client",
				       walks->without_role == 1 ? "the process" : "the processes");
	return flmem_error_set(walks->err, FLMEM_EUSAGE, 0,
			       "no process given; name a process, a recording, a kernel log "
			       "that reports a kill, or a job's log that reports CUDA out of "
			       "memory");
}

int flmem_troubleshoot(const struct flmem_detect_report *report,
		       const struct flmem_recommendations *found, enum flmem_role role,
		       struct flmem_troubles *ret_troubles, struct flmem_error *err)
{
	struct walks walks = {.found = found, .role = role, .err = err};
	int rc = report ? walk_processes(&walks, report) : 0;

	for (size_t i = 0; i < found->recording_count && !rc; i++)
		rc = walk_recording(&walks, &found->recordings[i]);
	for (size_t i = 0; i < found->oom_log_count && !rc; i++)
		rc = walk_log(&walks, &found->oom_logs[i]);
	if (!rc && !walks.troubles.count)
		rc = report_no_walk(&walks);
	if (rc) {
		flmem_troubles_clear(&walks.troubles);
		return rc;
	}
	*ret_troubles = walks.troubles;
	return 0;
}
