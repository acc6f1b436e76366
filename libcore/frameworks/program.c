/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/program.h"

#include <string.h>

#include "base/text/text.h"

/* Tools that run another module or script inside their own process. */
static const char *const wrappers[] = {
	"memray", "coverage", "viztracer", "scalene", "cProfile", "debugpy", "kernprof",
};

static bool is_python_interpreter(const char *word)
{
	const char *name = flmem_text_basename(word);

	/* A login shell has a dash in front of its name (exec -l); it is skipped. */
	if (*name == '-')
		name++;
	return flmem_text_starts(name, "python") || flmem_text_starts(name, "pypy");
}

static bool is_wrapper_program(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(wrappers); i++)
		if (strcmp(name, wrappers[i]) == 0)
			return true;
	return false;
}

static const char *word_at(const struct flmem_argv_env *command, size_t index)
{
	return index < command->count ? command->values[index] : NULL;
}

static void set_module(struct flmem_program *program, const char *module, size_t arguments)
{
	program->module = module;
	program->script = NULL;
	program->name = module ? module : "";
	program->arguments = arguments;
}

static void set_script(struct flmem_program *program, const char *script, size_t arguments)
{
	program->module = NULL;
	program->script = script;
	program->name = flmem_text_basename(script);
	program->arguments = arguments;
}

/*
 * Reads one word of single-letter options (getopt string of Python/initconfig.c). Returns the index
 * of the next word; sets *done if the word names the program to run.
 */
static size_t read_letters(const struct flmem_argv_env *command, size_t index,
			   struct flmem_program *program, bool *done)
{
	for (const char *p = command->values[index] + 1; *p; p++) {
		const char *value = p[1] ? p + 1 : word_at(command, index + 1);
		size_t next = index + (p[1] ? 1 : 2);

		if (*p == 'm' || *p == 'c') {
			if (*p == 'm')
				set_module(program, value, next);
			*done = true;
			return next;
		}
		if (strchr("WXQ", *p))
			return next;
	}
	return index + 1;
}

static void read_python(const struct flmem_argv_env *command, struct flmem_program *program)
{
	bool done = false;
	size_t i = 1;

	while (!done && i < command->count) {
		const char *word = command->values[i];

		if (strcmp(word, "--check-hash-based-pycs") == 0) {
			i += 2;
		} else if (word[0] == '-' && word[1] && word[1] != '-') {
			i = read_letters(command, i, program, &done);
		} else if (word[0] == '-' && word[1] == '-' && word[2]) {
			i++;
		} else {
			/* "--" ends the options; "-" stands for the standard input. */
			if (strcmp(word, "--") == 0)
				word = word_at(command, ++i);
			if (word && strcmp(word, "-") != 0)
				set_script(program, word, i + 1);
			done = true;
		}
	}
}

static void skip_wrapper(const struct flmem_argv_env *command, struct flmem_program *program)
{
	const char *word;

	for (size_t i = program->arguments; (word = word_at(command, i)); i++) {
		const char *next = word_at(command, i + 1);

		if (strcmp(word, "-m") == 0 && next) {
			set_module(program, next, i + 2);
			return;
		}
		if (flmem_text_ends(word, ".py")) {
			set_script(program, word, i + 1);
			return;
		}
	}
}

void flmem_program_parse(const struct flmem_argv_env *command, struct flmem_program *ret_program)
{
	struct flmem_program program = {.name = "", .arguments = 1};

	if (command->count) {
		program.name = flmem_text_basename(command->values[0]);
		if (is_python_interpreter(command->values[0]))
			read_python(command, &program);
		if (is_wrapper_program(program.name))
			skip_wrapper(command, &program);
	}
	*ret_program = program;
}

const char *flmem_program_option(const struct flmem_argv_env *command,
				 const struct flmem_program *program, const char *option)
{
	size_t length = strlen(option);

	for (size_t i = program->arguments; i < command->count; i++) {
		const char *word = command->values[i];

		if (strncmp(word, option, length) != 0)
			continue;
		if (!word[length])
			return word_at(command, i + 1);
		if (word[length] == '=')
			return word + length + 1;
	}
	return NULL;
}

const char *flmem_program_setting(const struct flmem_argv_env *command,
				  const struct flmem_program *program, const char *option,
				  const char *key)
{
	size_t length = strlen(key), i = program->arguments;

	while (i < command->count && strcmp(command->values[i], option) != 0)
		i++;
	for (i++; i < command->count && command->values[i][0] != '-'; i++)
		if (strncmp(command->values[i], key, length) == 0 &&
		    command->values[i][length] == '=')
			return command->values[i] + length + 1;
	return NULL;
}
