/* SPDX-License-Identifier: Apache-2.0 */
/* Reports doubts about files that start NVFlare which the rules about variables cannot resolve. */
#include <string.h>

#include "base/cleanup.h"
#include "frameworks/nvflare/rules/nvflare_launch_rules.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

/* Whether a row matters: TMPDIR does only if tensors are offloaded. */
static bool is_needed(const struct flmem_check *check, const struct flmem_launch_variable *row)
{
	return !row->local && !row->repeated && *row->name &&
	       (!flmem_launch_is(row, FLMEM_LAUNCH_TMPDIR) || check->found->disk_offload);
}

static bool is_uncertain(const struct flmem_launches *launches,
			 const struct flmem_launch_variable *row)
{
	for (size_t i = 0; i < launches->launch_count; i++)
		if (launches->launches[i].framework == FLMEM_FRAMEWORK_NVFLARE &&
		    flmem_launch_reach(launches, row, (int)i) == FLMEM_LAUNCH_PERHAPS)
			return true;
	return false;
}

static void check_row(struct flmem_check *check, const struct flmem_launches *launches,
		      const struct flmem_launch_variable *row)
{
	if (!row->known && !row->unset)
		flmem_launch_report_doubt(check, &row->place, row->name,
					  "the value is known only when the file runs");
	else if (is_uncertain(launches, row))
		flmem_launch_report_doubt(check, &row->place, row->name,
					  row->unset
						  ? "it ends in a function or under a condition"
						  : "it is set in a function or under a condition");
}

/* Whether a file that names no framework runs a checked Python file of another framework. */
static bool runs_others(const struct flmem_check *check, const struct flmem_launches *launches)
{
	for (size_t i = 0; i < launches->doubt_count; i++) {
		const struct flmem_rule_input *script =
			flmem_launch_script_of(check, &launches->doubts[i]);

		if (script && script->kind != &flmem_nvflare_python_file)
			return true;
	}
	return false;
}

/*
 * Whether a file starts NVFlare. A file that starts no program is counted, unless it is about
 * another framework.
 */
static bool starts_nvflare(const struct flmem_check *check, const struct flmem_launches *launches)
{
	enum flmem_framework owner = flmem_launch_owner(&check->input->document.text);

	for (size_t i = 0; i < launches->launch_count; i++)
		if (launches->launches[i].framework == FLMEM_FRAMEWORK_NVFLARE)
			return true;
	return !launches->launch_count &&
	       (owner == FLMEM_FRAMEWORK_NVFLARE ||
		(owner == FLMEM_FRAMEWORK_NONE && !runs_others(check, launches)));
}

/*
 * Reports launches without a limit of arenas that may get one from the file that starts the script.
 */
static void check_callers(struct flmem_check *check, const struct flmem_launches *launches)
{
	struct flmem_launch_check one = {.check = check, .launches = launches, .index = -1};
	const struct flmem_place *place = NULL;

	for (size_t i = 0; i < launches->doubt_count && !place; i++)
		if (flmem_nvflare_is_simulation(
			    flmem_launch_script_of(check, &launches->doubts[i])) &&
		    !flmem_nvflare_limits_arenas(&one))
			place = &launches->doubts[i].place;
	for (size_t i = 0; i < launches->launch_count && !place; i++) {
		one.launch = &launches->launches[i];
		one.index = (int)i;
		if (one.launch->framework == FLMEM_FRAMEWORK_NVFLARE && !one.launch->doubted &&
		    !one.launch->musl && !flmem_nvflare_limits_arenas(&one))
			place = &one.launch->place;
	}
	if (place && flmem_nvflare_limited_by_caller(check) == FLMEM_LAUNCH_PERHAPS)
		flmem_launch_report_doubt(
			check, place, FLMEM_LAUNCH_ARENA_MAX,
			"a file that starts this one, or is a part of it, may set it");
}

/* Reports the first line that changes the configuration of a job and is not a comment. */
static void check_edits(struct flmem_check *check, const struct flmem_launches *launches)
{
	struct flmem_place place = {.line = 1, .column = 1};
	const char *text = check->input->document.text.data;

	if (!launches->shell || !strstr(text, "config_fed_"))
		return;
	while (*text) {
		size_t length = strcspn(text, "\n");
		FLMEM_AUTO_FREE char *line = strndup(text, length);

		if (line && line[strspn(line, " \t")] != '#' && flmem_nvflare_edits_job(line)) {
			place.end = place.start + length;
			flmem_launch_report_doubt(check, &place, "environment",
						  "a command changes the configuration of a job");
			return;
		}
		length += text[length] == '\n';
		place.start += length;
		text += length;
		place.line++;
	}
}

static void launch_cannot_tell(struct flmem_check *check)
{
	const struct flmem_place first = flmem_launch_first_line(check->input->document.text.data);
	struct flmem_launches launches;

	flmem_launches_read(check->input, &launches);
	if (!starts_nvflare(check, &launches))
		return;
	for (size_t i = 0; i < launches.variable_count; i++)
		if (is_needed(check, &launches.variables[i]))
			check_row(check, &launches, &launches.variables[i]);
	if (launches.cut)
		flmem_launch_report_doubt(check, &first, "environment", FLMEM_LAUNCH_CUT);
	if (launches.shell && strstr(check->input->document.text.data, "\r\n"))
		flmem_launch_report_doubt(check, &first, "environment",
					  "lines end in carriage returns, which a shell takes "
					  "as a part of values and commands");
	flmem_launch_report_doubts(check, &launches);
	check_edits(check, &launches);
	check_callers(check, &launches);
}

static const struct flmem_rule_row nvflare_launch_doubts_rows[] = {
	{
		.rule = {.id = "NVF-LAUNCH-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition =
				 "a variable that rules check whose value is not a literal, or "
				 "that a script sets or unsets in a function or under a condition "
				 "which is not about such a variable; variables from another file "
				 "or command (source, eval, env_file, EnvironmentFile, env $LIST, "
				 "dotenv, another script that runs it), or of "
				 "another name (declare -n, export $NAME=VALUE); sudo that keeps "
				 "variables, tmux where "
				 "some are set, mpirun to other hosts, jsrun and enroot that may "
				 "not pass them on; a heredoc that starts NVFlare and that no "
				 "shell reads, or a command that a pipe passes to others; a "
				 "command under another key of a YAML file (Ansible, Argo), in "
				 "JSON or TOML (devcontainer.json, pyproject.toml); the start "
				 "scripts of a kit "
				 "(startup/start.sh, nvflare poc start); Python files that it runs "
				 "and that are not checked in the same folder; nvflare job create "
				 "and submit; files of make, just, HTCondor and others that are "
				 "not "
				 "read, templates; a command that changes the configuration of a "
				 "job (sed -i, jq); a file that sets or starts more than flmem "
				 "keeps",
			 .message = "cannot tell with which variables or settings it is started",
			 .source = "POSIX shell, bash and sudo manuals"},
		.inputs = {&flmem_launch_file, &flmem_launch_unread_file},
		.check = launch_cannot_tell,
	},
};

const struct flmem_rule_table flmem_nvflare_launch_doubts = {
	nvflare_launch_doubts_rows, FLMEM_ARRAY_SIZE(nvflare_launch_doubts_rows)};
