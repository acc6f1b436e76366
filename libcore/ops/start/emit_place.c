/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/start/emit_place.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/text/text.h"

/* Flags with which a command may begin: systemd, load-fragment.c. */
#define COMMAND_FLAGS "@-:+!|"

__attribute__((format(printf, 5, 6))) static int refuse_place(int code, const char *what,
							      const char *path,
							      struct flmem_error *err,
							      const char *format, ...)
{
	char shown[256], why[256];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	return flmem_error_set(err, code, 0, "the %s '%s' %s", what,
			       flmem_text_escape(path, shown, sizeof(shown)), why);
}

#define REFUSE(code, what, path, ...) refuse_place(FLMEM_##code, (what), (path), err, __VA_ARGS__)

static bool has_controls(const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path < 0x20 || *path == 0x7f)
			return true;
	return false;
}

/* Returns true if a component is . or .., which systemd refuses in a path. */
static bool has_dots(const char *path)
{
	while (*path) {
		size_t length = strcspn(path, "/");

		if ((length == 1 || length == 2) && strncmp(path, "..", length) == 0)
			return true;
		path += length;
		path += strspn(path, "/");
	}
	return false;
}

/* Applies the limits of systemd's path_is_valid(); a name without a directory is one component. */
static bool is_too_long(const char *path)
{
	if (strlen(path) >= PATH_MAX)
		return true;
	while (*path) {
		size_t length = strcspn(path, "/");

		if (length > NAME_MAX)
			return true;
		path += length;
		path += strspn(path, "/");
	}
	return false;
}

/*
 * Returns why a line of a unit cannot have this directory, or systemd does not accept it; or NULL.
 */
static const char *find_unit_problem(const char *directory)
{
	char last = directory[strlen(directory) - 1];

	if (has_controls(directory))
		return "cannot be written in this format: it has control characters";
	if (last == '\\')
		return "ends in a backslash, which continues a line of a unit";
	if (last == ' ')
		return "ends in a space, which systemd removes";
	if (is_too_long(directory))
		return "is longer than a path may be";
	if (!flmem_text_is_assigned_utf8(directory))
		return "cannot be written in this format: it is not UTF-8, or has "
		       "noncharacters";
	return NULL;
}

static int resolve_on_host(const char *named, char **ret_directory, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *real = NULL;
	bool written = *named == '/' && !has_dots(named);
	const char *problem;

	real = written ? strdup(named) : realpath(named, NULL);
	if (!real && written)
		return flmem_error_nomem(err, "cannot store the workspace");
	if (!real)
		return REFUSE(EUSAGE, "workspace", named,
			      "cannot be resolved: %s; name an absolute path", strerror(errno));
	problem = find_unit_problem(real);
	if (problem)
		return REFUSE(EUNSUPPORTED, "workspace", real, "%s", problem);
	*ret_directory = FLMEM_TAKE(real);
	return 0;
}

int flmem_emit_directory(enum flmem_emit_place place, const char *named, char **ret_directory,
			 struct flmem_error *err)
{
	*ret_directory = NULL;
	if (!named)
		return 0;
	if (!*named)
		return REFUSE(EUSAGE, "workspace", named, "is empty");
	if (place != FLMEM_PLACE_SCRIPT && has_controls(named))
		return REFUSE(EUNSUPPORTED, "workspace", named,
			      "cannot be written in this format: it has control characters");
	if (place == FLMEM_PLACE_HOST)
		return resolve_on_host(named, ret_directory, err);
	if (place == FLMEM_PLACE_CONTAINER && *named != '/')
		return REFUSE(EUSAGE, "workspace", named,
			      "is relative; name the absolute path inside the container");
	*ret_directory = strdup(named);
	return *ret_directory ? 0 : flmem_error_nomem(err, "cannot store the workspace");
}

/*
 * Applies systemd's string_is_safe(), which refuses characters in the path of a program, however it
 * is quoted.
 */
static bool is_safe_in_unit(const char *program)
{
	return !strpbrk(program, "\"'\\") && !has_controls(program);
}

static int check_unit_program(const char *program, const char *directory, struct flmem_error *err)
{
	bool name = !strchr(program, '/');

	if (!is_safe_in_unit(program))
		return REFUSE(EUNSUPPORTED, "command", program,
			      "has quotes, backslashes or control characters, which systemd "
			      "refuses");
	if (name && (!*program || strchr(COMMAND_FLAGS, *program)))
		return REFUSE(EUSAGE, "command", program,
			      "begins like a flag of systemd; name its path");
	if (!name && *program != '/' && !directory)
		return REFUSE(EUSAGE, "command", program,
			      "is relative; name its directory with --workspace");
	/* A lone ; ends a command, whatever its quotes. */
	if (strcmp(program, ".") == 0 || strcmp(program, "..") == 0 || strcmp(program, ";") == 0)
		return REFUSE(EUSAGE, "command", program, "is not a program name for systemd");
	if (!name && program[strlen(program) - 1] == '/')
		return REFUSE(EUSAGE, "command", program, "is a directory");
	return 0;
}

int flmem_emit_unit_program(const char *program, const char *directory, char **ret_program,
			    struct flmem_error *err)
{
	int rc = check_unit_program(program, directory, err);
	char *path;

	if (rc)
		return rc;
	if (*program == '/' || !strchr(program, '/')) {
		path = strdup(program);
	} else {
		while (strncmp(program, "./", 2) == 0)
			program += 2 + strspn(program + 2, "/");
		if (asprintf(&path, "%s/%s", directory, program) < 0)
			path = NULL;
	}
	if (!path)
		return flmem_error_nomem(err, "cannot store the command");
	if (is_too_long(path)) {
		rc = REFUSE(EUNSUPPORTED, "command", program, "is longer than a path may be");
		free(path);
		return rc;
	}
	*ret_program = path;
	return 0;
}
