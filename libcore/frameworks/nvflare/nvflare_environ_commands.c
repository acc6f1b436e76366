/* SPDX-License-Identifier: Apache-2.0 */
/* Reports commands that the Python of a job runs, or gives to clients. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_scan.h"
#include "frameworks/nvflare/rules/nvflare_launch_rules.h"

/* The part of a command that runs Python which is not checked; NULL if all of it is checked. */
static const char *python_run_by(const struct flmem_check *check, const char *words)
{
	struct flmem_launches launches = {.text = check->input->document.text.data};

	if (!strstr(words, ".py"))
		return NULL;
	flmem_launch_read_script(words, true, &launches);
	for (size_t i = 0; i < launches.doubt_count; i++) {
		const struct flmem_rule_input *script =
			flmem_launch_script_of(check, &launches.doubts[i]);

		if (!script && *launches.doubts[i].script)
			return "the script runs another file of Python: also pass it";
		if (flmem_nvflare_is_simulation(script))
			return "the script runs the simulator by a command";
	}
	return NULL;
}

bool flmem_nvflare_edits_job(const char *line)
{
	static const char *const editors[] = {"sed ",	  "jq ",     "yq ",    "perl ",
					      "envsubst", "patch ",  "tee ",   "sponge",
					      "awk ",	  "crudini", "dasel ", ">"};

	if (!strstr(line, "config_fed_server") && !strstr(line, "config_fed_client"))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(editors); i++)
		if (strstr(line, editors[i]))
			return strcmp(editors[i], "sed ") != 0 || strstr(line, "-i") ||
			       strchr(line, '>');
	return false;
}

/* Whether words of a command contain the option -c of Python, also as "-uc". */
static bool has_code_option(const char *words)
{
	for (const char *at = words; (at = strstr(at, " -"));) {
		at += 2;
		at += strspn(at, "bBdEiIOPqsSuvx");
		if (flmem_text_starts(at, "c "))
			return true;
	}
	return false;
}

/*
 * Whether a command is python3 -c CODE that makes a job or runs a simulator. If CODE is a variable,
 * it may be any code of the file.
 */
static bool runs_code(const struct flmem_check *check, const struct flmem_node *call,
		      const char *words)
{
	const char *text = check->input->document.text.data;
	FLMEM_AUTO_FREE char *source = NULL;
	const char *end;

	if (!has_code_option(words))
		return false;
	source = strndup(text + call->place.start, call->place.end - call->place.start);
	if (!source)
		return false;
	end = strstr(source, "c\",");
	if (!end)
		end = strstr(source, "c',");
	if (end && !strchr("\"'", end[3 + strspn(end + 3, " \t\r\n")]))
		return flmem_launch_is_code(text);
	return flmem_launch_is_code(source);
}

/*
 * What a call starts that has to be checked separately, as text for a finding; NULL: nothing known.
 */
static const char *started_by(const struct flmem_check *check, const struct flmem_node *call)
{
	const char *text = check->input->document.text.data;
	char words[FLMEM_LAUNCH_CALL_MAX];

	flmem_launch_call_words(&check->input->document, call, words);
	if (flmem_nvflare_edits_job(words))
		return "a command changes the configuration of a job";
	if (flmem_launch_writes_job(words))
		return FLMEM_LAUNCH_UNREAD_TEXT;
	if (flmem_launch_call_only_names(&check->input->document, call))
		return NULL;
	if (flmem_launch_program_in(FLMEM_FRAMEWORK_NVFLARE, text, words))
		return "the script starts NVFlare, or sets variables, by a command";
	if (runs_code(check, call, words))
		return "the script runs code that makes a job by a command";
	return python_run_by(check, words);
}

const char *flmem_nvflare_start_by(const struct flmem_check *check, const struct flmem_node *call)
{
	const char *text = flmem_node_string(FLMEM_NODE_AT(call, "args", "0")), *what;

	if (!flmem_launch_is_start(flmem_nvflare_path_text(call)))
		return NULL;
	what = started_by(check, call);
	if (!what && text && flmem_launch_mentions_variable(text))
		what = "the script sets variables by a command";
	if (!what && flmem_launch_is_unclear_call(&check->input->document, call))
		what = "the command is known only when the script runs";
	return what;
}

static void check_start(struct flmem_check *check, const struct flmem_node *call)
{
	const char *what = flmem_nvflare_start_by(check, call);

	if (what)
		flmem_check_report(check,
				   &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							  .path = flmem_nvflare_path_text(call),
							  .detail = what});
}

/* Whether a value holds the name of a variable, also in an expression: f"env NAME={x} python3". */
static bool names_variable(const struct flmem_check *check, const struct flmem_node *value)
{
	const char *text = check->input->document.text.data;
	FLMEM_AUTO_FREE char *source =
		strndup(text + value->place.start, value->place.end - value->place.start);

	return source && flmem_launch_mentions_variable(source);
}

/* Reports commands for clients, which may begin with assignments. */
static void check_commands(struct flmem_check *check, const struct flmem_node *map)
{
	static const char *const names[] = {"command", "script", "launch_command"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		const struct flmem_node *node = flmem_node_get(map, names[i]);

		if (node && names_variable(check, node))
			flmem_check_report(
				check, &(struct flmem_remark){
					       .node = node,
					       .path = names[i],
					       .detail = "a command for clients sets variables"});
	}
}

/* Checks the sites of per_site_config, and of set_per_site_config(RECIPE, SITES). */
static void check_sites(struct flmem_check *check, const struct flmem_node *args)
{
	static const char *const names[] = {"per_site_config", "config", "0", "1"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		for (const struct flmem_node *n = flmem_node_first(flmem_node_get(args, names[i]));
		     n; n = n->next)
			check_commands(check, n);
}

/* Checks nvflare.cli.main(), and calls with commands for clients. */
static void check_nvflare(struct flmem_check *check, const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call);

	if (strcmp(path, "nvflare.cli.main") == 0 || strcmp(path, "nvflare.cli.run") == 0)
		flmem_check_report(check,
				   &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							  .path = path,
							  .detail = "the script starts NVFlare"});
	if (flmem_text_starts(path, "nvflare.")) {
		check_commands(check, flmem_node_get(call, "args"));
		check_sites(check, flmem_node_get(call, "args"));
	}
}

/* Reports %%writefile config_fed_server.json of a notebook. */
static void check_unread_text(struct flmem_check *check, const struct flmem_node *call)
{
	if (flmem_launch_is_unread_text(call))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							  .path = "writefile",
							  .detail = FLMEM_LAUNCH_UNREAD_TEXT});
}

/* Checks get_ipython().system("COMMAND"), connection.run("COMMAND") and the like. */
static void check_method(struct flmem_check *check, const struct flmem_node *call)
{
	const char *name = flmem_nvflare_path_text(call), *what;

	if (!flmem_launch_is_shell_method(name) &&
	    !flmem_launch_is_library_method(check->subject, name))
		return;
	what = started_by(check, call);
	if (what)
		flmem_check_report(check,
				   &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							  .path = name,
							  .detail = what});
}

/* Reports load_dotenv() of python-dotenv, and read_env() of environs and django-environ. */
static void check_loader(struct flmem_check *check, const struct flmem_node *call)
{
	static const char *const names[] = {"load_dotenv", "read_env"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (flmem_text_ends(flmem_nvflare_path_text(call), names[i]))
			flmem_check_report(
				check, &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							      .path = names[i],
							      .detail = "variables are set in "
									"another file"});
}

/*
 * Checks commands in an exported job: those of executors, and of a launcher among its components.
 */
void flmem_nvflare_check_job_commands(struct flmem_check *check)
{
	const struct flmem_node *root = check->input->document.root, *n;

	for (n = flmem_node_first(flmem_node_get(root, "executors")); n; n = n->next)
		check_commands(check, FLMEM_NODE_AT(n, "executor", "args"));
	for (n = flmem_node_first(flmem_node_get(root, "components")); n; n = n->next)
		check_commands(check, flmem_node_get(n, "args"));
}

void flmem_nvflare_check_loaders(struct flmem_check *check)
{
	static const char *const lists[] = {"calls", "methods"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (const struct flmem_node *n = flmem_nvflare_first(check, lists[i]); n;
		     n = n->next)
			check_loader(check, n);
}

void flmem_nvflare_check_commands(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	for (; n; n = n->next) {
		check_start(check, n);
		check_nvflare(check, n);
		check_unread_text(check, n);
	}
	for (n = flmem_nvflare_first(check, "methods"); n; n = n->next)
		check_method(check, n);
	flmem_nvflare_check_loaders(check);
}
