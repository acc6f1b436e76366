/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files, modules and code of Python that scripts run. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_programs.h"
#include "frameworks/launch/launch_scan.h"

/* Programs that run a Python file after a verb: uv run, accelerate launch. */
static const struct {
	const char *program, *verb;
} verbs[] = {
	{"uv", "run"},
	{"poetry", "run"},
	{"pipenv", "run"},
	{"hatch", "run"},
	{"pdm", "run"},
	{"coverage", "run"},
	{"memray", "run"},
	{"mprof", "run"},
	{"fil-profile", "run"},
	{"fabric", "run"},
	{"colossalai", "run"},
	{"jupyter", "execute"},
	{"accelerate", "launch"},
	{"accelerate.commands.accelerate_cli", "launch"},
};

/* Whether a word makes the next one a Python file, also after others (srun python3, uv run). */
static bool runs_python_file(const struct flmem_launch_scan *scan, const char *name)
{
	static const char *const names[] = {"torchrun",	 "deepspeed", "kernprof",
					    "viztracer", "scalene",   "pytest",
					    "py.test",	 "papermill", NULL};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(verbs); i++)
		if (strcmp(name, verbs[i].verb) == 0 &&
		    strcmp(scan->now.previous, verbs[i].program) == 0)
			return true;
	if (strcmp(name, "--execute") == 0 && flmem_text_starts(scan->now.command, "jupyter"))
		return true;
	return flmem_text_is_one_of(name, names) ||
	       (strcasestr(name, "python") && !strchr(name, '=')) || /* $PYTHON, ipython3 */
	       flmem_text_starts(name, "sys.executable");
}

/*
 * Whether a word is the program of a statement: the first word, or after exec, srun and the like.
 */
static bool is_program_word(const char *before, bool shell)
{
	static const char *const runners[] = {"exec", "nohup", "time", "srun", "mpirun"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(runners); i++)
		if (strcmp(before, runners[i]) == 0)
			return true;
	/* "A= ./job.py" of a shell, but not "args=('job.py',)" of other files. */
	return !*before || (strchr(before, '=') && (shell || !flmem_text_ends(before, "=")));
}

static bool starts_with_any(const char *text, const char *const *words)
{
	for (; words && *words; words++)
		if (flmem_text_starts(text, *words))
			return true;
	return false;
}

/* Whether a module runs the Python file that follows it. */
static bool is_runner_module(const char *text)
{
	static const char *const names[] = {"torch.distributed", "accelerate.commands.launch",
					    "deepspeed",	 "mpi4py",
					    "cProfile",		 "debugpy",
					    "kernprof",		 "line_profiler",
					    "memory_profiler",	 "viztracer",
					    "scalene",		 "pytest",
					    "unittest",		 NULL};
	static const char *const whole[] = {"profile", "trace", "pdb", "ipdb", "pudb", NULL};

	return starts_with_any(text, names) || flmem_text_is_one_of(text, whole);
}

/* Whether all programs of a framework are doubts: then any of its modules may be one. */
static bool has_doubts_only(const struct flmem_framework_ops *framework)
{
	for (const struct flmem_launch_program *p = framework->programs; p && p->word; p++)
		if (!p->doubt)
			return false;
	return true;
}

/*
 * Whether "-m MODULE" may be a file of the user: not of Python's library, no tool, and no module
 * that runs other files.
 */
static bool is_own_module(const char *text)
{
	static const char *const tools[] = {"pip",
					    "venv",
					    "ensurepip",
					    "json.tool",
					    "build",
					    "http.server",
					    "jupyter",
					    "flmem",
					    "ipykernel",
					    "mypy",
					    "black",
					    "ruff",
					    "flake8",
					    "pylint",
					    "zipfile",
					    "isort",
					    "docformatter",
					    "mdformat",
					    "licensecheck",
					    "poetry",
					    "twine",
					    "yapf",
					    "autopep8",
					    "sphinx",
					    "pre_commit",
					    "grpc_tools",
					    "compileall",
					    "py_compile",
					    "virtualenv",
					    "coverage",
					    "memray",
					    "accelerate.commands",
					    NULL};

	if (starts_with_any(text, tools) || is_runner_module(text))
		return false;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if (starts_with_any(text, (*f)->script_words))
			return has_doubts_only(*f);
	return true;
}

bool flmem_launch_makes_job(const char *text)
{
	static const char *const marks[] = {"Recipe", "FedJob", "runpy.run_"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(marks); i++)
		if (strstr(text, marks[i]))
			return true;
	return flmem_launch_names_command_line(text);
}

static bool has_any(const char *text, const char *const *words)
{
	for (; words && *words; words++)
		if (strstr(text, *words))
			return true;
	return false;
}

/* The framework whose simulator `code` runs, if `text` has its words; else NONE. */
static enum flmem_framework simulated_by(const char *code, const char *text)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if (has_any(code, (*f)->simulator_calls) && has_any(text, (*f)->script_words))
			return (*f)->framework;
	return FLMEM_FRAMEWORK_NONE;
}

bool flmem_launch_is_code(const char *text)
{
	return (strstr(text, "python") || strstr(text, "sys.executable")) &&
	       (simulated_by(text, text) || flmem_launch_makes_job(text));
}

bool flmem_launch_note_code(struct flmem_launches *launches, const char *code,
			    const struct flmem_launch *at, int *launch)
{
	struct flmem_launch one = *at;

	one.framework = simulated_by(code, launches->text ? launches->text : code);
	one.role = FLMEM_ROLE_SIMULATOR_SERVER;
	if (one.framework)
		*launch = flmem_launch_add(launches, &one);
	if (!one.framework && !flmem_launch_makes_job(code))
		return false;
	flmem_launch_add_script(launches, &one.place, "");
	return true;
}

bool flmem_launch_note_own_code(struct flmem_launch_scan *scan, const char *code,
				const struct flmem_place *place)
{
	const struct flmem_launch at = {
		.place = *place, .scope = scan->scope, .dropper = scan->now.dropper};

	return flmem_launch_note_code(scan->launches, code, &at, &scan->now.launch);
}

void flmem_launch_note_stdin(struct flmem_launch_scan *scan, const char *mark,
			     const struct flmem_place *place)
{
	const char *start = scan->text + scan->at + strcspn(scan->text + scan->at, "\n");
	const char *end = start;
	size_t length = strlen(mark);

	if (!scan->now.interprets || scan->now.by_variable || scan->now.launch >= 0)
		return;
	while (*end && !(strncmp(end + 1 + strspn(end + 1, "\t"), mark, length) == 0)) {
		end++;
		end += strcspn(end, "\n");
	}
	{
		FLMEM_AUTO_FREE char *code = strndup(start, (size_t)(end - start));

		scan->launches->cut |= !code;
		if (code)
			flmem_launch_note_own_code(scan, code, place);
	}
	scan->now.interprets = false;
}

/*
 * 'm' for "-m" and --module of torchrun, 'c' for "-c", also after flags: "-uc". NUL for another
 * option.
 */
static char option_of(const char *text)
{
	static const char flags[] = "bBdEiIOPqsSuvx";
	size_t count = *text == '-' ? 1 + strspn(text + 1, flags) : 0;

	if (strcmp(text, "--module") == 0)
		return 'm';
	return count && strchr("mc", text[count]) && !text[count + 1] ? text[count] : '\0';
}

/* Adds the file of "-m package.module", which may be among the checked files. */
static void note_module(struct flmem_launch_scan *scan, const char *module,
			const struct flmem_place *place)
{
	const char *dot = strrchr(module, '.');
	char file[FLMEM_LAUNCH_PATH_MAX];

	if ((size_t)snprintf(file, sizeof(file), "%s.py", dot ? dot + 1 : module) < sizeof(file))
		flmem_launch_add_script(scan->launches, place, file);
}

/* Whether "python3 -" reads its code from a pipe or a file. A heredoc is read separately. */
static bool reads_other_stdin(const struct flmem_launch_scan *scan)
{
	const char *line = scan->text + scan->at;

	return !memmem(line, strcspn(line, "\n"), "<<", 2);
}

/* Reads an option of Python, or its value. Returns true if the word is one of these. */
static bool note_python_option(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	char option = scan->now.option;
	const char *text = word->text;

	scan->now.option = '\0';
	if (!scan->now.interprets)
		return false;
	if (option == 'c')
		flmem_launch_note_own_code(scan, text, &word->place);
	else if (option == 'm' && is_own_module(text))
		note_module(scan, text, &word->place);
	else if (strcmp(text, "-") == 0 && reads_other_stdin(scan) &&
		 flmem_launch_makes_job(scan->text))
		flmem_launch_add_script(scan->launches, &word->place, "");
	if (option)
		scan->now.interprets = is_runner_module(text);
	else
		scan->now.option = option_of(text);
	return option || *text == '-';
}

/*
 * Whether a variable holds options or the value of one: $OPTS, "${OPTS[@]}", --nnodes $N. "$1" is a
 * file.
 */
static bool is_for_options(const struct flmem_launch_scan *scan,
			   const struct flmem_launch_word *word)
{
	return scan->text[word->place.start] == '$' || strstr(word->text, "[@]") ||
	       strcmp(word->text, "$@") == 0 || *scan->now.previous == '-';
}

/* Notes that the file may be in a variable, unless a later word names a file. */
static void note_python_variable(struct flmem_launch_scan *scan,
				 const struct flmem_launch_word *word)
{
	if (scan->now.by_variable)
		return;
	scan->now.interpreter = word->place;
	scan->now.file_in_variable = true;
	if (is_for_options(scan, word))
		return;
	flmem_launch_add_script(scan->launches, &word->place, "");
	scan->now.interprets = false;
}

/* Whether a command appends arguments that the script does not show: xargs python3. */
static bool gets_arguments(const char *command)
{
	return strcmp(command, "xargs") == 0 || strcmp(command, "find") == 0 ||
	       strcmp(command, "parallel") == 0;
}

void flmem_launch_end_python(struct flmem_launch_scan *scan)
{
	const struct flmem_launch_statement *now = &scan->now;

	if (now->interprets && !now->option && !now->by_variable &&
	    (now->file_in_variable || gets_arguments(now->command)))
		flmem_launch_add_script(scan->launches, &now->interpreter, "");
}

/*
 * Length of the path of a Python file: "job.py", "job.ipynb", "test_job.py" of
 * "test_job.py::test_run". 0 for other files.
 */
static size_t python_file_length(const char *text)
{
	const char *part = strstr(text, "::");
	size_t length = part ? (size_t)(part - text) : strlen(text);

	if (flmem_text_ends(text, ".ipynb") || flmem_text_ends(text, ".pyw"))
		return length;
	return length > 3 && strncmp(text + length - 3, ".py", 3) == 0 ? length : 0;
}

static void note_python_file(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	FLMEM_AUTO_FREE char *file = strndup(word->text, python_file_length(word->text));

	scan->launches->cut |= !file;
	if (file)
		flmem_launch_add_script(scan->launches, &word->place, file);
	scan->now.runs_file = true;
	scan->now.interprets = false;
}

void flmem_launch_note_python(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			      const char *name)
{
	bool first = is_program_word(scan->now.previous, scan->shell);

	if (scan->now.launch >= 0 || scan->build_step || strcmp(name, "setup.py") == 0)
		return;
	if (note_python_option(scan, word))
		return;
	if (runs_python_file(scan, name)) {
		scan->now.interprets = true;
		scan->now.by_variable = scan->now.file_in_variable = false;
		scan->now.interpreter = word->place;
	} else if ((scan->now.interprets || first) && python_file_length(name)) {
		note_python_file(scan, word);
	} else if (scan->now.interprets && *word->text == '$') {
		note_python_variable(scan, word);
	} else if (first && scan->shell && *word->text == '$') { /* $LAUNCHER client.py */
		scan->now.interprets = scan->now.by_variable = true;
	}
}
