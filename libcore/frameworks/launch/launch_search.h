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

#define FLMEM_LAUNCHES_MAX	   64
#define FLMEM_LAUNCH_VARIABLES_MAX 128
#define FLMEM_LAUNCH_VALUE_MAX	   256
#define FLMEM_LAUNCH_MOUNTS_MAX	   16
#define FLMEM_LAUNCH_PATH_MAX	   128
#define FLMEM_LAUNCH_SCOPES_MAX	   128
#define FLMEM_LAUNCH_DOUBTS_MAX	   16
#define FLMEM_LAUNCH_DEPTH_MAX	   4 /* each takes 50 KiB of the stack */

/* The variables of any program that rules check. */
#define FLMEM_LAUNCH_ARENA_MAX	 "MALLOC_ARENA_MAX"
#define FLMEM_LAUNCH_LD_PRELOAD	 "LD_PRELOAD"
#define FLMEM_LAUNCH_MALLOC_CONF "MALLOC_CONF"
#define FLMEM_LAUNCH_TMPDIR	 "TMPDIR"
#define FLMEM_LAUNCH_TUNABLES	 "GLIBC_TUNABLES"

struct flmem_launch_variable {
	const char *name; /* static; of an `unset` row "": all */
	int launch;	  /* index of the only launch to which it applies; -1: the whole file */
	struct flmem_place place; /* of the value without quotes; in ${NAME:-VALUE} of VALUE */
	bool known;		  /* false: the value is not known before the file runs */
	bool local;		  /* a shell's own, which the programs it starts do not get */
	bool unset;		  /* not a value, but its end: unset NAME, env -u NAME */
	bool repeated;		  /* of an earlier row, whose value rules check */
	bool last;		  /* it applies after all others of the file */
	bool around;		  /* of the container of the launch, not of its command */
	unsigned char scope;	  /* in a script of the shell: where it is set, */
	int from;		  /* and after how many launches */
	char value[FLMEM_LAUNCH_VALUE_MAX]; /* "" if it is empty or not known */
};

/* A directory in memory: tmpfs, or an emptyDir of medium Memory. */
struct flmem_launch_mount {
	int launch; /* as in struct flmem_launch_variable */
	struct flmem_place place;
	char path[FLMEM_LAUNCH_PATH_MAX];
};

/*
 * A program that starts a process of a federation, or a script of it. A table ends in a row without
 * `word`.
 */
struct flmem_launch_program {
	const char *before; /* last part of the word in front of it, or NULL */
	/* The last part of a word, or with a folder the end of one; "$": any variable. */
	const char *word;
	enum flmem_role role;
	/* Static: what the file does not show, as another program or script sets it; or NULL. */
	const char *doubt;
	const char *of; /* the program of which `before` is a verb; or NULL */
	/* One of these is in the text where the folder is entered before; NULL: any text. */
	const char *const *marks;
};

struct flmem_launch {
	enum flmem_framework framework;
	/* Server, client, or simulator server for a whole simulator; NONE if it has a doubt. */
	enum flmem_role role;
	struct flmem_place place;
	unsigned char scope;
	const char *dropper; /* static: what drops variables of the script; NULL: nothing */
	bool doubted;	     /* the doubt about its program is recorded */
	bool musl;	     /* its image is one of Alpine Linux */
};

/* A part of a script of the shell. The first one is the script. */
enum flmem_launch_scope_kind {
	FLMEM_LAUNCH_GROUP,    /* { ... } */
	FLMEM_LAUNCH_SUBSHELL, /* ( ... ), whose variables end with it */
	FLMEM_LAUNCH_FUNCTION,
	FLMEM_LAUNCH_CONDITION, /* if, case, loops */
	FLMEM_LAUNCH_CHAIN,	/* what follows && and || */
	FLMEM_LAUNCH_WORDS,	/* $( ... ) and the like inside of a command */
};

struct flmem_launch_scope {
	enum flmem_launch_scope_kind kind;
	unsigned char parent;
	bool decided; /* by the value of a variable that rules check */
};

/* Facts about a file's programs that are known only when it runs. */
struct flmem_launch_doubt {
	struct flmem_place place;
	const char *why;		    /* static */
	char script[FLMEM_LAUNCH_PATH_MAX]; /* only where this file is not checked, too; or "" */
	bool musl;			    /* as of a launch */
	bool unfollowed; /* its variables are not followed: a doubt if the script simulates */
};

/* Whether a variable reaches a program. */
enum flmem_launch_reach {
	FLMEM_LAUNCH_NEVER,
	FLMEM_LAUNCH_PERHAPS,
	FLMEM_LAUNCH_ALWAYS,
};

/* Whether the whole file has a mark of a table, which is searched once and not for each word. */
struct flmem_launch_marks {
	const char *const *marks; /* NULL: none was searched for */
	bool found;
};

struct flmem_launches {
	struct flmem_launch_marks marks; /* of `text` */
	const char *text; /* the whole file, of which some is read; NULL: all that is read first */
	struct flmem_launch launches[FLMEM_LAUNCHES_MAX];
	size_t launch_count;
	struct flmem_launch_variable variables[FLMEM_LAUNCH_VARIABLES_MAX];
	size_t variable_count;
	struct flmem_launch_mount mounts[FLMEM_LAUNCH_MOUNTS_MAX];
	size_t mount_count;
	struct flmem_launch_scope scopes[FLMEM_LAUNCH_SCOPES_MAX];
	size_t scope_count;
	struct flmem_launch_doubt doubts[FLMEM_LAUNCH_DOUBTS_MAX];
	size_t doubt_count;
	bool shell; /* a script, in which the order counts */
	/* Static: what keeps the variables of the submitting shell from a batch job; or NULL. */
	const char *isolated;
	bool open; /* more variables are set elsewhere: flmem env, env_file, envFrom, source */
	bool musl; /* the image that was read last, or any one, is of Alpine Linux */
	bool cut;  /* there was no room for the rest */
	/* Of texts within texts: a heredoc in a heredoc takes no more bytes than its own. */
	unsigned depth;
};

/* Begins those of a text within that of others, so many levels deeper. */
#define FLMEM_LAUNCHES_WITHIN(launches, levels)                       \
	{                                                             \
		.marks = (launches)->marks, .text = (launches)->text, \
		.depth = (launches)->depth + (levels),                \
	}

/* Reads an input of any of these kinds; clears `ret_launches` first. */
void flmem_launches_read(const struct flmem_rule_input *input, struct flmem_launches *ret_launches);

/* The first line that is not blank: the place of what is about the whole file. */
struct flmem_place flmem_launch_first_line(const char *text);

/* Whether a file belongs to make or the like, another shell or a template; these are not read. */
bool flmem_launch_is_unread(const char *path, const char *text);

/* The framework of which a text that runs Python mentions a word; NONE: no framework. */
enum flmem_framework flmem_launch_owner(const struct flmem_buf *text);

/* Whether a file of Python runs a simulator of the framework. */
bool flmem_launch_simulates(const struct flmem_buf *text, enum flmem_framework framework);

/* Reads the text of a script, image or unit. */
void flmem_launch_read_plain(const char *path, const char *text,
			     struct flmem_launches *ret_launches);

/* Whether a script or the like runs this file of Python. */
bool flmem_launch_runs(const struct flmem_launches *launches, const char *python);

/* Templates of the Python and of the configurations of a framework. */
bool flmem_launch_is_for_package(const struct flmem_buf *text);

/* Whether a text starts one of the programs. */
bool flmem_launch_is_likely(const char *text);

/* Whether it may do so by an entry point and a command apart from it. */
bool flmem_launch_is_split(const char *text);

/* The same of a part of a text, which may show elsewhere what it is about. */
bool flmem_launch_is_likely_in(const char *text, const char *part);

/* The same of a part of the text of the launches. */
bool flmem_launch_is_likely_for(struct flmem_launches *launches, const char *part);

/* The program of a framework that a part of a text starts; NULL: none. */
const struct flmem_launch_program *flmem_launch_program_in(enum flmem_framework framework,
							   const char *text, const char *part);

/* Whether a file that starts no such program may set variables for a script that does. */
bool flmem_launch_sets_for_others(const struct flmem_buf *text);

/* Whether a text may enter the folder of the program: it has one of the marks. */
bool flmem_launch_has_mark(const char *text, const struct flmem_launch_program *program);
/* The same of the text of the launches. */
bool flmem_launch_marks(struct flmem_launches *launches,
			const struct flmem_launch_program *program);

bool flmem_launch_is(const struct flmem_launch_variable *variable, const char *name);

/* Files that start processes of any framework, and files of variables for them. */
extern const struct flmem_input_kind flmem_launch_file;
/* Those that are not read: what makes them, runs or configures a framework is a doubt. */
extern const struct flmem_input_kind flmem_launch_unread_file;

static inline bool flmem_launch_is_kind(const struct flmem_input_kind *kind)
{
	return kind == &flmem_launch_file || kind == &flmem_launch_unread_file;
}

extern const struct flmem_file_name flmem_launch_file_names[];

/* The mount in memory that contains the path for a launch; NULL if there is none. */
const struct flmem_launch_mount *flmem_launch_mount_of(const struct flmem_launches *launches,
						       int launch, const char *path);

/* The last variable of this name in the file that is not for another launch; NULL if none is. */
const struct flmem_launch_variable *flmem_launch_find_lost(const struct flmem_launches *launches,
							   int launch, const char *name);

/* Whether a variable reaches a launch; -1: whether it reaches any program of the file. */
enum flmem_launch_reach flmem_launch_reach(const struct flmem_launches *launches,
					   const struct flmem_launch_variable *variable,
					   int launch);

/* The last value that applies to a launch, or may; NULL if there is none. */
const struct flmem_launch_variable *flmem_launch_find(const struct flmem_launches *launches,
						      int launch, const char *name);

#endif
