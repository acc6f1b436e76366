/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/notebook_kinds.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

/* Whether the line of %%script names Python: "%%script python3", "%%script --bg python". */
static bool scripts_python(const char *code)
{
	size_t line = strcspn(code, "\r\n");

	return flmem_text_starts(code, "%%script") && memmem(code, line, " python", 7);
}

/* Copies NAME of "%%writefile NAME" without its folders, at most 63 bytes. */
static void written_name(const char *line, size_t length, char name[64])
{
	size_t start;

	while (length && strchr(" \t\"'", line[length - 1]))
		length--;
	for (start = length; start && !strchr(" \t/\"'", line[start - 1]);)
		start--;
	snprintf(name, 64, "%.*s", (int)(length - start), line + start);
}

/* Whether a file may be a Python script: its name has that suffix, none, or is a variable's. */
static bool may_be_python_file(const char *line)
{
	char name[64];

	written_name(line, strcspn(line, "\r\n"), name);
	return flmem_text_ends(name, ".py") || !strchr(name, '.') || strpbrk(name, "{}$");
}

bool flmem_notebook_is_python(const char *code)
{
	static const char *const others[] = {
		"html",	  "HTML",    "svg",  "SVG",	"javascript", "js",    "latex", "markdown",
		"perl",	  "ruby",    "R",    "sql",	"bigquery",   "julia", "cpp",	"octave",
		"matlab", "fortran", "rust", "gnuplot", "mermaid",    "ai",    "cmd",	NULL};
	const char *p = code + strspn(code, " \t\r\n");
	char name[32];

	if (strncmp(p, "%%", 2) != 0 || scripts_python(p))
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(p + 2, " \t\r\n"), p + 2);
	if (strcmp(name, "writefile") == 0 || strcmp(name, "file") == 0)
		return may_be_python_file(p);
	return !flmem_text_is_one_of(name, others);
}

static bool has_any_suffix(const char *name, const char *const *suffixes)
{
	while (*suffixes && !flmem_text_ends(name, *suffixes))
		suffixes++;
	return *suffixes;
}

/* Whether "%%writefile NAME" writes a file of commands; its lines are read as commands. */
static bool writes_commands(const char *line, size_t length)
{
	static const char *const suffixes[] = {".sh",	   ".bash",    ".yml", ".yaml", ".slurm",
					       ".sbatch",  ".service", ".pbs", ".env",	".zsh",
					       ".crontab", ".lsf",     NULL};
	static const char *const names[] = {"Dockerfile", "Containerfile", "Makefile", "Procfile",
					    NULL};
	char name[64];

	written_name(line, length, name);
	return has_any_suffix(name, suffixes) || flmem_text_is_one_of(name, names);
}

bool flmem_notebook_writes_settings(const char *code)
{
	static const char *const suffixes[] = {".json", ".toml", ".conf", ".ini",
					       ".cfg",	".j2",	 ".tmpl", NULL};
	char name[64];

	code += strspn(code, " \t\r\n");
	written_name(code, strcspn(code, "\r\n"), name);
	return (flmem_text_starts(code, "%%writefile") || flmem_text_starts(code, "%%file")) &&
	       has_any_suffix(name, suffixes);
}

bool flmem_notebook_is_shell(const char *code)
{
	static const char *const magics[] = {"%%bash", "%%sh", "%%script", "%%system",
					     "%%!",    "%%sx", "%%zsh",	   "%%ksh"};
	size_t line;

	code += strspn(code, " \t\r\n");
	line = strcspn(code, "\r\n");
	if (flmem_text_starts(code, "%%writefile") || flmem_text_starts(code, "%%file"))
		return writes_commands(code, line);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(magics); i++)
		if (flmem_text_starts(code, magics[i]))
			return !scripts_python(code);
	return false;
}
