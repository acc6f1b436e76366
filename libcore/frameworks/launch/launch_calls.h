/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_CALLS_H
#define FLMEM_FRAMEWORKS_LAUNCH_CALLS_H

/* What Python starts: the commands of its calls, and its texts that are commands. */

#include "documents/python/python.h"
#include "frameworks/launch/launch_search.h"

#define FLMEM_LAUNCH_CALL_MAX	  4096
#define FLMEM_LAUNCH_BRACKETS_MAX 64

/* Python that starts programs; `calls` and the like are those of its tree. */
extern const struct flmem_input_kind flmem_launch_python_file;

/* Whether a function starts a program, by its full path. */
bool flmem_launch_is_start(const char *path);

/* Whether the Python with this root calls such a function. */
bool flmem_launch_has_start(const struct flmem_node *root);

/*
 * The words of the command of a call, in one string or in a list, with its other arguments; "cd
 * FOLDER" precedes them if the call starts the command in a folder.
 */
void flmem_launch_call_words(const struct flmem_document *document, const struct flmem_node *call,
			     char words[FLMEM_LAUNCH_CALL_MAX]);

/* Whether the program that a call starts, or the verb of that program, is a variable. */
bool flmem_launch_is_unclear_call(const struct flmem_document *document,
				  const struct flmem_node *call);

/* Whether its command only names programs: pkill -f PROGRAM. */
bool flmem_launch_call_only_names(const struct flmem_document *document,
				  const struct flmem_node *call);

/* The same for the call around an offset; false without a call. */
bool flmem_launch_is_only_named(const struct flmem_document *document, size_t at);

/* Whether a method of what is not imported starts programs: get_ipython().system() and others. */
bool flmem_launch_is_shell_method(const char *name);

/* connection.run("COMMAND") and the like, in a script that imports such a package. */
bool flmem_launch_is_library_method(const struct flmem_node *root, const char *name);

#define FLMEM_LAUNCH_UNREAD_TEXT "the notebook writes a file that is not read"

/* Whether the text is a file of settings about a framework that a cell of a notebook writes. */
bool flmem_launch_is_unread_text(const struct flmem_node *call);

/* Reads what Python starts, with the variables that it sets for these programs. */
void flmem_launch_read_calls(const struct flmem_rule_input *input, struct flmem_launches *launches);

/*
 * Reports exec() and eval() of what may be code about the framework: of a text with one of `words`
 * or with a name that is imported from `package`, or of what is known only when the script runs.
 */
void flmem_launch_check_code(struct flmem_check *check, const char *package,
			     const char *const *words);

/* A walk over the words of Python (launch_call_texts.c). */
struct flmem_launch_texts {
	const struct flmem_rule_input *input;
	/* Called at each string that is not documentation, and at each name. */
	void (*note)(struct flmem_launch_texts *texts);
	void *data;
	bool stop; /* set by `note`: enough */
	struct flmem_python_reader reader;
	bool shown[FLMEM_LAUNCH_BRACKETS_MAX];	 /* the call only shows its arguments */
	bool environ[FLMEM_LAUNCH_BRACKETS_MAX]; /* it holds variables by its name: env={...} */
	size_t open;
	bool raises; /* the statement raises or asserts */
};

void flmem_launch_texts_each(struct flmem_launch_texts *texts);

/* Whether the word is only shown to people, or compared. */
bool flmem_launch_text_is_shown(const struct flmem_launch_texts *texts);

/* Whether it is a key or an argument of what is called an environment. */
bool flmem_launch_text_in_environment(const struct flmem_launch_texts *texts);

/* The word without the quotes of a string, or as much as fits. */
void flmem_launch_text_copy(const struct flmem_python_word *word, char *out, size_t size);

/* The program of the framework that a line of the text starts; NULL: none. */
const struct flmem_launch_program *flmem_launch_text_program(const struct flmem_launch_texts *texts,
							     enum flmem_framework framework);

#endif
