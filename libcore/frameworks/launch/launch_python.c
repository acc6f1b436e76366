/* SPDX-License-Identifier: Apache-2.0 */
/* Files and modules of Python that scripts run. */
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_scan.h"

/* Programs that run a file of Python, also behind others (srun python3, uv run). */
static bool runs_python_file(const struct flmem_launch_scan *scan, const char *name)
{
	static const char *const names[] = {"torchrun", "accelerate", "deepspeed"};
	static const char *const runners[] = {"uv", "poetry", "pipenv", "hatch", "pdm"};

	if (strcmp(name, "run") == 0)
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(runners); i++)
			if (strcmp(scan->now.previous, runners[i]) == 0)
				return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return (strcasestr(name, "python") && !strchr(name, '=')) || /* $PYTHON, ipython3 */
	       flmem_text_starts(name, "sys.executable");
}

/* Whether a word is the program of a statement: the first one, or behind what runs programs. */
static bool is_program_word(const char *before, bool shell)
{
	static const char *const runners[] = {"exec", "nohup", "time", "srun", "mpirun"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(runners); i++)
		if (strcmp(before, runners[i]) == 0)
			return true;
	/* "A= ./job.py" of a shell, but not "args=('job.py',)" of other files */
	return !*before || (strchr(before, '=') && (shell || !flmem_text_ends(before, "=")));
}

/* "python3 -m MODULE", except what comes with Python and what starts other files. */
static bool is_own_module(const char *text)
{
	static const char *const tools[] = {"pip",	 "venv",  "ensurepip",	       "pytest",
					    "json.tool", "build", "http.server",       "ipykernel",
					    "jupyter",	 "flmem", "torch.distributed", "zipfile"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tools); i++)
		if (flmem_text_starts(text, tools[i]))
			return false;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		for (const char *const *word = (*f)->script_words; word && *word; word++)
			if (flmem_text_starts(text, *word))
				return false;
	return true;
}

/* Code in a word, that makes a job. */
static bool makes_job(const char *text)
{
	return strstr(text, "Recipe") || strstr(text, "FedJob");
}

/* True if the word belongs to an option of Python's. */
static bool note_python_option(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	char option = scan->now.option;
	const char *text = word->text;

	scan->now.option = '\0';
	if (!scan->now.interprets)
		return false;
	if ((option == 'm' && is_own_module(text)) || (option == 'c' && makes_job(text)) ||
	    (strcmp(text, "-") == 0 && makes_job(scan->text)))
		flmem_launch_add_script(scan->launches, &word->place, "");
	if (option)
		scan->now.interprets = flmem_text_starts(text, "torch.distributed");
	else if (strcmp(text, "-m") == 0 || strcmp(text, "-c") == 0)
		scan->now.option = text[1];
	return option || *text == '-';
}

void flmem_launch_note_python(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			      const char *name)
{
	bool first = is_program_word(scan->now.previous, scan->shell);
	const char *dot = strrchr(name, '.');

	if (scan->now.launch >= 0 || scan->build_step || strcmp(name, "setup.py") == 0)
		return;
	if (note_python_option(scan, word))
		return;
	if (runs_python_file(scan, name)) {
		scan->now.interprets = true;
		scan->now.interpreter = word->place;
	} else if ((scan->now.interprets || first) && dot && strcmp(dot, ".py") == 0) {
		flmem_launch_add_script(scan->launches, &word->place, word->text);
		scan->now.interprets = false;
	} else if (scan->now.interprets && *word->text == '$') {
		flmem_launch_add_script(scan->launches, &word->place, "");
		scan->now.interprets = false;
	}
}
