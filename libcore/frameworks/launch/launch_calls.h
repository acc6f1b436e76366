/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_CALLS_H
#define FLMEM_FRAMEWORKS_LAUNCH_CALLS_H

/*
 * Reads the programs that Python source starts: commands in its calls, and strings that are
 * commands.
 */

#include "documents/python/python.h"
#include "frameworks/launch/launch_search.h"

/* Bytes of the words of one command with NUL, and brackets within brackets that are tracked. */
#define FLMEM_LAUNCH_CALL_MAX	  4096
#define FLMEM_LAUNCH_BRACKETS_MAX 64

/* Python source that starts programs. The trees are those of documents/python/python_calls.h. */
extern const struct flmem_input_kind flmem_launch_python_file;

/* Whether the function with this full path starts programs, such as "subprocess.run". */
bool flmem_launch_is_start(const char *path);

/* Whether Python source with this root calls a function that starts programs. */
bool flmem_launch_has_start(const struct flmem_node *root);

/*
 * Writes the words of the command that a call starts, separated by blanks, with its other
 * arguments. If the call starts it in a folder, "cd FOLDER" and a line end precede them.
 */
void flmem_launch_call_words(const struct flmem_document *document, const struct flmem_node *call,
			     char words[FLMEM_LAUNCH_CALL_MAX]);

/* Whether the program that a call starts, or the verb of that program, is a variable. */
bool flmem_launch_is_unclear_call(const struct flmem_document *document,
				  const struct flmem_node *call);

/* Whether the command of a call only names programs: pkill -f PROGRAM. */
bool flmem_launch_call_only_names(const struct flmem_document *document,
				  const struct flmem_node *call);

/* Whether the call around the offset `at` only names programs; false if no call is there. */
bool flmem_launch_is_only_named(const struct flmem_document *document, size_t at);

/* Whether a method of an object that is not imported starts programs: get_ipython().system(). */
bool flmem_launch_is_shell_method(const char *name);

/* Whether a method starts programs, as connection.run() of a script that imports fabric. */
bool flmem_launch_is_library_method(const struct flmem_node *root, const char *name);

#define FLMEM_LAUNCH_UNREAD_TEXT "this writes a file that is not read"

/* Whether a command prints a script that makes a job into a file: echo "CODE" >job.py. */
bool flmem_launch_writes_job(const char *words);

/* Whether a call stands for a file that a notebook cell writes and that is about a framework. */
bool flmem_launch_is_unread_text(const struct flmem_node *call);

/* Reads the programs that Python source starts, and the variables that it sets for them. */
void flmem_launch_read_calls(const struct flmem_rule_input *input, struct flmem_launches *launches);

/*
 * Reports exec() and eval() whose code may be about the framework: strings with one of `words`
 * (ends in NULL) or with a name imported from `package`, and code known only when the script runs.
 */
void flmem_launch_check_code(struct flmem_check *check, const char *package,
			     const char *const *words);

/* A walk over strings and names of Python source (launch_call_texts.c). */
struct flmem_launch_texts {
	const struct flmem_rule_input *input;
	/* Called at each string that is not documentation, and at each name. */
	void (*note)(struct flmem_launch_texts *texts);
	void *data;
	bool stop; /* set by `note` to end the walk */
	struct flmem_python_reader reader;
	/* About each open bracket, the outermost first: */
	bool shown[FLMEM_LAUNCH_BRACKETS_MAX];	 /* its call only shows its arguments */
	bool environ[FLMEM_LAUNCH_BRACKETS_MAX]; /* it holds an environment: env={...} */
	size_t open; /* how many brackets are open, possibly more than are tracked */
	bool raises; /* the statement raises or asserts */
};

/* Calls texts->note at each string and name; the caller sets `input`, `note` and `data`. */
void flmem_launch_texts_each(struct flmem_launch_texts *texts);

/* Whether the current word is only shown to people or compared. */
bool flmem_launch_text_is_shown(const struct flmem_launch_texts *texts);

/* Whether the current word is a key or an argument of an environment: env={...}. */
bool flmem_launch_text_in_environment(const struct flmem_launch_texts *texts);

/* Copies the current word without the quotes of a string, or as much of it as fits. */
void flmem_launch_text_copy(const struct flmem_python_word *word, char *out, size_t size);

/* The program of the framework that a line of the current string starts; NULL if none does. */
const struct flmem_launch_program *flmem_launch_text_program(const struct flmem_launch_texts *texts,
							     enum flmem_framework framework);

#endif
