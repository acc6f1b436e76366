/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/detect.h>
#include <flmem/recommend.h>
#include <flmem/report.h>
#include <flmem/text.h>
#include <flmem/troubleshoot.h>
#include <flmem/watch.h>

#include "cmd.h"
#include "corrections.h"
#include "options/role_options.h"
#include "options/targets.h"
#include "plan_options.h"
#include "print/print_recommend.h"
#include "print/print_troubleshoot.h"

struct recommend_options {
	struct role_options role; /* first: role_options.h requires it */
	struct plan_options plan;
	struct target_options targets;
	const char *fail_on;
	const char *format;
	bool diff;
	bool fix;
	bool json;
	bool troubleshoot;
};

#define NAME_OF(name, text) text,
static const char *const severity_choices[] = {FLMEM_SEVERITIES(NAME_OF) NULL};
#undef NAME_OF

/* This lists the output formats besides text. */
static const struct {
	const char *name;
	char *(*make)(const struct flmem_recommendations *found);
} recommend_formats[] = {
	{"json", flmem_report_recommend_json},
	{"sarif", flmem_report_recommend_sarif},
	{"github", flmem_report_recommend_github},
	{"junit", flmem_report_recommend_junit},
};

static const char *const recommend_format_choices[] = {"text",	 "json",  "sarif",
						       "github", "junit", NULL};

static const struct opt recommend_options_table[] = {
	TARGET_NAME_OPTIONS(struct recommend_options, targets),
	{.name = "fail-on",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, fail_on),
	 .choices = severity_choices,
	 .help = "exit with status 1 for a finding of this severity or worse (default: findings do "
		 "not change the status)"},
	{.name = "framework-version",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct recommend_options, role.framework_version),
	 .metavar = "VERSION",
	 .help = "version of the framework that runs the job (2.8, 2.9.0); without it, findings "
		 "name the versions that they apply to"},
	{.name = "format",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, format),
	 .choices = recommend_format_choices,
	 .help = "format of the findings (default text): SARIF 2.1.0 for code scanning, GitHub "
		 "workflow annotations, or JUnit XML"},
	{.name = "role",
	 .letter = 'r',
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, role.role),
	 .choices = role_choices,
	 .help = "without paths: print the recommended settings of this role; with --troubleshoot: "
		 "use the list of this role"},
	{.name = "model",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct recommend_options, plan.model),
	 .metavar = "FILE|DIR|NAME",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "plan for this model: a .safetensors file, a PyTorch checkpoint, a folder of "
		 "either, or llama-3.1-8b, -70b, -405b, llama-3.2-1b, -3b"},
	{.name = "params",
	 .kind = OPT_COUNT,
	 .offset = offsetof(struct recommend_options, plan.parameters),
	 .metavar = "N",
	 .help = "plan for a model with this many parameters: 350M, 8B, 1.5B (decimal)"},
	{.name = "dtype",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct recommend_options, plan.dtype),
	 .metavar = "TYPE",
	 .help = "data type of the parameters: fp32, fp16, bf16, fp8-e4m3, int8 and others "
		 "(default: that of the model, fp32 with --params)"},
	{.name = "clients",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct recommend_options, plan.clients),
	 .metavar = "K",
	 .help = "with a plan (--model or --params): number of clients per round"},
	{.name = "framework",
	 .letter = 'f',
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, role.framework),
	 .choices = role_framework_choices,
	 .help = "framework of the plan or of the role (default nvflare)"},
	{.name = "node-memory",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct recommend_options, plan.node_bytes),
	 .metavar = "SIZE",
	 .help = "with a plan: memory of the smallest node; the plan uses 90 % of it"},
	{.name = "simulator",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct recommend_options, plan.actors),
	 .metavar = "N",
	 .help = "the plan is for a simulator on one node that runs N clients at once (NVFlare: "
		 "--threads; Flower: concurrent ClientApps)"},
	{.name = "optimizer",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, plan.optimizer),
	 .choices = plan_optimizer_choices,
	 .help = "optimizer of clients that train in host memory (default none: training is not "
		 "counted, as on a GPU)"},
	{.name = "filter",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct recommend_options, plan.filter),
	 .metavar = "NAME",
	 .help = "plan for clients that filter their results: percentile, svt or float16 of "
		 "NVFlare, clipping or local-dp of Flower"},
	{.name = "troubleshoot",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, troubleshoot),
	 .help = "go through NVFlare's troubleshooting list for high memory of a server or client, "
		 "or for OOM errors, and report the state of each step, for processes, recordings, "
		 "the kernel's log of a kill, and a job's log with CUDA out of memory"},
	{.name = "diff",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, diff),
	 .help = "print the changes of --fix as a patch, write nothing"},
	{.name = "fix",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, fix),
	 .help = "write the proposed values that need no decision, keep each old file as "
		 "FILE.orig, and print the remaining findings"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, json),
	 .help = "the same as --format=json"},
	{0},
};

/* Prints a heap string and frees it. */
static int put_recommend_text(const struct cmd *cmd, char *text)
{
	struct flmem_error err = {0};

	if (text) {
		fputs(text, stdout);
		free(text);
		return 0;
	}
	flmem_error_nomem(&err, "cannot print the report");
	return cmd_fail(cmd, false, &err);
}

static int print_role_settings(const struct cmd *cmd, const struct recommend_options *o)
{
	struct flmem_settings_request request;
	struct flmem_settings settings = {0};
	struct flmem_error err = {0};
	int status = 0;

	if (role_request(&o->role, &request, &err))
		return cmd_fail(cmd, o->json, &err);
	request.environment = NULL; /* the role's values do not depend on this shell */
	request.gpu = true;
	if (flmem_settings_make(&request, &settings, &err))
		return cmd_fail(cmd, o->json, &err);
	if (o->json)
		status = put_recommend_text(cmd, flmem_report_role_json(&settings));
	else
		print_role(&settings, stdout);
	flmem_settings_clear(&settings);
	return status;
}

static void problem_error(const struct flmem_input_problem *problem, struct flmem_error *ret_error)
{
	char file[256];

	flmem_text_escape(problem->file, file, sizeof(file));
	if (problem->line)
		flmem_error_set(ret_error, problem->code, 0, "%s:%u: %s", file, problem->line,
				problem->message);
	else if (strncmp(file, "process ", 8) == 0 && strstr(problem->message, file))
		flmem_error_set(ret_error, problem->code, 0, "%s", problem->message);
	else
		flmem_error_set(ret_error, problem->code, 0, "%s: %s", file, problem->message);
}

/* Returns whether a heap profile was too short to show growth, which would be a warning. */
static bool lacks_growth(const struct flmem_recommendations *found, enum flmem_severity limit)
{
	for (size_t i = 0; i < found->problem_count; i++)
		if (found->problems[i].code == FLMEM_EUNDECIDED)
			return limit != FLMEM_SEVERITY_ERROR;
	return false;
}

/* Returns the status. Unreadable inputs outrank findings: the unchecked part may be worse. */
static int status_of(const struct recommend_options *o, const struct flmem_recommendations *found)
{
	enum flmem_severity limit;

	if (flmem_recommendations_failures(found))
		return flmem_code_exit_status(FLMEM_EPARTLY);
	if (!o->fail_on || flmem_severity_find(o->fail_on, &limit, NULL))
		return 0;
	if (flmem_recommendations_count(found, limit))
		return flmem_code_exit_status(FLMEM_EFINDINGS);
	if (found->held_plan.strategy && !found->held_plan.limits)
		return flmem_code_exit_status(FLMEM_EUNDECIDED);
	return lacks_growth(found, limit) ? flmem_code_exit_status(FLMEM_EUNDECIDED) : 0;
}

/* Prints the problems. If no input was checked, the last is the error. Returns its status or 0. */
static int report_problems(const struct cmd *cmd, const struct recommend_options *o,
			   const struct flmem_recommendations *found)
{
	bool none = !found->file_count && found->problem_count;
	struct flmem_error err = {0};

	for (size_t i = 0; i < found->problem_count - none; i++) {
		problem_error(&found->problems[i], &err);
		if (found->problems[i].warning)
			flmem_error_prefix(&err, err.code, "warning");
		cmd_fail(cmd, false, &err);
	}
	if (!none)
		return 0;
	problem_error(&found->problems[found->problem_count - 1], &err);
	return cmd_fail(cmd, o->json, &err);
}

/* Prints findings; with --diff only the problems, since the patch has the standard output. */
static int report_findings(const struct cmd *cmd, const struct recommend_options *o,
			   const struct flmem_recommendations *found)
{
	int status = report_problems(cmd, o, found);

	if (status)
		return status;
	if (o->diff)
		return status_of(o, found);
	for (size_t i = 0;
	     o->format && i < sizeof(recommend_formats) / sizeof(recommend_formats[0]); i++)
		if (strcmp(o->format, recommend_formats[i].name) == 0)
			return put_recommend_text(cmd, recommend_formats[i].make(found))
				       ?: status_of(o, found);
	print_recommendations(found, stdout);
	return status_of(o, found);
}

/* This is passed to the library: only the command line knows both `recommend` and `watch`. */
static int replay_for_recommend(const char *path, struct flmem_watch_summary *ret_summary,
				struct flmem_error *err)
{
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {0};

	return flmem_watch_replay(path, &options, &callbacks, ret_summary, err);
}

static struct flmem_recommend_options check_recommend_options(const struct recommend_options *o)
{
	return (struct flmem_recommend_options){.framework_version = o->role.framework_version,
						.replay = replay_for_recommend};
}

/* Finds about paths and processes together. Without target options it checks paths only. */
static int find_all(const struct recommend_options *o, const struct opt_rest *rest,
		    struct flmem_detect_report *report, struct flmem_recommendations *found,
		    struct flmem_error *err)
{
	struct flmem_recommend_options how = check_recommend_options(o);
	struct flmem_recommendations of_processes = {0};
	struct flmem_targets targets = {0};
	int rc = flmem_recommend((const char *const *)rest->values, (size_t)rest->count, &how,
				 found, err);

	if (rc || !targets_given(&o->targets))
		return rc;
	how.beside = found;
	how.search_leftovers = true;
	how.leftovers_of_host = o->targets.all;
	rc = targets_select(&o->targets, &targets, err);
	if (!rc)
		rc = flmem_detect(targets.pids, targets.count, NULL, report, err);
	if (!rc)
		rc = flmem_recommend_processes(report, &how, &of_processes, err);
	if (!rc)
		rc = flmem_recommendations_join(found, &of_processes, err);
	flmem_targets_clear(&targets);
	return rc;
}

/* Checks live processes, and paths if given. */
static int check_live(const struct cmd *cmd, const struct recommend_options *o,
		      const struct opt_rest *rest)
{
	struct flmem_recommendations found = {0};
	struct flmem_detect_report report = {0};
	struct flmem_error err = {0};
	int status;

	if (find_all(o, rest, &report, &found, &err))
		status = cmd_fail(cmd, o->json, &err);
	else
		status = report_findings(cmd, o, &found);
	flmem_recommendations_clear(&found);
	flmem_detect_report_clear(&report);
	return status;
}

/* Says what --fix does not write: no output would look like nothing to change. */
static void report_python(const struct flmem_recommendations *found)
{
	char count[FLMEM_TEXT_COUNTED_MAX];
	size_t left = 0;

	for (size_t i = 0; i < found->finding_count; i++)
		left += found->findings[i].proposed && found->findings[i].in_python;
	if (left)
		fprintf(stderr,
			"flmem recommend: %s in Python, which is not written; set it by hand\n",
			flmem_text_counted(left, "proposed value", count, sizeof(count)));
}

static int check_paths_with(const struct cmd *cmd, const struct recommend_options *o,
			    const struct opt_rest *rest, const struct plan_made *made)
{
	struct flmem_recommend_options how = check_recommend_options(o);
	struct flmem_recommendations found = {0};
	struct flmem_error err = {0};
	int status;

	if (made) {
		how.plan = &made->plan;
		how.plan_framework = made->request.framework;
	}
	if (flmem_recommend((const char *const *)rest->values, (size_t)rest->count, &how, &found,
			    &err))
		return cmd_fail(cmd, o->json, &err);
	if (o->fix || o->diff)
		report_python(&found);
	status = report_findings(cmd, o, &found);
	flmem_recommendations_clear(&found);
	return status;
}

static int check_paths(const struct cmd *cmd, const struct recommend_options *o,
		       const struct opt_rest *rest)
{
	return check_paths_with(cmd, o, rest, NULL);
}

static int put_diff(const struct cmd *cmd, const struct flmem_corrections *corrections)
{
	int status = 0;

	for (size_t i = 0; i < corrections->count && !status; i++)
		status = put_recommend_text(cmd, flmem_correction_diff(&corrections->rows[i]));
	return status;
}

/*
 * Corrects the files, then checks them (for --fix the new ones), and prints what remains. Write
 * errors take precedence.
 */
static int correct_files(const struct cmd *cmd, const struct recommend_options *o,
			 const struct opt_rest *rest)
{
	const struct flmem_recommend_options how = check_recommend_options(o);
	struct flmem_corrections corrections = {0};
	struct flmem_error err = {0};
	int status, left = 0;

	if (flmem_recommend_correct((const char *const *)rest->values, (size_t)rest->count, &how,
				    &corrections, &err))
		return cmd_fail(cmd, o->json, &err);
	status = o->diff ? put_diff(cmd, &corrections) : corrections_write(cmd, &corrections);
	flmem_corrections_clear(&corrections);
	left = check_paths(cmd, o, rest);
	return status ? status : left;
}

static int report_troubleshooting(const struct cmd *cmd, const struct recommend_options *o,
				  const struct flmem_recommendations *found,
				  const struct flmem_troubleshoot_report *troubles)
{
	if (o->json)
		return put_recommend_text(cmd, flmem_report_troubleshoot_json(found, troubles))
			       ?: status_of(o, found);
	print_troubleshooting(troubles, stdout);
	return status_of(o, found);
}

static int troubleshoot_processes(const struct cmd *cmd, const struct recommend_options *o,
				  const struct opt_rest *rest)
{
	struct flmem_recommendations found = {0};
	struct flmem_detect_report report = {0};
	struct flmem_troubleshoot_report troubles = {0};
	struct flmem_error err = {0};
	int status = 0, rc = 0;

	if (o->diff || o->fix || (o->format && !o->json && strcmp(o->format, "text") != 0))
		rc = flmem_error_set(&err, FLMEM_EUSAGE, 0,
				     "--troubleshoot cannot be combined with --diff, --fix or a "
				     "--format of findings");
	if (!rc)
		rc = find_all(o, rest, &report, &found, &err);
	if (!rc)
		status = report_problems(cmd, o, &found);
	if (!rc && !status)
		rc = flmem_troubleshoot(&report, &found, role_named(&o->role), &troubles, &err);
	if (rc)
		status = cmd_fail(cmd, o->json, &err);
	else if (!status)
		status = report_troubleshooting(cmd, o, &found, &troubles);
	flmem_troubleshoot_report_clear(&troubles);
	flmem_recommendations_clear(&found);
	flmem_detect_report_clear(&report);
	return status;
}

static int check_processes(const struct cmd *cmd, const struct recommend_options *o,
			   const struct opt_rest *rest)
{
	struct flmem_error err = {0};

	if (!o->role.role && !o->diff && !o->fix &&
	    (!o->format || o->json || strcmp(o->format, "text") == 0))
		return check_live(cmd, o, rest);
	flmem_error_set(&err, FLMEM_EUSAGE, 0,
			"processes cannot be combined with --role, --diff, --fix or a --format "
			"that names files");
	return cmd_fail(cmd, o->json, &err);
}

/* Checks the memory limits in the files against the plan. */
static int check_planned(const struct cmd *cmd, const struct recommend_options *o,
			 const struct opt_rest *rest)
{
	struct plan_made made = {0};
	struct flmem_error err = {0};
	char node[FLMEM_TEXT_BYTES_MAX];
	int status;

	if (plan_make(&o->plan, o->role.framework, &made, &err))
		status = cmd_fail(cmd, o->json, &err);
	else
		status = check_paths_with(cmd, o, rest, &made);
	if (!status && !made.plan.strategies[made.plan.chosen].fits) {
		flmem_error_set(&err, FLMEM_EFINDINGS, 0, "the plan does not fit a node of %s",
				flmem_text_bytes(o->plan.node_bytes, node, sizeof(node)));
		status = cmd_fail(cmd, false, &err);
	}
	plan_made_clear(&made);
	return status;
}

static int make_plan(const struct cmd *cmd, const struct recommend_options *o,
		     const struct opt_rest *rest)
{
	struct flmem_error err = {0};

	if (targets_given(&o->targets) || o->role.role || o->diff || o->fix || o->troubleshoot)
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"a plan cannot be combined with processes, --role, --diff, --fix "
				"or --troubleshoot");
	else if (!rest->count && o->format && !o->json && strcmp(o->format, "text") != 0)
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"a plan without paths cannot be combined with a --format of "
				"findings");
	if (err.code)
		return cmd_fail(cmd, o->json, &err);
	if (rest->count)
		return check_planned(cmd, o, rest);
	return plan_run(cmd, &o->plan, o->role.framework, o->json);
}

static int run_recommend(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct recommend_options *o = options;
	struct flmem_error err = {0};

	if (o->json)
		o->format = "json";
	o->json = o->format && strcmp(o->format, "json") == 0;
	if (plan_is_wanted(&o->plan))
		return make_plan(cmd, o, rest);
	if (plan_stray_option(&o->plan)) {
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "%s needs --model or --params",
				plan_stray_option(&o->plan));
		return cmd_fail(cmd, o->json, &err);
	}
	if (o->troubleshoot)
		return troubleshoot_processes(cmd, o, rest);
	if (targets_given(&o->targets))
		return check_processes(cmd, o, rest);
	if (!rest->count && o->role.role)
		return print_role_settings(cmd, o);
	if (o->role.role)
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "--role cannot be combined with paths");
	else if (!rest->count)
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"no input; give files or folders, processes, --role, or --model "
				"for a plan");
	else if (o->diff && (o->fix || o->format))
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"--diff cannot be combined with --fix, --json or --format");
	if (err.code)
		return cmd_fail(cmd, o->json, &err);
	return o->diff || o->fix ? correct_files(cmd, o, rest) : check_paths(cmd, o, rest);
}

static const char *const recommend_examples[] = {
	"flmem recommend jobs/fedavg",
	"findings for an exported job",
	"flmem recommend jobs --framework-version 2.8 --fail-on warning",
	"all jobs in a folder, for CI",
	"flmem recommend jobs --format sarif >flmem.sarif",
	"the same for code scanning",
	"flmem recommend jobs/fedavg --diff",
	"the changes that --fix would make",
	"flmem recommend run.rec jobs/fedavg",
	"findings from a recording of flmem watch and its job",
	"flmem recommend --role client",
	"the recommended settings of a client, with reasons",
	"flmem recommend --name worker_process",
	"findings about live client jobs",
	"flmem recommend --troubleshoot --name worker_process jobs/fedavg",
	"remaining steps against high memory, with the job of the processes as evidence",
	"flmem recommend --troubleshoot dmesg.txt run.rec jobs/fedavg",
	"the reason for the last kill of a process in the log",
	"flmem recommend --model ./llm --clients 4 --framework appfl --node-memory 64G",
	"memory needs of server and clients, and a matching configuration",
	"flmem recommend kit jobs/fedavg --model ./llm --clients 4 --fail-on error",
	"whether the memory limits of a kit and a job suffice for the model",
	NULL,
};

const struct cmd cmd_recommend = {
	.name = "recommend",
	.summary = "checks the memory settings of jobs and proposes values",
	.arguments = "[PATH...]",
	.description =
		"Reads exported or submitted NVFlare jobs (the files meta, config_fed_server "
		"and config_fed_client in JSON, HOCON or YAML; Python that uses NVFlare, also "
		"in notebooks and Markdown), the scripts, Dockerfiles, units, Compose and "
		"Kubernetes files that start NVFlare, the YAML, JSON or TOML of APPFL servers "
		"and clients, and Flower's pyproject.toml, and reports memory settings that "
		"are off, have no effect, or will be refused, each with file, line, current "
		"and proposed value. It searches folders, and ignores files without matching "
		"rules. It reports inputs that it cannot read, and truncated heap profiles, "
		"on standard error, and checks the others (exit status 8, or 2 if it could "
		"check none). For a path with nothing to check it prints a warning.\n\n"
		"In a recording of flmem watch it checks for rising memory and reached "
		"limits, and whether memory_gc_rounds of the given jobs fits. In a heap "
		"profile of flmem profile it checks for code whose memory grows with the "
		"rounds, or is most of the peak; if the profile is too short to show growth "
		"and there is no other finding, the exit status with --fail-on warning or "
		"info is 9. In a kernel log (dmesg, journalctl -k) it searches for processes "
		"killed out of memory, in the log of a job for PyTorch's CUDA out of memory.\n\n"
		"With --pid, --name, --tree or --all it checks live processes, which it only "
		"reads: whether jemalloc, arenas and decay times are in effect as configured, "
		"and what a trim would release. It also checks jobs given as paths, as the "
		"configuration of these processes.\n\n"
		"With --troubleshoot it follows NVFlare's troubleshooting lists for high "
		"memory: for each live or recorded process it reports the evidence for every "
		"step, and what to do next. Jobs and scripts given as paths are additional "
		"evidence.\n\n"
		"With --model or --params it plans the memory of a job: the peak of the "
		"server and of each client in every step of a round, chunk and message sizes, "
		"and a configuration to paste. With paths, the findings include the memory "
		"limits that these files set (Compose, Kubernetes, docker run, Slurm, "
		"systemd, resource_spec of NVFlare's jobs, its launchers in startup kits) and "
		"that are below those peaks. If no limit could be compared with the plan and "
		"there is no other finding, the exit status with --fail-on is 9.",
	.examples = recommend_examples,
	.options = recommend_options_table,
	.options_size = sizeof(struct recommend_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_recommend,
};
