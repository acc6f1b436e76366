/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_FILES_H
#define FLMEM_FRAMEWORKS_FILES_H

/*
 * Which files have rules: by their names, and by their content where other programs use the name,
 * too. Each framework lists its names and describes the layout of its jobs (framework.h).
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>

#include "documents/document.h"
#include "rules/rules.h"

struct flmem_framework_ops;

/* How a name is compared; a match of an earlier row takes precedence. */
enum flmem_name_match {
	FLMEM_NAME_WHOLE,
	FLMEM_NAME_START,
	FLMEM_NAME_END,
	FLMEM_NAME_STEM, /* all before a suffix of JSON, HOCON or YAML; sufficient by itself */
	FLMEM_NAME_SUFFIX,
	FLMEM_NAME_MATCHES,
};

/* The content decides for files that match no STEM row. Tables end in a row without text. */
struct flmem_file_name {
	const char *text;
	const struct flmem_input_kind *kind;
	enum flmem_name_match match;
	enum flmem_syntax syntax; /* not for STEM: the suffix decides */
};

/* Rows of files with code in Python, which a framework's kind reads. */
#define FLMEM_PYTHON_FILE_NAMES(kind)                                          \
	{".py", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PYTHON},                 \
		{".pyw", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_PYTHON},        \
		{".ipynb", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_NOTEBOOK},    \
		{".md", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_MARKDOWN},       \
		{".markdown", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_MARKDOWN}, \
		{".qmd", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_MARKDOWN},      \
		{".Rmd", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_MARKDOWN},      \
	{                                                                      \
		".rmd", kind, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_MARKDOWN         \
	}

/* Files that are not documents. */
enum flmem_found_record {
	FLMEM_FOUND_DOCUMENT,
	FLMEM_FOUND_RECORDING, /* of flmem watch */
	FLMEM_FOUND_OOM_LOG,   /* of a kernel */
	FLMEM_FOUND_HEAP,      /* of flmem profile */
};

struct flmem_found_file {
	char *path;
	char *job; /* folder of its job; files of one job are checked together */
	char *app; /* folder of its app in a job that has apps, or NULL */
	const struct flmem_framework_ops *framework; /* the framework of its job, or NULL */
	const struct flmem_input_kind *kind; /* the kind by its name; NULL: the content decides */
	enum flmem_found_record record;
	enum flmem_syntax syntax;
	enum flmem_name_match match;
	const char *as; /* static: the name that its first line stands for, or NULL */
	bool named;	/* named by the user, not found in a folder */
	bool checked;	/* has been read and has rules */
};

/* The files of one job or folder, and the documents read of them. */
struct flmem_found_job {
	const struct flmem_found_file *files;
	size_t count;
	const struct flmem_rule_input *inputs;
	size_t input_count;
};

/* The layout of jobs of several files. */
struct flmem_job_layout {
	/*
	 * Finds the folder of the job of a file that its name identifies, and the folder of its app
	 * if it is in one; the caller frees both. False if out of memory.
	 */
	bool (*locate)(const struct flmem_found_file *file, char **ret_job, char **ret_app);
	/*
	 * Whether the file has the name of a job file but belongs to another program, unless its
	 * content identifies it as part of the job.
	 */
	bool (*is_foreign)(const struct flmem_found_job *job, const struct flmem_found_file *file);
	bool (*claims)(const struct flmem_document *document);
	/*
	 * The kind of a file that the framework ignores because it reads another one instead; else
	 * NULL.
	 */
	const struct flmem_input_kind *(*ignored)(const struct flmem_found_file *file);
	/* Adds a problem for each missing file. FLMEM_EFAILED if out of memory. */
	int (*check)(const struct flmem_found_job *job, struct flmem_recommendations *found,
		     struct flmem_error *err);
};

/* Fills kind, framework, syntax and match by the name; false if no framework uses it. */
bool flmem_file_name_find(const char *path, struct flmem_found_file *ret_file);

/* Whether the text could be of a kind that the name allows; parsing it as a document decides. */
bool flmem_file_is_likely(const struct flmem_found_file *file, const struct flmem_buf *text);

/*
 * Whether a file that cannot be parsed is not a problem: JSON and TOML hold much else (lines of
 * logs, data), which may mention a framework, too.
 */
bool flmem_file_may_be_other(const struct flmem_found_file *file, const struct flmem_buf *text);

/* The kind of a document whose name does not decide; NULL if there are no rules for it. */
const struct flmem_input_kind *flmem_file_recognise(const struct flmem_found_file *file,
						    const struct flmem_document *document);

/* Suffixes of configurations, with which a STEM is combined; ends in NULL. */
extern const char *const flmem_file_suffixes[];

/* The other kinds of one that words show, which words show, too; NULL after the last. */
void flmem_file_recognise_more(const struct flmem_found_file *file,
			       const struct flmem_document *document,
			       const struct flmem_input_kind *known,
			       const struct flmem_input_kind *ret_more[FLMEM_KINDS_MORE]);

/* The folder that contains `path`: "a/b" of "a/b/c", "." of "c". NULL if out of memory. */
char *flmem_file_folder(const char *path);

bool flmem_file_has_word(const struct flmem_buf *text, const char *word);

/* The same for any word of a list that ends in NULL; NULL: none. */
bool flmem_file_has_any_word(const struct flmem_buf *text, const char *const *words);

#endif
