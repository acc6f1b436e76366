/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises commands that only name a program: they search for it, end it, fetch it or handle its
 * file.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

/* What a program does with words that name other programs. */
enum {
	NAMES = 1, /* its arguments are names or files of programs, and start nothing */
	SHOWS = 2, /* its texts in quotes are shown to people, searched for or compared */
};

static const struct {
	const char *program;
	unsigned does;
} named[] = {
	{"pkill", NAMES | SHOWS},
	{"pgrep", NAMES | SHOWS},
	{"killall", NAMES | SHOWS},
	{"kill", NAMES},
	{"pidof", NAMES},
	{"grep", NAMES | SHOWS},
	{"egrep", NAMES | SHOWS},
	{"fgrep", NAMES | SHOWS},
	{"rg", NAMES},
	{"which", NAMES},
	{"type", NAMES},
	{"hash", NAMES},
	{"whereis", NAMES},
	{"ls", NAMES},
	{"cp", NAMES},
	{"mv", NAMES},
	{"rm", NAMES},
	{"ln", NAMES},
	{"chmod", NAMES},
	{"chown", NAMES},
	{"test", NAMES | SHOWS},
	{"[", NAMES | SHOWS},
	{"[[", NAMES | SHOWS},
	{"stat", NAMES},
	{"file", NAMES},
	{"readlink", NAMES},
	{"realpath", NAMES},
	{"pip", NAMES},
	{"pip3", NAMES},
	{"apt", NAMES},
	{"apt-get", NAMES},
	{"dnf", NAMES},
	{"yum", NAMES},
	{"sed", NAMES | SHOWS},
	{"awk", NAMES | SHOWS},
	{"vi", NAMES},
	{"vim", NAMES},
	{"nano", NAMES},
	{"head", NAMES},
	{"tail", NAMES},
	{"diff", NAMES},
	{"touch", NAMES},
	{"tar", NAMES},
	{"unzip", NAMES},
	{"install", NAMES},
	{"basename", NAMES},
	{"dirname", NAMES},
	{"journalctl", NAMES},
	{"ps", NAMES},
	{"scp", NAMES},
	{"rsync", NAMES},
	{"pstree", NAMES},
	{"py-spy", NAMES},
	{"tr", SHOWS},
	{"read", SHOWS},
	{"case", SHOWS},
	{"export", SHOWS},
	{"local", SHOWS},
	{"cut", SHOWS},
	{"declare", SHOWS},
	{"readonly", SHOWS},
	{"typeset", SHOWS},
	{"find", SHOWS},
	{"git", SHOWS},
	{"gh", SHOWS},
	{"hg", SHOWS},
	{"svn", SHOWS},
	{"curl", SHOWS},
	{"wget", SHOWS},
	{"http", SHOWS},
	{"mail", SHOWS},
	{"mailx", SHOWS},
	{"sendmail", SHOWS},
	{"jq", SHOWS},
	{"python", SHOWS},
	{"python3", SHOWS},
	{"make", SHOWS},
};

static bool program_does(const char *program, unsigned what)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(named); i++)
		if (strcmp(named[i].program, program) == 0)
			return named[i].does & what;
	return false;
}

bool flmem_launch_is_naming(const char *program)
{
	return program_does(flmem_text_basename(program), NAMES);
}

bool flmem_launch_only_shows(const char *program)
{
	static const char *const parts[] = {"echo", "print", "log",    "info",	 "warn",    "err",
					    "die",  "fail",  "note",   "msg",	 "usage",   "say",
					    "step", "title", "head",   "banner", "section", "cat",
					    "exit", "abort", "notify", "debug"};

	if (program_does(program, SHOWS) || strchr(program, '='))
		return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(parts); i++)
		if (strcasestr(program, parts[i]))
			return true;
	return false;
}

/* Whether a verb handles containers, images or units without starting them: docker pull. */
static bool is_naming_verb(const char *program, const char *verb)
{
	static const char *const programs[] = {
		"docker",    "podman",	  "nerdctl",	    "compose",	   "image",
		"container", "buildx",	  "apptainer",	    "singularity", "kubectl",
		"oc",	     "systemctl", "docker-compose", "flmem",	   NULL};
	static const char *const verbs[] = {
		"pull",	  "push",    "build",	  "tag",    "rmi",	 "stop",       "rm",
		"kill",	  "logs",    "inspect",	  "images", "ps",	 "save",       "load",
		"wait",	  "stats",   "top",	  "down",   "describe",	 "get",	       "delete",
		"status", "disable", "mask",	  "cat",    "is-active", "is-enabled", "detect",
		"watch",  "trim",    "recommend", NULL};

	return flmem_text_is_one_of(program, programs) && flmem_text_is_one_of(verb, verbs);
}

/*
 * Whether the next word is the program of a command: at its start, after "sudo" and the like, or
 * after a directive of an image.
 */
static bool is_before_program(const struct flmem_launch_scan *scan)
{
	const char *command = scan->now.command;
	static const char *const runners[] = {
		"sudo",	 "doas", "env",	 "time", "nohup", "exec", "!",		 "timeout", "watch",
		"xargs", "nice", "then", "RUN",	 "CMD",	  "ssh",  "HEALTHCHECK", NULL};

	return !*command || flmem_text_is_one_of(command, runners) ||
	       flmem_text_ends(scan->now.previous, "$"); /* "$(" before pgrep and the like */
}

/* The program in "ExecStop=/usr/bin/pkill" of a unit, "$(pgrep" and "pids=$(pgrep" of a shell. */
static const char *program_in(const char *text)
{
	const char *equals = strchr(text, '=');

	if (equals && (flmem_text_starts(text, "Exec") || equals[1] == '$'))
		text = equals + 1;
	if (flmem_text_starts(text, "$("))
		text += 2;
	return text + strspn(text, "-@:+!`");
}

/* Whether echo and the like print only to a terminal: no pipe, and no file except ">&2". */
static bool prints_to_user(const struct flmem_launch_scan *scan, const char *program)
{
	static const char *const names[] = {"echo", "printf", "logger", NULL};
	const char *at = scan->text + scan->at;

	if (!flmem_text_is_one_of(program, names) || !is_before_program(scan))
		return false;
	for (; *at && *at != '\n'; at++)
		if ((*at == '>' && at[1] != '&') || *at == '<' || (*at == '|' && at[1] != '|'))
			return false;
		else if (*at == '|')
			at++;
	return true;
}

bool flmem_launch_only_names(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			     const char *before)
{
	const char *text = program_in(word->text);

	/* After "$(pgrep ...)" the command around it continues. */
	if (scan->now.names_only && scan->scope < scan->now.names_scope)
		scan->now.names_only = false;
	if (scan->now.names_only) {
		flmem_launch_note_substitutions(scan, word);
		if (scan->now.locates)
			snprintf(scan->now.previous, sizeof(scan->now.previous), "%.*s",
				 FLMEM_LAUNCH_PROGRAM_MAX - 1, flmem_text_basename(word->text));
		return true;
	}
	scan->now.shows_only |= prints_to_user(scan, text);
	scan->now.names_scope = scan->scope;
	if (strcmp(before, "command") == 0 && strcasecmp(word->text, "-v") == 0)
		scan->now.names_only = true;
	else if (flmem_launch_is_naming(text))
		scan->now.names_only = is_before_program(scan);
	else
		scan->now.names_only = is_naming_verb(scan->now.previous, text);
	scan->now.locates = scan->now.names_only && flmem_text_ends(scan->now.previous, "$") &&
			    (strcmp(text, "which") == 0 || strcmp(before, "command") == 0);
	return scan->now.names_only;
}
