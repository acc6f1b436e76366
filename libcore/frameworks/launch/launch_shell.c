/* SPDX-License-Identifier: Apache-2.0 */
/* Follows exports of a shell, and commands that run others in another environment. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

/* Index of the name in the list of exported variables; of the NULL at its end if it is missing. */
static size_t find_exported(const struct flmem_launch_scan *scan, const char *name)
{
	size_t i = 0;

	while (scan->exported[i] && scan->exported[i] != name)
		i++;
	return i;
}

bool flmem_launch_is_exported(const struct flmem_launch_scan *scan, const char *name)
{
	return scan->exported[find_exported(scan, name)];
}

/* Exports a variable, which may be assigned before or later. */
static void export_name(struct flmem_launch_scan *scan, const char *name)
{
	size_t at = find_exported(scan, name);

	for (size_t i = 0; i < scan->launches->variable_count; i++) {
		struct flmem_launch_variable *row = &scan->launches->variables[i];

		if (!row->local || row->name != name)
			continue;
		row->local = false;
		row->launches_before = (int)scan->launches->launch_count;
		row->scope = scan->scope;
	}
	if (at + 1 < FLMEM_ARRAY_SIZE(scan->exported))
		scan->exported[at] = name;
}

void flmem_launch_add_unset(struct flmem_launches *launches, const char *name, int launch,
			    const struct flmem_place *place)
{
	size_t count = launches->variable_count;

	flmem_launch_add_variable(launches, name, NULL, launch, place);
	if (launches->variable_count > count)
		launches->variables[count].unset = true;
}

static struct flmem_place place_of(const struct flmem_launch_scan *scan)
{
	return (struct flmem_place){
		.start = scan->at,
		.end = scan->at,
		.line = scan->line,
		.column = (unsigned)(scan->at - scan->line_start + 1),
	};
}

/* Ends a variable for programs that are started later. */
static void unset_name(struct flmem_launch_scan *scan, const char *name)
{
	const size_t size = FLMEM_ARRAY_SIZE(scan->exported);
	const struct flmem_place place = place_of(scan);

	for (size_t i = find_exported(scan, name); i + 1 < size && scan->exported[i]; i++)
		scan->exported[i] = scan->exported[i + 1];
	flmem_launch_add_unset(scan->launches, name, -1, &place);
}

/* Whether a word ends the export of variables: "export -n NAME", "declare +x NAME". */
static bool ends_export(const struct flmem_launch_statement *now, const char *text)
{
	return now->declares ? *text == '+' && strchr(text, 'x')
			     : now->exports && strcmp(text, "-n") == 0;
}

/* Notes "export NAME=VALUE", so that a later NAME=VALUE is exported, too. */
static void export_assigned(struct flmem_launch_scan *scan, const char *text)
{
	size_t length = strcspn(text, "=+");
	const char *name = text[length] ? flmem_launch_variable_name(text, length) : NULL;
	size_t at = find_exported(scan, name);

	if (name && at + 1 < FLMEM_ARRAY_SIZE(scan->exported))
		scan->exported[at] = name;
}

/* Adds a doubt at "declare -n NAME=OTHER": an assignment to NAME sets OTHER. */
static bool note_reference(struct flmem_launch_scan *scan, const char *text)
{
	const char *equals = strchr(text, '=');
	const struct flmem_place place = place_of(scan);

	scan->now.refers |= scan->now.declares && *text == '-' && strchr(text, 'n');
	if (!scan->now.refers || !equals ||
	    !flmem_launch_variable_name(equals + 1, strlen(equals + 1)))
		return false;
	scan->launches->open = true;
	flmem_launch_add_doubt(scan->launches, &place, "a variable is set by another name");
	return true;
}

static void end_export(struct flmem_launch_statement *now)
{
	now->exports = false;
	now->unsets = true;
}

/* The ways to export are export, declare -x, typeset -x, set -a and set -o allexport. */
void flmem_launch_note_export(struct flmem_launch_scan *scan, const char *text, const char *before)
{
	struct flmem_launch_statement *now = &scan->now;
	const char *name = flmem_launch_variable_name(text, strlen(text));

	if (strcmp(text, "declare") == 0 || strcmp(text, "typeset") == 0 ||
	    strcmp(text, "local") == 0)
		now->declares = true;
	else if (note_reference(scan, text))
		return;
	else if (ends_export(now, text))
		end_export(now);
	else if (strcmp(text, "export") == 0 || (now->declares && *text == '-'))
		now->exports |= !now->declares || strchr(text, 'x');
	else if (strcmp(before, "set") == 0 && strchr("-+", *text) && strchr(text, 'a'))
		scan->exports_all = *text == '-';
	else if (strcmp(text, "allexport") == 0)
		scan->exports_all = *before != '+';
	else if (strcmp(text, "unset") == 0 && !*now->previous)
		now->unsets = true;
	else if (now->unsets && name)
		unset_name(scan, name);
	else if (now->exports && name)
		export_name(scan, name);
	else if (now->exports && !scan->scope && !scan->after_pipe)
		export_assigned(scan, text);
}

void flmem_launch_drop(struct flmem_launch_scan *scan, const struct flmem_place *place,
		       const char *dropper)
{
	if (scan->now.launch >= 0)
		return;
	scan->now.dropper = dropper;
	flmem_launch_add_unset(scan->launches, "", -1, place);
}

struct runner_row {
	const char *word;
	enum flmem_launch_runner runner;
	const char *dropper; /* static: name of the runner if it drops variables; or NULL */
};

static const struct runner_row runners[] = {
	{"env", FLMEM_LAUNCH_BY_ENV, NULL},
	{"sudo", FLMEM_LAUNCH_BY_SUDO, "sudo"},
	{"doas", FLMEM_LAUNCH_BY_TEXT, "doas"},
	{"su", FLMEM_LAUNCH_BY_SU, NULL},
	{"runuser", FLMEM_LAUNCH_BY_SU, NULL},
	{"ssh", FLMEM_LAUNCH_BY_SSH, "ssh"},
	{"pdsh", FLMEM_LAUNCH_BY_SSH, "pdsh"},
	{"clush", FLMEM_LAUNCH_BY_SSH, "clush"},
	{"eval", FLMEM_LAUNCH_BY_TEXT, NULL},
	{"tmux", FLMEM_LAUNCH_BY_TEXT, NULL},
	{"screen", FLMEM_LAUNCH_BY_TEXT, NULL},
	{"parallel", FLMEM_LAUNCH_BY_TEXT, NULL},
	{"watch", FLMEM_LAUNCH_BY_TEXT, NULL},
	{"trap", FLMEM_LAUNCH_BY_TEXT, NULL},
	{"bash", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"sh", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"dash", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"zsh", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"ksh", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"sbatch", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"at", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"batch", FLMEM_LAUNCH_BY_SHELL, NULL},
	{"docker", FLMEM_LAUNCH_BY_CONTAINER, "docker"},
	{"podman", FLMEM_LAUNCH_BY_CONTAINER, "podman"},
	{"nerdctl", FLMEM_LAUNCH_BY_CONTAINER, "nerdctl"},
	{"kubectl", FLMEM_LAUNCH_BY_CONTAINER, "kubectl"},
	{"apptainer", FLMEM_LAUNCH_BY_APPTAINER, NULL},
	{"singularity", FLMEM_LAUNCH_BY_APPTAINER, NULL},
	{"systemd-run", FLMEM_LAUNCH_DIRECTLY, "systemd-run"},
	{"bsub", FLMEM_LAUNCH_BY_TEXT, NULL},
	{"qsub", FLMEM_LAUNCH_BY_TEXT, "qsub"},
	{"srun", FLMEM_LAUNCH_DIRECTLY, "srun under #SBATCH --export"},
	{"mpirun", FLMEM_LAUNCH_BY_MPI, NULL},
	{"mpiexec", FLMEM_LAUNCH_BY_MPI, NULL},
	{"mpiexec.hydra", FLMEM_LAUNCH_BY_MPI, NULL},
	{"orterun", FLMEM_LAUNCH_BY_MPI, NULL},
	{"prterun", FLMEM_LAUNCH_BY_MPI, NULL},
	{"flux", FLMEM_LAUNCH_BY_FLUX, NULL},
	{"jsrun", FLMEM_LAUNCH_BY_JSRUN, NULL},
	{"ch-run", FLMEM_LAUNCH_BY_CH_RUN, NULL},
	{"enroot", FLMEM_LAUNCH_BY_ENROOT, NULL},
};

/*
 * Programs that count only as the first word of a command: elsewhere the word is plain text or a
 * file name.
 */
static bool is_common_word(const char *name)
{
	return strcmp(name, "at") == 0 || strcmp(name, "batch") == 0;
}

static const struct runner_row *find_runner(const struct flmem_launch_scan *scan, const char *text)
{
	const char *name = flmem_text_basename(flmem_launch_skip_key(scan, text));

	if (strcmp(scan->now.previous, "flmem") == 0)
		return NULL;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(runners); i++)
		if (strcmp(name, runners[i].word) == 0 &&
		    !(is_common_word(name) && *scan->now.command))
			return &runners[i];
	return NULL;
}

/* Whether a word has a one-letter option: "-i" and "-0i", not "--in". */
static bool has_letter(const char *text, char letter)
{
	return *text == '-' && text[1] != '-' && strchr(text, letter);
}

/* Reads options of env [-i] [-u NAME] [-S TEXT] [NAME=VALUE] COMMAND. */
static void note_env_option(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			    const char *before)
{
	const char *text = word->text;
	const char *name = text;

	if (flmem_launch_split_string(scan, text, before))
		return;
	if (flmem_text_starts(text, "--unset="))
		name = text + strlen("--unset=");
	else if (flmem_text_starts(text, "-u") && text[2])
		name = text + 2;
	else if (!scan->now.unsets_next)
		name = NULL;
	scan->now.unsets_next = strcmp(text, "-u") == 0 || strcmp(text, "--unset") == 0;
	if (name) {
		name = flmem_launch_variable_name(name, strlen(name));
		if (name)
			flmem_launch_add_unset(scan->launches, name, -1, &word->place);
	} else if (strcmp(text, "-") == 0 || strcmp(text, "--ignore-environment") == 0 ||
		   has_letter(text, 'i')) {
		flmem_launch_drop(scan, &word->place, "env -i");
	} else if (*text != '-' && !strchr(text, '=')) {
		scan->now.runner = FLMEM_LAUNCH_DIRECTLY;
	}
}

static bool is_in_list(const char *list, const char *name)
{
	const char *at = strstr(list, name);
	size_t length = strlen(name);

	return at && (at == list || at[-1] == ',') && (!at[length] || at[length] == ',');
}

/*
 * Replaces the row by which sudo drops all variables by one for each variable that it still drops.
 */
static void note_sudo_keeps(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			    const char *list)
{
	static const char *const always[] = {FLMEM_LAUNCH_LD_PRELOAD, FLMEM_LAUNCH_TMPDIR,
					     FLMEM_LAUNCH_TUNABLES};
	struct flmem_launches *launches = scan->launches;
	size_t kept = scan->now.first_variable;
	const char *name;

	for (size_t i = scan->now.first_variable; i < launches->variable_count; i++)
		if (!launches->variables[i].unset || *launches->variables[i].name)
			launches->variables[kept++] = launches->variables[i];
	launches->variable_count = kept;
	for (size_t i = 0; !list && i < FLMEM_ARRAY_SIZE(always); i++)
		flmem_launch_add_unset(launches, always[i], -1, &word->place);
	for (size_t i = 0; list && (name = flmem_launch_name_at(i)); i++)
		if (!is_in_list(list, name))
			flmem_launch_add_unset(launches, name, -1, &word->place);
	flmem_launch_add_doubt(launches, &word->place,
			       "which variables sudo keeps depends on the policy of the host");
}

static void note_sudo_option(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char keep[] = "--preserve-env";
	const char *text = word->text;

	if (flmem_text_starts(text, keep) && (!text[sizeof(keep) - 1] || strchr(text, '=')))
		note_sudo_keeps(scan, word, strchr(text, '=') ? strchr(text, '=') + 1 : NULL);
	else if (has_letter(text, 'E'))
		note_sudo_keeps(scan, word, NULL);
	else if (*text != '-' && !strchr(text, '=') && *scan->now.previous != '-')
		scan->now.runner = FLMEM_LAUNCH_DIRECTLY;
}

static void note_passed_on(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *name = flmem_launch_variable_name(word->text, strlen(word->text));

	if (name)
		flmem_launch_add_variable(scan->launches, name, NULL, -1, &word->place);
}

const char *flmem_launch_skip_apptainer(const char *text)
{
	static const char *const marks[] = {"APPTAINERENV_", "SINGULARITYENV_"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(marks); i++)
		if (flmem_text_starts(text, marks[i]))
			return text + strlen(marks[i]);
	return text;
}

/* Drops variables set before, except those that Apptainer sets in the container. */
static void note_apptainer_option(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word)
{
	static const char *const cleans[] = {"-e", "--cleanenv", "-C", "--containall", NULL};
	struct flmem_launches *launches = scan->launches;
	size_t count = launches->variable_count;

	if (scan->now.dropper || !flmem_text_is_one_of(word->text, cleans))
		return;
	flmem_launch_drop(scan, &word->place, word->text[1] == '-' ? "--cleanenv" : "apptainer -e");
	for (size_t i = 0; i < count; i++) {
		const struct flmem_launch_variable row = launches->variables[i];
		const char *text = scan->text + row.place.start;

		if (row.launch < 0 && flmem_launch_skip_apptainer(text) != text)
			flmem_launch_add_variable(launches, row.name, row.known ? row.value : NULL,
						  -1, &row.place);
	}
}

/* Reads options that empty the environment: of setpriv(1), bwrap(1), and exec of bash(1). */
static void note_clearing_option(struct flmem_launch_scan *scan,
				 const struct flmem_launch_word *word)
{
	const char *text = word->text, *previous = scan->now.previous, *name;

	if (!scan->shell)
		return;
	if (strcmp(text, "--reset-env") == 0)
		flmem_launch_drop(scan, &word->place, "setpriv --reset-env");
	else if (strcmp(text, "--clearenv") == 0)
		flmem_launch_drop(scan, &word->place, "bwrap --clearenv");
	else if (strcmp(scan->now.command, "exec") == 0 && *previous != '-' &&
		 (strcmp(previous, "exec") == 0 || strcmp(scan->now.earlier, "-a") == 0) &&
		 has_letter(text, 'c'))
		flmem_launch_drop(scan, &word->place, "exec -c");
	name = flmem_launch_variable_name(text, strlen(text));
	if (name && strcmp(previous, "--unsetenv") == 0)
		flmem_launch_add_unset(scan->launches, name, -1, &word->place);
	else if (name && strcmp(previous, "--setenv") == 0)
		scan->now.pending = name;
}

/* Reads options of docker run [OPTIONS] IMAGE [ARGUMENTS]. */
static void note_container_option(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word, const char *before)
{
	static const char option[] = "--entrypoint";
	const char *text = word->text, *entry = NULL;

	/* NAME with the value of the host. */
	if (strcmp(before, "-e") == 0 || strcmp(before, "--env") == 0)
		note_passed_on(scan, word);
	else if (strcmp(text, "--env-host") == 0) /* podman-run(1) */
		flmem_launch_undo_drop(scan);
	else if (strcmp(scan->now.previous, option) == 0)
		entry = text;
	else if (flmem_text_starts(text, option) && text[sizeof(option) - 1] == '=')
		entry = text + sizeof(option);
	if (entry && strlen(flmem_text_basename(entry)) < sizeof(scan->now.entry))
		memcpy(scan->now.entry, flmem_text_basename(entry),
		       strlen(flmem_text_basename(entry)) + 1);
}

static void note_runner_option(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			       const char *before)
{
	switch (scan->now.runner) {
	case FLMEM_LAUNCH_BY_ENV:
		note_env_option(scan, word, before);
		break;
	case FLMEM_LAUNCH_BY_SUDO:
		note_sudo_option(scan, word);
		break;
	case FLMEM_LAUNCH_BY_SU:
		if (strcmp(word->text, "-") == 0 || strcmp(word->text, "--login") == 0 ||
		    strcmp(word->text, "-l") == 0)
			flmem_launch_drop(scan, &word->place, "su -");
		break;
	case FLMEM_LAUNCH_BY_CONTAINER:
		note_container_option(scan, word, before);
		break;
	case FLMEM_LAUNCH_BY_TEXT:
		flmem_launch_note_parallel(scan, word);
		break;
	case FLMEM_LAUNCH_BY_APPTAINER:
		note_apptainer_option(scan, word);
		break;
	default:
		flmem_launch_note_launcher(scan, word);
		break;
	}
}

/* An empty Environment= removes those before it, but not PassEnvironment= (systemd.exec(5)). */
static void reset_unit(struct flmem_launch_scan *scan)
{
	struct flmem_launches *launches = scan->launches;
	size_t kept = 0;

	for (size_t i = 0; i < launches->variable_count; i++)
		if (!launches->variables[i].known || launches->variables[i].launch >= 0)
			launches->variables[kept++] = launches->variables[i];
	launches->variable_count = scan->now.first_variable = kept;
}

/* Reads PassEnvironment=NAME NAME and UnsetEnvironment=NAME of a unit. */
static void note_unit_names(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char passes[] = "PassEnvironment=", unsets[] = "UnsetEnvironment=";
	const char *key = *scan->now.command ? scan->now.command : word->text;
	bool passed = flmem_text_starts(key, passes), unset = flmem_text_starts(key, unsets);
	const char *text = word->text, *name;

	if (!scan->shell && strcmp(word->text, "Environment=") == 0)
		reset_unit(scan);
	if (scan->shell || (!passed && !unset))
		return;
	if (!*scan->now.command)
		text = strchr(text, '=') + 1;
	name = flmem_launch_variable_name(text, strlen(text));
	if (name && passed)
		flmem_launch_add_variable(scan->launches, name, NULL, -1, &word->place);
	else if (name)
		flmem_launch_add_unset(scan->launches, name, -1, &word->place);
}

/* Whether systemd-run has --scope: it then runs the program itself, with its variables. */
static bool is_scope(const struct flmem_launch_scan *scan, const struct runner_row *row)
{
	const char *at = scan->text + scan->at;

	return strcmp(row->word, "systemd-run") == 0 &&
	       memmem(at, strcspn(at, "\n"), "--scope", strlen("--scope"));
}

void flmem_launch_note_runner(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			      const char *before)
{
	const struct runner_row *row = find_runner(scan, word->text);

	if (scan->now.launch >= 0)
		return;
	note_unit_names(scan, word);
	note_clearing_option(scan, word);
	if (!row) {
		note_runner_option(scan, word, before);
		return;
	}
	scan->now.runner = row->runner;
	flmem_launch_begin_launcher(scan, word);
	scan->line_runs |= row->runner == FLMEM_LAUNCH_BY_SHELL ||
			   row->runner == FLMEM_LAUNCH_BY_SSH || row->runner == FLMEM_LAUNCH_BY_SU;
	if (strcmp(row->word, "srun") == 0)
		flmem_launch_drop_of_step(scan, &word->place, row->dropper);
	else if (strcmp(row->word, "sbatch") == 0)
		flmem_launch_drop_of_batch(scan, &word->place);
	else if (row->dropper && !is_scope(scan, row))
		flmem_launch_drop(scan, &word->place, row->dropper);
}

/* Whether $TEXT is assigned in the script: its command is read at the assignment. */
static bool is_own_text(const struct flmem_launch_scan *scan, const char *text)
{
	char assignment[FLMEM_LAUNCH_PROGRAM_MAX];
	int length = (int)strcspn(text + 1, "}[:");

	snprintf(assignment, sizeof(assignment), "%.*s=", length, text + 1);
	return length && strstr(scan->text, assignment + (*assignment == '{'));
}

/*
 * Whether eval takes over unknown text: "$(COMMAND)", "$TEXT". The settings of flmem env are known.
 */
static bool takes_over_text(const struct flmem_launch_scan *scan, const char *text)
{
	const char *rest = scan->text + scan->at;

	if (strstr(text, "flmem env") ||
	    (strcmp(text, "$") == 0 && flmem_text_starts(rest + strspn(rest, "( "), "flmem env")))
		return false;
	return (*text == '$' && !is_own_text(scan, text)) || *text == '`' || strstr(text, "$(") ||
	       strstr(text, "export $");
}

/* Whether the exported name is known only when the script runs: "$LINE", "$KEY=$VALUE". */
static bool names_by_variable(const char *text)
{
	return strcspn(text, "$`") < strcspn(text, "=");
}

/*
 * Whether a variable holds assignments for env: env $(cat FILE), env "${LIST[@]}". Not env -C
 * "$FOLDER", nor env "$@" in a function, which is a command.
 */
static bool is_list_for_env(const struct flmem_launch_scan *scan, const char *text)
{
	static const char *const options[] = {"-u", "--unset", "-C", "--chdir", "-S", NULL};
	bool command =
		scan->scope && (flmem_text_starts(text, "$@") || flmem_text_starts(text, "${@"));

	return scan->now.runner == FLMEM_LAUNCH_BY_ENV && *text == '$' && !command &&
	       !flmem_text_is_one_of(scan->now.previous, options);
}

/*
 * Whether the script takes over variables of a file or a command; activating an environment of
 * Python sets none that is checked.
 */
static bool takes_over(const struct flmem_launch_scan *scan, const char *text)
{
	const char *command = scan->now.command;

	if (strcmp(command, "source") == 0 || strcmp(command, ".") == 0)
		return strcmp(scan->now.previous, command) == 0 &&
		       !flmem_text_ends(text, "activate") && !flmem_text_ends(text, "conda.sh");
	if (strcmp(command, "eval") == 0)
		return takes_over_text(scan, text);
	return (scan->now.exports && names_by_variable(text)) || is_list_for_env(scan, text);
}

void flmem_launch_note_source(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	bool file = flmem_text_starts(word->text, "--env-file") ||
		    flmem_text_starts(word->text, "--export-file") ||
		    flmem_text_starts(word->text, "EnvironmentFile=");

	/* %post writes into this file what the container sets. */
	file |= scan->build_section && strstr(word->text, "_ENVIRONMENT");
	if (!file && !(scan->shell && takes_over(scan, word->text)))
		return;
	scan->launches->open = true;
	flmem_launch_add_doubt(scan->launches, &word->place,
			       "variables are set in another file or by another command");
}

/* At a text that sets a variable for whatever runs it: parallel 'NAME=VALUE ./start.sh'. */
bool flmem_launch_note_quoted(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char *const prints[] = {"echo", "printf", "grep", "sed", "awk", "logger"};
	const char *name, *at = NULL;

	if (!strchr(word->text, ' '))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(prints); i++)
		if (strcmp(scan->now.command, prints[i]) == 0)
			return false;
	for (size_t i = 0; !at && (name = flmem_launch_name_at(i)); i++) {
		at = strstr(word->text, name);
		if (at && at[strlen(name)] != '=')
			at = NULL;
	}
	/* A word that begins with the name is an assignment. */
	if (!at || (at == word->text && strcmp(scan->now.command, "parallel") != 0))
		return false;
	scan->launches->open |= strcmp(scan->now.command, "eval") == 0;
	flmem_launch_add_doubt(scan->launches, &word->place,
			       "a command in quotes has variables of its own");
	return true;
}
