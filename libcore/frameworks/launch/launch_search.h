/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_SEARCH_H
#define FLMEM_FRAMEWORKS_LAUNCH_SEARCH_H

/*
 * Finds the programs that a file starts, and the variables for them that rules check: shell
 * scripts, Dockerfiles and systemd units by their words, Compose and Kubernetes files by their
 * containers.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/roles.h>

#include "frameworks/files.h"
#include "rules/rules.h"

/* Sizes of the tables of struct flmem_launches, and of the texts in their rows with NUL. */
#define FLMEM_LAUNCHES_MAX	   64
#define FLMEM_LAUNCH_VARIABLES_MAX 128
#define FLMEM_LAUNCH_VALUE_MAX	   256
#define FLMEM_LAUNCH_MOUNTS_MAX	   16
#define FLMEM_LAUNCH_PATH_MAX	   128
#define FLMEM_LAUNCH_SCOPES_MAX	   128
#define FLMEM_LAUNCH_DOUBTS_MAX	   16
#define FLMEM_LAUNCH_DEPTH_MAX	   4 /* commands within commands; each takes 50 KiB of stack */

/* Variables that are checked for the programs of every framework. */
#define FLMEM_LAUNCH_ARENA_MAX	 "MALLOC_ARENA_MAX"
#define FLMEM_LAUNCH_LD_PRELOAD	 "LD_PRELOAD"
#define FLMEM_LAUNCH_MALLOC_CONF "MALLOC_CONF"
#define FLMEM_LAUNCH_TMPDIR	 "TMPDIR"
#define FLMEM_LAUNCH_TUNABLES	 "GLIBC_TUNABLES"

/* One assignment of a variable, or its end. Rows are in the order of the file. */
struct flmem_launch_variable {
	const char *name; /* static; "" in a row with `unset`: all variables */

	/* The value. */
	struct flmem_place place; /* of the value without quotes; in ${NAME:-VALUE} of VALUE */
	char value[FLMEM_LAUNCH_VALUE_MAX]; /* "" if it is empty or not known */
	bool known;			    /* false: the value is known only when the file runs */
	bool unset;			    /* the row ends the variable: unset NAME, env -u NAME */
	bool repeated; /* a copy of an earlier row, at which rules check the value */

	/* The programs to which it applies. */
	int launch;	     /* index of the only launch; -1: the whole file */
	bool local;	     /* a variable of the shell that is not exported: no program gets it */
	bool last;	     /* applies after all other rows of the file */
	bool of_container;   /* set for the container of the launch: its command overrides it */
	unsigned char scope; /* in a script: index of the part in which it is set */
	int launches_before; /* in a script: launches before it or its export */
};

/* A directory in memory: tmpfs, or an emptyDir of medium Memory. */
struct flmem_launch_mount {
	int launch; /* index of the only launch that has it; -1: all */
	struct flmem_place place;
	char path[FLMEM_LAUNCH_PATH_MAX];
};

/*
 * A row in the table of a framework: a program, or a script of a kit, that starts a process of a
 * federation. A table ends in a row without `word`. All texts are static.
 */
struct flmem_launch_program {
	/* The word in front of `word`, without its folder: PROGRAM in "PROGRAM VERB"; or NULL. */
	const char *before;
	/* Name of the program or verb; with a "/", the end of a path; "$": any variable. */
	const char *word;
	enum flmem_role role;
	/* What the file does not show, because another program or script sets it; or NULL. */
	const char *doubt;
	/* PROGRAM in "PROGRAM GROUP VERB", where `before` is GROUP; or NULL. */
	const char *of;
	/*
	 * A "FOLDER/FILE" in `word` is also recognised as "cd FOLDER" and FILE, if the text has one
	 * of these words; NULL: in any text. Ends in NULL.
	 */
	const char *const *marks;
};

/* A start of a program of a framework. */
struct flmem_launch {
	enum flmem_framework framework;
	/* Server, client, or simulator server for a whole simulator; NONE if it has a doubt. */
	enum flmem_role role;
	struct flmem_place place; /* of the word that names the program */
	unsigned char scope;	  /* in a script: index of the part that starts it */
	const char *dropper;	  /* static: what drops the variables set before; or NULL */
	bool doubted;		  /* the doubt about its program is recorded */
	bool musl;		  /* its image is one of Alpine Linux */
};

/* The kinds of parts of a shell script. Part 0 is the whole script. */
enum flmem_launch_scope_kind {
	FLMEM_LAUNCH_GROUP,    /* { ... } */
	FLMEM_LAUNCH_SUBSHELL, /* ( ... ): its variables end with it */
	FLMEM_LAUNCH_FUNCTION,
	FLMEM_LAUNCH_CONDITION, /* if, case, loops */
	FLMEM_LAUNCH_CHAIN,	/* commands after && and || */
	FLMEM_LAUNCH_WORDS,	/* $( ... ) and the like inside a command */
};

/* A part of a shell script. */
struct flmem_launch_scope {
	enum flmem_launch_scope_kind kind;
	unsigned char parent; /* index of the part around it */
	/* It depends on a variable that rules check, or is after "cd" and &&: it counts as run. */
	bool decided;
};

/* Something about the programs of a file that is known only when the file runs. */
struct flmem_launch_doubt {
	struct flmem_place place;
	const char *why; /* static */
	/* Name of a Python file: the doubt does not hold where that file is checked, too; or "". */
	char script[FLMEM_LAUNCH_PATH_MAX];
	bool musl;	 /* the image is one of Alpine Linux */
	bool unfollowed; /* the script gets unknown variables: holds if it runs a simulator */
};

/* Whether a variable reaches a program. */
enum flmem_launch_reach {
	FLMEM_LAUNCH_NEVER,
	FLMEM_LAUNCH_PERHAPS, /* depends on what happens when the file runs */
	FLMEM_LAUNCH_ALWAYS,
};

/* Whether the whole file has one of the `marks` of a program; kept, as each word would search. */
struct flmem_launch_marks {
	const char *const *marks; /* the marks searched last; NULL: none yet */
	bool found;
};

/* What a file starts and sets. It takes 50 KiB. */
struct flmem_launches {
	struct flmem_launch_marks marks; /* cache of a search in `text` */
	const char *text; /* the whole file; NULL: the first text that is read becomes it */

	struct flmem_launch launches[FLMEM_LAUNCHES_MAX];
	size_t launch_count;
	struct flmem_launch_variable variables[FLMEM_LAUNCH_VARIABLES_MAX];
	size_t variable_count;
	struct flmem_launch_mount mounts[FLMEM_LAUNCH_MOUNTS_MAX];
	size_t mount_count;
	struct flmem_launch_scope scopes[FLMEM_LAUNCH_SCOPES_MAX];
	size_t scope_count; /* without part 0 */
	struct flmem_launch_doubt doubts[FLMEM_LAUNCH_DOUBTS_MAX];
	size_t doubt_count;

	bool shell; /* a script, in which the order of statements counts */
	/* Static: what keeps the variables of the submitting shell from a batch job; or NULL. */
	const char *isolated;
	bool open; /* more variables are set elsewhere: flmem env, env_file, envFrom, source */
	bool musl; /* the image that was read last, or any one, is of Alpine Linux */
	bool cut;  /* a table was full, or memory was short: rows are missing */
	/* Levels of texts within texts, as a heredoc in a heredoc; see FLMEM_LAUNCH_DEPTH_MAX. */
	unsigned depth;
};

/* Initializer for the launches of a text that is `levels` deeper than that of `launches`. */
#define FLMEM_LAUNCHES_WITHIN(launches, levels)                       \
	{                                                             \
		.marks = (launches)->marks, .text = (launches)->text, \
		.depth = (launches)->depth + (levels),                \
	}

/* Reads a file of any of these kinds; clears `ret_launches` first. */
void flmem_launches_read(const struct flmem_rule_input *input, struct flmem_launches *ret_launches);

/* Place of the first line that is not blank; findings about the whole file have it. */
struct flmem_place flmem_launch_first_line(const char *text);

/* Whether a file is of make, of another shell or a template; such files are not read. */
bool flmem_launch_is_unread(const char *path, const char *text);

/* The first framework of whose words (script_words, config_words) a text holds one; or NONE. */
enum flmem_framework flmem_launch_owner(const struct flmem_buf *text);

/* Whether Python source runs a simulator of the framework. */
bool flmem_launch_simulates(const struct flmem_buf *text, enum flmem_framework framework);

/* Reads the text of a script, Dockerfile or unit into cleared launches. */
void flmem_launch_read_plain(const char *path, const char *text,
			     struct flmem_launches *ret_launches);

/* Whether the launches run a Python file with the same name as the path `python`. */
bool flmem_launch_runs(const struct flmem_launches *launches, const char *python);

/*
 * Whether a text imports the package of a framework or holds one of its config_words. A template of
 * Python or of a configuration is recognised by this.
 */
bool flmem_launch_is_for_package(const struct flmem_buf *text);

/* Whether a text names one of the programs, so that it may start it. */
bool flmem_launch_is_likely(const char *text);

/* Whether a text may start a program by an entry point and a separate command or arguments. */
bool flmem_launch_is_split(const char *text);

/* Whether `part` names one of the programs; `text` is the whole file that it is a part of. */
bool flmem_launch_is_likely_in(const char *text, const char *part);

/* The same with launches->text as the whole file; faster, as it keeps what it searched. */
bool flmem_launch_is_likely_for(struct flmem_launches *launches, const char *part);

/* The program of a framework that `part` of a text names; NULL if it names none. */
const struct flmem_launch_program *flmem_launch_program_in(enum flmem_framework framework,
							   const char *text, const char *part);

/* Whether a file that starts no program may set variables for a script that starts one. */
bool flmem_launch_sets_for_others(const struct flmem_buf *text);

/* Whether a text has one of the `marks` of a program; true if the program has no marks. */
bool flmem_launch_has_mark(const char *text, const struct flmem_launch_program *program);
/* The same for launches->text; keeps the result. */
bool flmem_launch_marks(struct flmem_launches *launches,
			const struct flmem_launch_program *program);

/* Whether the variable has this name. */
bool flmem_launch_is(const struct flmem_launch_variable *variable, const char *name);

/* Files that may start processes of any framework, or set variables for them. */
extern const struct flmem_input_kind flmem_launch_file;
/* Files that are not read (flmem_launch_is_unread()): one about a framework is a doubt. */
extern const struct flmem_input_kind flmem_launch_unread_file;

/* Whether a kind of input is one of the two above. */
static inline bool flmem_launch_is_kind(const struct flmem_input_kind *kind)
{
	return kind == &flmem_launch_file || kind == &flmem_launch_unread_file;
}

/* Names of files of these kinds; ends in an empty row. */
extern const struct flmem_file_name flmem_launch_file_names[];

/* The mount in memory that contains the path for a launch; NULL if there is none. */
const struct flmem_launch_mount *flmem_launch_mount_of(const struct flmem_launches *launches,
						       int launch, const char *path);

/*
 * The last assignment of this name that is not for another launch, even if it does not reach this
 * launch; NULL if there is none.
 */
const struct flmem_launch_variable *flmem_launch_find_lost(const struct flmem_launches *launches,
							   int launch, const char *name);

/* Whether a variable reaches a launch; with a `launch` of -1, any program of the file. */
enum flmem_launch_reach flmem_launch_reach(const struct flmem_launches *launches,
					   const struct flmem_launch_variable *variable,
					   int launch);

/* The last assignment that reaches a launch, or may reach it; NULL if there is none. */
const struct flmem_launch_variable *flmem_launch_find(const struct flmem_launches *launches,
						      int launch, const char *name);

#endif
