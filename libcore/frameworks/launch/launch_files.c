/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which files start processes of a federation, or only set variables for them. */
#include "frameworks/launch/launch_search.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_programs.h"
#include "frameworks/launch/launch_scan.h"

/*
 * Whether a file sets a variable that rules check. TMPDIR alone does not show a framework, as any
 * script may set it.
 */
static bool is_variable_file(const struct flmem_buf *text)
{
	static const char *const common[] = {"_ARENA", FLMEM_LAUNCH_LD_PRELOAD,
					     FLMEM_LAUNCH_MALLOC_CONF, NULL};

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if (flmem_file_has_any_word(text, (*f)->variable_words) &&
		    (flmem_file_has_any_word(text, common) ||
		     flmem_file_has_any_word(text, (*f)->variable_parts) ||
		     flmem_file_has_any_word(text, (*f)->variables)))
			return true;
	return false;
}

enum flmem_framework flmem_launch_owner(const struct flmem_buf *text)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if (flmem_file_has_any_word(text, (*f)->script_words) ||
		    flmem_file_has_any_word(text, (*f)->config_words))
			return (*f)->framework;
	return FLMEM_FRAMEWORK_NONE;
}

bool flmem_launch_simulates(const struct flmem_buf *text, enum flmem_framework framework)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if ((*f)->framework == framework &&
		    flmem_file_has_any_word(text, (*f)->simulator_calls))
			return true;
	return false;
}

/*
 * Whether a file that is about a framework may run Python: files of commands may belong to any
 * program, so one of `script_words` or `config_words` has to be in it.
 */
static bool runs_python(const struct flmem_buf *text)
{
	static const char *const words[] = {
		".py",	     ".ipynb", "python", "PYTHON", "torchrun", "accelerate launch",
		"deepspeed", "| bash", "| sh",	 "bash <", "bash -s",  "sh <",
		"start.sh",  NULL};

	return flmem_launch_owner(text) && flmem_file_has_any_word(text, words);
}

/*
 * Whether the text after the name of a package makes it a host or a file: nvflare.com, nvflare.log.
 */
static bool is_host_or_file(const char *rest)
{
	static const char *const ends[] = {
		"com", "org",  "net",  "io",  "ai",	 "dev",	     "edu", "gov",
		"eu",  "uk",   "de",   "fr",  "local",	 "lan",	     "log", "yaml",
		"yml", "json", "cfg",  "ini", "toml",	 "txt",	     "md",  "html",
		"png", "svg",  "tar",  "gz",  "zip",	 "crt",	     "pem", "sock",
		"pid", "sif",  "conf", "sh",  "example", "internal", NULL};
	size_t length = strspn(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789_.-");
	char last[16];
	size_t start = length;

	while (start && rest[start - 1] != '.')
		start--;
	snprintf(last, sizeof(last), "%.*s", (int)(length - start), rest + start);
	return memchr(rest, '-', length) || flmem_text_is_one_of(last, ends);
}

/*
 * Whether a text uses a package: "import PACKAGE", "from PACKAGE.part import", "PACKAGE.part.Class"
 * in quotes, [tool.PACKAGE.
 */
static bool uses_package(const struct flmem_buf *text, const char *package)
{
	static const char *const before[] = {"\nimport ", "\nfrom ", "[tool.", "\"", "'"};
	size_t length = strlen(package);

	for (const char *at = text->data; at && (at = strstr(at, package)); at += length)
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(before); i++) {
			size_t ahead = strlen(before[i]) - (*before[i] == '\n');
			bool first = (size_t)(at - text->data) == ahead && *before[i] == '\n';
			const char *start = before[i] + first;
			size_t count = strlen(start);

			if ((size_t)(at - text->data) < count ||
			    strncmp(at - count, start, count) != 0)
				continue;
			if (strchr(i < 2 ? ". \r\n" : ".", at[length]) && at[length] &&
			    (*start == '[' || !is_host_or_file(at + length)))
				return true;
		}
	return false;
}

bool flmem_launch_is_for_package(const struct flmem_buf *text)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if (uses_package(text, (*f)->package) ||
		    flmem_file_has_any_word(text, (*f)->config_words))
			return true;
	return false;
}

/* Whether a variable holds a program whose verb is elsewhere: NAME=/usr/bin/PROGRAM. */
static bool holds_program(const char *text, const struct flmem_launch_program *program)
{
	size_t length = strlen(program->before);

	for (const char *at = text; (at = strstr(at, program->before)); at += length)
		if (at > text && strchr("=/\"'", at[-1]) && at[length] &&
		    strchr(" \r\n;\"'", at[length]) && strstr(text, program->word))
			return true;
	return false;
}

static bool has_program_variable(const char *text)
{
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p;

	while ((p = flmem_launch_program_next(&at)))
		if (flmem_launch_has_verb(p) && *p->word != '$' && holds_program(text, p))
			return strchr(text, '$');
	return false;
}

/*
 * Whether a text finds and runs a start script by a name that no other program has: find FOLDER
 * -name sub_start.sh -exec bash {}.
 */
static bool finds_start_script(const struct flmem_buf *text)
{
	static const char *const finders[] = {"find ", "xargs", "parallel", "fd ", NULL};
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p;

	while ((p = flmem_launch_program_next(&at))) {
		const char *name = strchr(p->word, '/');

		if (name && strchr(name, '.') && !p->marks && flmem_file_has_word(text, name + 1))
			return flmem_file_has_any_word(text, finders);
	}
	return false;
}

static bool launch_file_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	/* In documents other than scripts, the keys show which values are commands. */
	bool about = syntax == FLMEM_SYNTAX_HOCON || syntax == FLMEM_SYNTAX_TOML
			     ? flmem_launch_owner(text) != FLMEM_FRAMEWORK_NONE
			     : runs_python(text);

	if (syntax == FLMEM_SYNTAX_PLAIN &&
	    (has_program_variable(text->data) || finds_start_script(text)))
		return true;
	if ((syntax == FLMEM_SYNTAX_YAML || syntax == FLMEM_SYNTAX_JSON) &&
	    flmem_launch_may_embed(text))
		return true;
	return about || flmem_launch_is_likely(text->data) || flmem_launch_is_split(text->data) ||
	       is_variable_file(text);
}

static bool is_launch_file(const struct flmem_document *document)
{
	const struct flmem_rule_input input = {.document = *document};
	struct flmem_launches launches;

	if (document->syntax == FLMEM_SYNTAX_PLAIN)
		return launch_file_is_likely(document->syntax, &document->text);
	flmem_launches_read(&input, &launches);
	return launches.launch_count || launches.doubt_count;
}

/*
 * Whether the variables of a file have to be exported, since its name or first line shows a shell.
 */
static bool is_shell_script(const char *path, const char *text)
{
	static const char *const suffixes[] = {".sh",	".bash",  ".zsh",    ".ksh",
					       ".dash", ".slurm", ".sbatch", ".pbs",
					       ".lsf",	".sge",	  ".qsub",   ".envrc"};
	static const char *const others[] = {"Dockerfile", "Containerfile", "Procfile", "crontab",
					     NULL};
	const char *name = flmem_text_basename(path);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(suffixes); i++)
		if (flmem_text_ends(name, suffixes[i]))
			return true;
	return flmem_text_starts(text, "#!") ||
	       (!strchr(name, '.') && !flmem_text_is_one_of(name, others));
}

void flmem_launch_read_plain(const char *path, const char *text,
			     struct flmem_launches *ret_launches)
{
	*ret_launches = (struct flmem_launches){.text = text};
	flmem_launch_read_script(text, is_shell_script(path, text), ret_launches);
}

bool flmem_launch_runs(const struct flmem_launches *launches, const char *python)
{
	const char *name = flmem_text_basename(python);

	for (size_t i = 0; i < launches->doubt_count; i++)
		if (strcmp(launches->doubts[i].script, name) == 0)
			return true;
	return false;
}

/*
 * Files that are not read: of make and the like, of other shells, of HTCondor, and templates, also
 * those that are not valid YAML.
 */
#define UNREAD_NAMES(row)                                                                  \
	row("Makefile") row("makefile") row("GNUmakefile") row("justfile") row("Justfile") \
		row("Snakefile") row("Jenkinsfile") row("Vagrantfile") row("Earthfile")    \
			row("Tiltfile") row("Rakefile")
#define UNREAD_SUFFIXES(row)                                                                     \
	row(".mk") row(".fish") row(".csh") row(".tcsh") row(".j2") row(".jinja") row(".jinja2") \
		row(".tmpl") row(".tpl") row(".hcl") row(".in") row(".yml") row(".yaml")         \
			row(".nf") row(".cwl") row(".wdl") row(".smk") row(".tf") row(".bat")    \
				row(".cmd") row(".ps1") row(".nu") row(".xsh") row(".nomad")     \
					row(".ipy") row(".pyx") row(".R") row(".sub")            \
						row(".submit") row(".condor") row(".htcondor")   \
							row(".jdl") row(".dag") row(".mako")     \
								row(".erb") row(".mustache")     \
									row(".template")
#define LISTED(text) text,

/* Whether the first line names a shell that is not read: "#!/usr/bin/env fish". */
static bool is_for_another_shell(const char *text)
{
	static const char *const known[] = {"sh", "bash", "dash", "zsh", "ksh", "python"};
	size_t length = strcspn(text, "\n");

	if (!flmem_text_starts(text, "#!"))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(known); i++) {
		const char *name = memmem(text, length, known[i], strlen(known[i]));

		if (name && strchr("/ ", name[-1]) &&
		    (strchr(" \t\r\n", name[strlen(known[i])]) || i == 5))
			return false;
	}
	return true;
}

bool flmem_launch_is_unread(const char *path, const char *text)
{
	static const char *const names[] = {UNREAD_NAMES(LISTED)};
	static const char *const suffixes[] = {UNREAD_SUFFIXES(LISTED)};
	const char *name = flmem_text_basename(path);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(suffixes); i++)
		if (flmem_text_ends(name, suffixes[i]))
			return true;
	return is_for_another_shell(text);
}

static bool unread_file_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	return launch_file_is_likely(syntax, text) || flmem_launch_is_for_package(text);
}

static bool is_unread_file(const struct flmem_document *document)
{
	return unread_file_is_likely(document->syntax, &document->text);
}

const struct flmem_input_kind flmem_launch_unread_file = {
	.any_root = true,
	.is_likely = unread_file_is_likely,
	.is_one = is_unread_file,
	.by_words = true,
};

const struct flmem_input_kind flmem_launch_file = {
	.any_root = true,
	.is_likely = launch_file_is_likely,
	.is_one = is_launch_file,
	.by_words = true,
};

static bool is_never_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	(void)text;
	return false;
}

static bool is_never_one(const struct flmem_document *document)
{
	(void)document;
	return false;
}

/* Files that are not templates although their name ends as those do: MANIFEST.in of setuptools. */
static const struct flmem_input_kind other_file = {
	.is_likely = is_never_likely,
	.is_one = is_never_one,
	.by_words = true,
};

#define UNREAD_NAME(text) {text, &flmem_launch_unread_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_PLAIN},
#define UNREAD_SUFFIX(text) \
	{text, &flmem_launch_unread_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},

const struct flmem_file_name flmem_launch_file_names[] = {
	{".sh", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".bash", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".slurm", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".sbatch", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".service", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".dockerfile", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".yml", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yaml", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".zsh", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".env", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".envrc", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_PLAIN},
	{".pbs", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".lsf", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".ksh", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".dash", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".sge", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".qsub", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".def", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".container", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".Dockerfile", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".conf", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".ini", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{".crontab", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PLAIN},
	{"crontab", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_PLAIN},
	{"Procfile", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_PLAIN},
	{"MLproject", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_YAML},
	{"MANIFEST.in", &other_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_PLAIN},
	{"Dockerfile", &flmem_launch_file, FLMEM_NAME_START, FLMEM_SYNTAX_PLAIN},
	{"Containerfile", &flmem_launch_file, FLMEM_NAME_START, FLMEM_SYNTAX_PLAIN},
	/* JSON with comments */
	{"devcontainer.json", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_HOCON},
	{".devcontainer.json", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_HOCON},
	{"tasks.json", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_HOCON},
	{"launch.json", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_HOCON},
	{"package.json", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_HOCON},
	{"pyproject.toml", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_TOML},
	{"pixi.toml", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_TOML},
	{"poe_tasks.toml", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_TOML},
	{"Pipfile", &flmem_launch_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_TOML},
	/* Task definitions of ECS and AWS Batch, fly.toml, and others. */
	{".json", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_JSON},
	{".toml", &flmem_launch_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_TOML},
	FLMEM_PYTHON_FILE_NAMES(&flmem_launch_python_file),
	UNREAD_NAMES(UNREAD_NAME) UNREAD_SUFFIXES(UNREAD_SUFFIX){0},
};
