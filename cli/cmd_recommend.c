/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/detect.h>
#include <flmem/recommend.h>
#include <flmem/report.h>
#include <flmem/text.h>
#include <flmem/troubleshoot.h>

#include "cmd.h"
#include "plan_options.h"
#include "print_recommend.h"
#include "print_troubleshoot.h"
#include "role_options.h"
#include "targets.h"

struct recommend_options {
	struct role_options role; /* first, as role_options.h wants it */
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

/* Forms of the findings besides text. */
static const struct {
	const char *name;
	char *(*make)(const struct flmem_recommendations *found);
} formats[] = {
	{"json", flmem_report_recommend_json},
	{"sarif", flmem_report_recommend_sarif},
	{"github", flmem_report_recommend_github},
	{"junit", flmem_report_recommend_junit},
};

static const char *const format_choices[] = {"text", "json", "sarif", "github", "junit", NULL};

static const struct opt options_table[] = {
	TARGET_NAME_OPTIONS(struct recommend_options, targets),
	{.name = "fail-on",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, fail_on),
	 .choices = severity_choices,
	 .help = "exit with status 1 when there is a finding as bad as this, or worse (default: "
		 "findings do not count)"},
	{.name = "framework-version",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct recommend_options, role.framework_version),
	 .metavar = "VERSION",
	 .help = "version of the framework that will run it (2.8, 2.9.0); without it, rules that "
		 "need to know the version are left out"},
	{.name = "format",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, format),
	 .choices = format_choices,
	 .help = "form of the findings (default text): SARIF 2.1.0 for code scanning, annotations "
		 "of a GitHub workflow, or JUnit's XML"},
	{.name = "role",
	 .letter = 'r',
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, role.role),
	 .choices = role_choices,
	 .help = "without paths: print what this role should be set to; with --troubleshoot: take "
		 "this role's list"},
	{.name = "model",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct recommend_options, plan.model),
	 .metavar = "FILE|DIR|NAME",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "plan for this model: a .safetensors file or a PyTorch checkpoint, a folder of "
		 "them, or llama-3.1-8b, -70b, -405b, llama-3.2-1b, -3b"},
	{.name = "params",
	 .kind = OPT_COUNT,
	 .offset = offsetof(struct recommend_options, plan.parameters),
	 .metavar = "N",
	 .help = "plan for a model of so many parameters: 350M, 8B, 1.5B, all decimal"},
	{.name = "dtype",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct recommend_options, plan.dtype),
	 .metavar = "TYPE",
	 .help = "type of its numbers: fp32, fp16, bf16, fp8-e4m3, int8 and others (default: the "
		 "model's own, fp32 with --params)"},
	{.name = "clients",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct recommend_options, plan.clients),
	 .metavar = "K",
	 .help = "clients that take part in a round of the plan"},
	{.name = "framework",
	 .letter = 'f',
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, role.framework),
	 .choices = role_framework_choices,
	 .help = "what the plan, or the role, is for (default nvflare)"},
	{.name = "node-memory",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct recommend_options, plan.node_bytes),
	 .metavar = "SIZE",
	 .help = "memory of the smallest node; the plan uses nine tenths of it"},
	{.name = "optimizer",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct recommend_options, plan.optimizer),
	 .choices = plan_optimizer_choices,
	 .help = "what a client that trains in host memory keeps besides the model and the "
		 "gradients (default none: training is not counted, as on a GPU)"},
	{.name = "troubleshoot",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, troubleshoot),
	 .help = "walk the guide's list for high memory of a server, of a client, or for OOM "
		 "errors: what is done of each step, for processes, recordings and the "
		 "kernel's log of a kill"},
	{.name = "diff",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, diff),
	 .help = "print what --fix would change, as a difference that patch takes, and change "
		 "nothing"},
	{.name = "fix",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, fix),
	 .help = "write the proposed values that need no decision, keep each old file as "
		 "FILE.orig, and print what is left to do"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct recommend_options, json),
	 .help = "the same as --format=json"},
	{0},
};

/* Prints a heap string and frees it. */
static int put_text(const struct cmd *cmd, char *text)
{
	struct flmem_error err = {0};

	if (text) {
		fputs(text, stdout);
		free(text);
		return 0;
	}
	flmem_error_set(&err, FLMEM_EFAILED, 0, "out of memory");
	return cmd_fail(cmd, false, &err);
}

static int tell_role(const struct cmd *cmd, const struct recommend_options *o)
{
	struct flmem_settings_request request;
	struct flmem_settings settings = {0};
	struct flmem_error err = {0};
	int status = 0;

	if (role_request(&o->role, &request, &err))
		return cmd_fail(cmd, o->json, &err);
	request.environment = NULL; /* the role's values, whatever this shell has set */
	request.gpu = true;
	if (flmem_settings_make(&request, &settings, &err))
		return cmd_fail(cmd, o->json, &err);
	if (o->json)
		status = put_text(cmd, flmem_report_role_json(&settings));
	else
		print_role(&settings, stdout);
	flmem_settings_clear(&settings);
	return status;
}

static void show_problem(const struct flmem_input_problem *problem, struct flmem_error *ret_error)
{
	char file[256];

	flmem_text_escape(problem->file, file, sizeof(file));
	if (problem->line)
		flmem_error_set(ret_error, problem->code, 0, "%s:%u: %s", file, problem->line,
				problem->message);
	else
		flmem_error_set(ret_error, problem->code, 0, "%s: %s", file, problem->message);
}

/* Inputs that are bad come before findings: what was not checked may hold worse. */
static int status_of(const struct recommend_options *o, const struct flmem_recommendations *found)
{
	enum flmem_severity limit;

	if (found->problem_count)
		return flmem_code_exit_status(FLMEM_EPARTLY);
	if (o->fail_on && !flmem_severity_find(o->fail_on, &limit, NULL) &&
	    flmem_recommendations_count(found, limit))
		return flmem_code_exit_status(FLMEM_EFINDINGS);
	return 0;
}

/* Where nothing could be checked, the last one stands for the whole; its status, or 0. */
static int tell_problems(const struct cmd *cmd, const struct recommend_options *o,
			 const struct flmem_recommendations *found)
{
	bool none = !found->file_count && found->problem_count;
	struct flmem_error err = {0};

	for (size_t i = 0; i < found->problem_count - none; i++) {
		show_problem(&found->problems[i], &err);
		cmd_fail(cmd, false, &err);
	}
	if (!none)
		return 0;
	show_problem(&found->problems[found->problem_count - 1], &err);
	return cmd_fail(cmd, o->json, &err);
}

static int tell(const struct cmd *cmd, const struct recommend_options *o,
		const struct flmem_recommendations *found)
{
	int status = tell_problems(cmd, o, found);

	if (status)
		return status;
	for (size_t i = 0; o->format && i < sizeof(formats) / sizeof(formats[0]); i++)
		if (strcmp(o->format, formats[i].name) == 0)
			return put_text(cmd, formats[i].make(found)) ?: status_of(o, found);
	print_recommendations(found, stdout);
	return status_of(o, found);
}

/* Findings about the paths and the processes, in one. A selection of none is no error. */
static int find_all(const struct recommend_options *o, const struct opt_rest *rest,
		    struct flmem_detect_report *report, struct flmem_recommendations *found,
		    struct flmem_error *err)
{
	struct flmem_recommend_options how = {.framework_version = o->role.framework_version,
					      .beside = found};
	struct flmem_recommendations of_processes = {0};
	struct flmem_targets targets = {0};
	int rc = flmem_recommend((const char *const *)rest->values, (size_t)rest->count, &how,
				 found, err);

	if (rc || !targets_given(&o->targets))
		return rc;
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

/* Findings about live processes, beside paths that may be named too. */
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
		status = tell(cmd, o, &found);
	flmem_recommendations_clear(&found);
	flmem_detect_report_clear(&report);
	return status;
}

static int check(const struct cmd *cmd, const struct recommend_options *o,
		 const struct opt_rest *rest)
{
	struct flmem_recommend_options how = {.framework_version = o->role.framework_version};
	struct flmem_recommendations found = {0};
	struct flmem_error err = {0};
	int status;

	if (flmem_recommend((const char *const *)rest->values, (size_t)rest->count, &how, &found,
			    &err))
		return cmd_fail(cmd, o->json, &err);
	status = tell(cmd, o, &found);
	flmem_recommendations_clear(&found);
	return status;
}

static int put_diff(const struct cmd *cmd, const struct flmem_corrections *corrections)
{
	int status = 0;

	for (size_t i = 0; i < corrections->count && !status; i++)
		status = put_text(cmd, flmem_correction_diff(&corrections->rows[i]));
	return status;
}

/* Writes each file that it can. The exit status: 0, that of all failures, or partly done. */
static int write_all(const struct cmd *cmd, const struct flmem_corrections *corrections)
{
	size_t failed = 0;
	int code = 0;

	for (size_t i = 0; i < corrections->count; i++) {
		const struct flmem_correction *correction = &corrections->rows[i];
		struct flmem_error err = {0};
		char *backup = NULL, file[4096], old[4096];

		if (flmem_correction_write(correction, &backup, &err)) {
			cmd_fail(cmd, false, &err);
			code = failed++ && code != err.code ? FLMEM_EPARTLY : err.code;
			continue;
		}
		fprintf(stderr, "flmem recommend: %zu value%s written to %s, the old file is %s\n",
			correction->changes, correction->changes == 1 ? "" : "s",
			flmem_text_escape(correction->file, file, sizeof(file)),
			flmem_text_escape(backup, old, sizeof(old)));
		free(backup);
	}
	return flmem_code_exit_status(failed < corrections->count && failed ? FLMEM_EPARTLY : code);
}

/* With --fix, what the files as they are then leave to do comes behind; its errors weigh less. */
static int correct(const struct cmd *cmd, const struct recommend_options *o,
		   const struct opt_rest *rest)
{
	struct flmem_recommend_options how = {.framework_version = o->role.framework_version};
	struct flmem_corrections corrections = {0};
	struct flmem_error err = {0};
	int status, left = 0;

	if (flmem_recommend_correct((const char *const *)rest->values, (size_t)rest->count, &how,
				    &corrections, &err))
		return cmd_fail(cmd, o->json, &err);
	status = o->diff ? put_diff(cmd, &corrections) : write_all(cmd, &corrections);
	flmem_corrections_clear(&corrections);
	if (o->fix)
		left = check(cmd, o, rest);
	return status ? status : left;
}

static int tell_troubles(const struct cmd *cmd, const struct recommend_options *o,
			 const struct flmem_recommendations *found,
			 const struct flmem_troubles *troubles)
{
	if (o->json)
		return put_text(cmd, flmem_report_troubleshoot_json(found, troubles))
			       ?: status_of(o, found);
	print_troubles(troubles, stdout);
	return status_of(o, found);
}

static int troubleshoot(const struct cmd *cmd, const struct recommend_options *o,
			const struct opt_rest *rest)
{
	struct flmem_recommendations found = {0};
	struct flmem_detect_report report = {0};
	struct flmem_troubles troubles = {0};
	struct flmem_error err = {0};
	int status = 0, rc = 0;

	if (o->diff || o->fix || (o->format && !o->json && strcmp(o->format, "text") != 0))
		rc = flmem_error_set(&err, FLMEM_EUSAGE, 0,
				     "--troubleshoot goes without --diff, --fix and the formats of "
				     "findings");
	if (!rc)
		rc = find_all(o, rest, &report, &found, &err);
	if (!rc)
		status = tell_problems(cmd, o, &found);
	if (!rc && !status)
		rc = flmem_troubleshoot(&report, &found, role_named(&o->role), &troubles, &err);
	if (rc)
		status = cmd_fail(cmd, o->json, &err);
	else if (!status)
		status = tell_troubles(cmd, o, &found, &troubles);
	flmem_troubles_clear(&troubles);
	flmem_recommendations_clear(&found);
	flmem_detect_report_clear(&report);
	return status;
}

static int live(const struct cmd *cmd, const struct recommend_options *o,
		const struct opt_rest *rest)
{
	struct flmem_error err = {0};

	if (!o->role.role && !o->diff && !o->fix &&
	    (!o->format || o->json || strcmp(o->format, "text") == 0))
		return check_live(cmd, o, rest);
	flmem_error_set(&err, FLMEM_EUSAGE, 0,
			"processes go without --role, --diff, --fix and the formats that name "
			"files");
	return cmd_fail(cmd, o->json, &err);
}

static int plan(const struct cmd *cmd, const struct recommend_options *o,
		const struct opt_rest *rest)
{
	struct flmem_error err = {0};

	if (rest->count || targets_given(&o->targets) || o->role.role || o->diff || o->fix ||
	    o->troubleshoot || o->fail_on ||
	    (o->format && !o->json && strcmp(o->format, "text") != 0))
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"a plan goes without paths, --role, --diff, --fix, --troubleshoot, "
				"--fail-on and the formats of findings");
	if (err.code)
		return cmd_fail(cmd, o->json, &err);
	return plan_run(cmd, &o->plan, o->role.framework, o->json);
}

static int run(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct recommend_options *o = options;
	struct flmem_error err = {0};

	if (o->json)
		o->format = "json";
	o->json = o->format && strcmp(o->format, "json") == 0;
	if (plan_is_wanted(&o->plan))
		return plan(cmd, o, rest);
	if (plan_stray_option(&o->plan)) {
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "%s goes with --model or --params",
				plan_stray_option(&o->plan));
		return cmd_fail(cmd, o->json, &err);
	}
	if (o->troubleshoot)
		return troubleshoot(cmd, o, rest);
	if (targets_given(&o->targets))
		return live(cmd, o, rest);
	if (!rest->count && o->role.role)
		return tell_role(cmd, o);
	if (o->role.role)
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "--role goes without paths");
	else if (!rest->count)
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"name files or folders to check, processes, a --role, or a "
				"--model to plan for");
	else if (o->diff && (o->fix || o->format))
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"--diff goes without --fix, --json and --format");
	if (err.code)
		return cmd_fail(cmd, o->json, &err);
	return o->diff || o->fix ? correct(cmd, o, rest) : check(cmd, o, rest);
}

static const char *const examples[] = {
	"flmem recommend jobs/fedavg",
	"what to change in an exported job",
	"flmem recommend jobs --framework-version 2.8 --fail-on warning",
	"all jobs in a folder, for CI",
	"flmem recommend jobs --format sarif >flmem.sarif",
	"the same for code scanning",
	"flmem recommend jobs/fedavg --diff",
	"what --fix would change in it",
	"flmem recommend run.rec jobs/fedavg",
	"what a recording of flmem watch says of the job that ran",
	"flmem recommend --role client",
	"what a client should be set to, and why",
	"flmem recommend --name worker_process",
	"what the settings of live client jobs came to",
	"flmem recommend --troubleshoot --name worker_process jobs/fedavg",
	"what is left to do against their memory, with the job that they run",
	"flmem recommend --troubleshoot dmesg.txt run.rec jobs/fedavg",
	"why the kernel killed it: the last kill that the log tells of",
	"flmem recommend --model ./llm --clients 4 --framework appfl --node-memory 64G",
	"what server and clients will need, and the configuration for it",
	NULL,
};

const struct cmd cmd_recommend = {
	.name = "recommend",
	.summary = "findings about the memory settings of jobs, with what to write instead",
	.arguments = "[PATH...]",
	.description =
		"Reads exported or submitted NVFlare jobs (the files meta, config_fed_server and "
		"config_fed_client in JSON, HOCON or YAML; Python that uses NVFlare), the scripts, "
		"Dockerfiles, units, Compose and Kubernetes files that start NVFlare, the YAML of "
		"APPFL servers and clients, and Flower's pyproject.toml, and says which memory "
		"settings are off, do nothing, "
		"or "
		"will be refused, each with file, line, the current and the proposed value. A "
		"folder is searched; files in it that there are no rules for are passed over. An "
		"input that cannot be read is an error on standard error, and the others are "
		"checked all the same (exit status 8, or 2 when none could be).\n\n"
		"A recording of flmem watch that is named is checked too: memory that climbs, "
		"limits that were met, and whether memory_gc_rounds of the jobs beside it fits. So "
		"is "
		"the kernel's log (dmesg, journalctl -k) when it tells of a process killed for "
		"want "
		"of memory.\n\n"
		"With --pid, --name, --tree or --all it looks at live processes instead, which are "
		"read and not touched: whether jemalloc, arenas and decay times are as asked for, "
		"and what a trim would return. Jobs named beside them are checked too, and tell "
		"what the processes run.\n\n"
		"With --troubleshoot it walks NVFlare's own lists against high memory, in order: "
		"for each live process or recorded one, what the evidence says of every step, "
		"and what to do next. Jobs and scripts named beside them are part of the "
		"evidence.\n\n"
		"With --model or --params it plans instead: the peak of the server and of each "
		"client in every step of a round, chunk and message sizes, and the configuration "
		"to paste.",
	.examples = examples,
	.options = options_table,
	.options_size = sizeof(struct recommend_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run,
};
