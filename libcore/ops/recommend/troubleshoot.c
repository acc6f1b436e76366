/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/troubleshoot.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/detect.h>
#include <flmem/text.h>

#include "base/cleanup.h"
#include "frameworks/troubleshooting.h"
#include "proc/limits/cgroup.h"
#include "proc/limits/pressure.h"
#include "proc/process.h"

struct troubleshooting {
	struct flmem_troubleshoot_report troubles;
	const struct flmem_recommendations *found;
	enum flmem_role role; /* role that the caller named */
	size_t without_role;
	struct flmem_error *err;
};

static int troubleshooting_nomem(struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot store the troubleshooting list");
}

static void evaluation_clear(struct flmem_troubleshoot_evaluation *evaluation)
{
	for (size_t i = 0; i < evaluation->step_count; i++) {
		free(evaluation->steps[i].evidence);
		free(evaluation->steps[i].next);
	}
	free(evaluation->subject);
	free(evaluation->reason);
}

void flmem_troubleshoot_report_clear(struct flmem_troubleshoot_report *troubles)
{
	for (size_t i = 0; i < troubles->count; i++)
		evaluation_clear(&troubles->evaluations[i]);
	free(troubles->evaluations);
	*troubles = (struct flmem_troubleshoot_report){0};
}

/* Adds the answer to a step. Returns false if memory is out. */
static bool add_answer(struct flmem_troubleshoot_evaluation *evaluation, size_t index,
		       const struct flmem_troubleshoot_case *one)
{
	struct flmem_step_answer *row = &evaluation->steps[evaluation->step_count++];
	struct flmem_troubleshoot_answer answer;

	flmem_troubleshoot_answer(index, one, &answer);
	*row = (struct flmem_step_answer){
		.step = flmem_troubleshoot_step(index),
		.state = answer.state,
		.evidence = strdup(answer.evidence),
		.next = *answer.next ? strdup(answer.next) : NULL,
	};
	return row->evidence && (row->next || !*answer.next);
}

static bool fill_evaluation(struct flmem_troubleshoot_evaluation *evaluation,
			    const struct flmem_troubleshoot_case *one, const char *subject,
			    const char *because)
{
	const struct flmem_troubleshoot_step *step;
	bool whole;

	evaluation->list = one->list;
	evaluation->subject = strdup(subject);
	evaluation->reason = strdup(because);
	whole = evaluation->subject && evaluation->reason;
	for (size_t i = 0; (step = flmem_troubleshoot_step(i)); i++)
		if (step->list == one->list &&
		    evaluation->step_count < FLMEM_TROUBLESHOOT_STEPS_MAX)
			whole &= add_answer(evaluation, i, one);
	return whole;
}

static int add_evaluation(struct troubleshooting *run, const struct flmem_troubleshoot_case *one,
			  const char *subject, const char *because)
{
	struct flmem_troubleshoot_report *troubles = &run->troubles;
	struct flmem_troubleshoot_evaluation *grown =
		reallocarray(troubles->evaluations, troubles->count + 1, sizeof(*grown));
	struct flmem_troubleshoot_evaluation evaluation = {0};

	if (grown)
		troubles->evaluations = grown;
	if (!grown || !fill_evaluation(&evaluation, one, subject, because)) {
		evaluation_clear(&evaluation);
		return troubleshooting_nomem(run->err);
	}
	grown[troubles->count++] = evaluation;
	return 0;
}

/*
 * Describes kills. The kernel does not record when a group was created or when a kill in it
 * occurred, so a kill may be older than a live process. The kills in a recording occurred during
 * it.
 */
static void put_kills(const struct flmem_troubleshoot_case *one, uint64_t kills, char *out,
		      size_t size)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	snprintf(out, size, "the kernel has killed %s in its control group %s",
		 flmem_text_counted(kills, "process", count, sizeof(count)),
		 one->recorded
			 ? "while it was recorded"
			 : "since the group was created, possibly before this process started");
}

/*
 * Chooses the list and prints the reason. Returns false if the role is unknown, so that no list
 * applies.
 */
static bool choose_list(const struct troubleshooting *run, struct flmem_troubleshoot_case *one,
			uint64_t kills, char *because, size_t size)
{
	if (run->role) {
		one->role = run->role;
		snprintf(because, size, "set by --role");
	} else if (kills) {
		put_kills(one, kills, because, size);
		one->list = FLMEM_TROUBLESHOOT_OOM;
		return true;
	} else if (one->role) {
		snprintf(because, size, "its role is %s", flmem_role_name(one->role));
	} else {
		return false;
	}
	one->list = flmem_role_is_server(one->role) ? FLMEM_TROUBLESHOOT_SERVER
						    : FLMEM_TROUBLESHOOT_CLIENT;
	return true;
}

/* Prints the subject; if `place` is a recording, it comes first. */
static void put_subject(const struct flmem_troubleshoot_case *one, char *out, size_t size)
{
	const char *role = flmem_role_name(one->role);

	snprintf(out, size, "%.200s%sprocess %d%s%s%s", one->recorded ? one->place : "",
		 one->recorded ? ": " : "", (int)one->pid, role ? " (" : "", role ? role : "",
		 role ? ")" : "");
}

static int evaluate_case(struct troubleshooting *run, struct flmem_troubleshoot_case *one,
			 struct flmem_u64 kills)
{
	char subject[256], because[160];

	/* With the role of the process, not that of --role. */
	put_subject(one, subject, sizeof(subject));
	if (!choose_list(run, one, flmem_u64_or(kills, 0), because, sizeof(because))) {
		run->without_role++;
		return 0;
	}
	return add_evaluation(run, one, subject, because);
}

/*
 * Returns the kills in the process's control group. Without a limit, the host's memory was the
 * cause. A process that has exited meanwhile has no group.
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

static int evaluate_processes(struct troubleshooting *run, const struct flmem_detect_report *report)
{
	struct flmem_cgroups *cgroups = NULL;
	int rc = flmem_cgroups_open(&cgroups, run->err);

	for (size_t i = 0; i < report->process_count && !rc; i++) {
		const struct flmem_process_report *process = &report->processes[i];
		char place[32];
		struct flmem_troubleshoot_case one = {
			.role = process->role,
			.framework = process->framework,
			.place = place,
			.pid = process->pid,
			.process = process,
			.found = run->found,
		};

		snprintf(place, sizeof(place), "process %d", (int)process->pid);
		rc = evaluate_case(run, &one, kills_of(cgroups, process));
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

static int evaluate_recording(struct troubleshooting *run,
			      const struct flmem_checked_recording *recording)
{
	int rc = 0;

	for (size_t i = 0; i < recording->summary->count && !rc; i++) {
		const struct flmem_watch_result *result = &recording->summary->results[i];
		struct flmem_troubleshoot_case one = {
			.role = result->process.role,
			.framework = result->process.framework,
			.place = recording->file,
			.pid = result->process.pid,
			.recorded = result,
			.found = run->found,
		};

		if (!is_killed(run->found, one.pid)) /* else its evaluation has it */
			rc = evaluate_case(run, &one, result->pressure_rise.oom_kill);
	}
	return rc;
}

/* Returns the recording of the killed process, if one was checked. */
static const struct flmem_watch_result *
find_recorded_process(const struct flmem_recommendations *found, pid_t pid)
{
	for (size_t i = 0; i < found->recording_count; i++)
		for (size_t r = 0; r < found->recordings[i].summary->count; r++)
			if (found->recordings[i].summary->results[r].process.pid == pid)
				return &found->recordings[i].summary->results[r];
	return NULL;
}

static int evaluate_kill(struct troubleshooting *run, const struct flmem_checked_oom_log *checked)
{
	const struct flmem_oom_kill *kill = &checked->log.last;
	const struct flmem_watch_result *known = find_recorded_process(run->found, kill->pid);
	struct flmem_troubleshoot_case one = {
		.list = FLMEM_TROUBLESHOOT_OOM,
		.role = known ? known->process.role : run->role,
		.framework = known ? known->process.framework : FLMEM_FRAMEWORK_NONE,
		.place = checked->file,
		.pid = kill->pid,
		.recorded = known,
		.kill = kill,
		.found = run->found,
	};
	char subject[320], because[96];

	snprintf(subject, sizeof(subject), "%.200s: process %d (%s)", checked->file, (int)kill->pid,
		 kill->name);
	if (checked->log.kills > 1)
		snprintf(because, sizeof(because), "the kernel killed it, the last of %zu kills",
			 checked->log.kills);
	else
		snprintf(because, sizeof(because), "the kernel killed it");
	return add_evaluation(run, &one, subject, because);
}

/* Evaluates the list for a log of GPU memory that ran out; such a log does not name its process. */
static int evaluate_gpu_failure(struct troubleshooting *run,
				const struct flmem_checked_oom_log *checked)
{
	struct flmem_troubleshoot_case one = {
		.list = FLMEM_TROUBLESHOOT_OOM,
		.role = run->role,
		.place = checked->file,
		.gpu = &checked->gpu,
		.found = run->found,
	};
	char subject[320], because[96];

	snprintf(subject, sizeof(subject), "%.300s", checked->file);
	if (checked->gpu.count > 1)
		snprintf(because, sizeof(because), "it reports that GPU memory ran out, %zu times",
			 checked->gpu.count);
	else
		snprintf(because, sizeof(because), "it reports that GPU memory ran out");
	return add_evaluation(run, &one, subject, because);
}

static int evaluate_log(struct troubleshooting *run, const struct flmem_checked_oom_log *checked)
{
	int rc = checked->log.kills ? evaluate_kill(run, checked) : 0;

	return rc || !checked->gpu.count ? rc : evaluate_gpu_failure(run, checked);
}

static int report_no_case(const struct troubleshooting *run)
{
	if (run->without_role)
		return flmem_error_set(run->err, FLMEM_EUSAGE, 0,
				       "the role of %s is not known, so no list can be chosen; set "
				       "it with --role server or --role client",
				       run->without_role == 1 ? "the process" : "the processes");
	return flmem_error_set(run->err, FLMEM_EUSAGE, 0,
			       "no process given; name a process, a recording, a kernel log "
			       "that reports a kill, or a job's log that reports CUDA out of "
			       "memory");
}

int flmem_troubleshoot(const struct flmem_detect_report *report,
		       const struct flmem_recommendations *found, enum flmem_role role,
		       struct flmem_troubleshoot_report *ret_troubles, struct flmem_error *err)
{
	struct troubleshooting run = {.found = found, .role = role, .err = err};
	int rc = report ? evaluate_processes(&run, report) : 0;

	for (size_t i = 0; i < found->recording_count && !rc; i++)
		rc = evaluate_recording(&run, &found->recordings[i]);
	for (size_t i = 0; i < found->oom_log_count && !rc; i++)
		rc = evaluate_log(&run, &found->oom_logs[i]);
	if (!rc && !run.troubles.count)
		rc = report_no_case(&run);
	if (rc) {
		flmem_troubleshoot_report_clear(&run.troubles);
		return rc;
	}
	*ret_troubles = run.troubles;
	return 0;
}
