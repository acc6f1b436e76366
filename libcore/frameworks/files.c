/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/files.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python_unicode.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"

/* In the order in which NVFlare searches (2.7.2 to 2.9.0, fuel/utils/config.py). */
const char *const flmem_file_suffixes[] = {".json",	   ".conf",	    ".yml",
					   ".yaml",	   ".json.default", ".conf.default",
					   ".yml.default", ".yaml.default", NULL};

static const enum flmem_syntax suffix_syntaxes[] = {
	FLMEM_SYNTAX_JSON, FLMEM_SYNTAX_HOCON, FLMEM_SYNTAX_YAML, FLMEM_SYNTAX_YAML,
	FLMEM_SYNTAX_JSON, FLMEM_SYNTAX_HOCON, FLMEM_SYNTAX_YAML, FLMEM_SYNTAX_YAML};

static bool matches_stem(const char *name, const char *stem, enum flmem_syntax *ret_syntax)
{
	size_t length = strlen(stem);

	if (!flmem_text_starts(name, stem))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(suffix_syntaxes); i++)
		if (strcmp(name + length, flmem_file_suffixes[i]) == 0) {
			*ret_syntax = suffix_syntaxes[i];
			return true;
		}
	return false;
}

static bool matches_name(const struct flmem_file_name *row, const char *name,
			 enum flmem_syntax *ret_syntax)
{
	const char *dot = strrchr(name, '.');

	*ret_syntax = row->syntax;
	switch (row->match) {
	case FLMEM_NAME_WHOLE:
		return strcmp(name, row->text) == 0;
	case FLMEM_NAME_START:
		return flmem_text_starts(name, row->text);
	case FLMEM_NAME_END:
		return flmem_text_ends(name, row->text);
	case FLMEM_NAME_STEM:
		return matches_stem(name, row->text, ret_syntax);
	case FLMEM_NAME_SUFFIX:
		return dot && strcmp(dot, row->text) == 0;
	case FLMEM_NAME_MATCHES:
		break;
	}
	return false;
}

/* The names of files of each framework in turn, then the shared names; NULL after the last. */
static const struct flmem_file_name *names_at(size_t index,
					      const struct flmem_framework_ops **ret_framework)
{
	static const struct flmem_file_name none[] = {{0}};
	size_t count = 0;

	while (flmem_frameworks[count])
		count++;
	*ret_framework = index < count ? flmem_frameworks[index] : NULL;
	if (index >= count)
		return index == count ? flmem_launch_file_names : NULL;
	return flmem_frameworks[index]->files ? flmem_frameworks[index]->files : none;
}

static bool find_match(const char *name, enum flmem_name_match match,
		       struct flmem_found_file *ret_file)
{
	const struct flmem_framework_ops *framework;
	const struct flmem_file_name *row;
	enum flmem_syntax syntax;

	for (size_t i = 0; (row = names_at(i, &framework)); i++)
		for (; row->text; row++) {
			if (row->match != match || !matches_name(row, name, &syntax))
				continue;
			ret_file->match = match;
			ret_file->syntax = syntax;
			if (match == FLMEM_NAME_STEM) {
				ret_file->kind = row->kind;
				ret_file->framework = framework;
			}
			return true;
		}
	return false;
}

bool flmem_file_name_find(const char *path, struct flmem_found_file *ret_file)
{
	const char *name = flmem_text_basename(path);

	for (enum flmem_name_match match = 0; match < FLMEM_NAME_MATCHES; match++)
		if (find_match(name, match, ret_file))
			return true;
	return false;
}

/* Whether the file is one of this row, as flmem_file_name_find() decided. */
static bool is_candidate(const struct flmem_found_file *file, const struct flmem_file_name *row)
{
	enum flmem_syntax syntax;

	return row->match == file->match &&
	       matches_name(row, file->as ? file->as : flmem_text_basename(file->path), &syntax) &&
	       syntax == file->syntax;
}

/*
 * Copies text in UTF-16 without its zeros, so that words are found in it. Returns false for other
 * text.
 */
static bool drop_zeros(const struct flmem_buf *text, struct flmem_buf *ret_words)
{
	if (text->length < 2 ||
	    (memcmp(text->data, "\xff\xfe", 2) != 0 && memcmp(text->data, "\xfe\xff", 2) != 0))
		return false;
	for (size_t i = 2; i < text->length; i++)
		if (text->data[i])
			flmem_buf_putc(ret_words, text->data[i]);
	return ret_words->length && !ret_words->failed;
}

/*
 * Copies text so that a search finds words: without zeros of UTF-16, with letters folded as Python
 * does. Returns false if the text can be searched as it is.
 */
static bool reveal_words(const struct flmem_found_file *file, const struct flmem_buf *text,
			 struct flmem_buf *ret_words)
{
	if (drop_zeros(text, ret_words))
		return true;
	flmem_buf_clear(ret_words);
	return flmem_syntax_is_python(file->syntax) && flmem_python_fold_text(text, ret_words);
}

/*
 * Whether a text could be of a kind that the name allows; with `keyed`, of one that keys identify.
 */
static bool is_likely_text(const struct flmem_found_file *file, const struct flmem_buf *text,
			   bool keyed)
{
	const struct flmem_framework_ops *framework;
	const struct flmem_file_name *row;

	for (size_t i = 0; (row = names_at(i, &framework)); i++)
		for (; row->text; row++)
			if (is_candidate(file, row) && !(keyed && row->kind->by_words) &&
			    row->kind->is_likely(file->syntax, text))
				return true;
	return false;
}

bool flmem_file_is_likely(const struct flmem_found_file *file, const struct flmem_buf *text)
{
	FLMEM_AUTO_BUF struct flmem_buf words = FLMEM_BUF_INIT;

	return is_likely_text(file, reveal_words(file, text, &words) ? &words : text, false);
}

bool flmem_file_may_be_other(const struct flmem_found_file *file, const struct flmem_buf *text)
{
	bool common = file->match == FLMEM_NAME_SUFFIX &&
		      (file->syntax == FLMEM_SYNTAX_JSON || file->syntax == FLMEM_SYNTAX_TOML);

	return common && !file->named && !is_likely_text(file, text, true);
}

static const struct flmem_input_kind *
find_kind(const struct flmem_found_file *file, const struct flmem_document *document, bool by_words)
{
	const struct flmem_framework_ops *framework;
	const struct flmem_file_name *row;

	for (size_t i = 0; (row = names_at(i, &framework)); i++)
		for (; row->text; row++)
			if (is_candidate(file, row) && row->kind->by_words == by_words &&
			    row->kind->is_one(document))
				return row->kind;
	return NULL;
}

const struct flmem_input_kind *flmem_file_recognise(const struct flmem_found_file *file,
						    const struct flmem_document *document)
{
	const struct flmem_input_kind *kind = find_kind(file, document, false);

	return kind ? kind : find_kind(file, document, true);
}

static bool is_among_kinds(const struct flmem_input_kind *kind,
			   const struct flmem_input_kind *const *kinds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (kinds[i] == kind)
			return true;
	return false;
}

void flmem_file_recognise_more(const struct flmem_found_file *file,
			       const struct flmem_document *document,
			       const struct flmem_input_kind *known,
			       const struct flmem_input_kind *ret_more[FLMEM_KINDS_MORE])
{
	const struct flmem_framework_ops *framework;
	const struct flmem_file_name *row;
	size_t count = 0;

	for (size_t i = 0; (row = names_at(i, &framework)); i++)
		for (; row->text && known->by_words && count < FLMEM_KINDS_MORE; row++)
			if (is_candidate(file, row) && row->kind->by_words && row->kind != known &&
			    !is_among_kinds(row->kind, ret_more, count) &&
			    row->kind->is_one(document))
				ret_more[count++] = row->kind;
	for (; count < FLMEM_KINDS_MORE; count++)
		ret_more[count] = NULL;
}

char *flmem_file_folder(const char *path)
{
	size_t length = strlen(path);

	while (length && path[length - 1] != '/')
		length--;
	while (length > 1 && path[length - 1] == '/')
		length--;
	return length ? strndup(path, length) : strdup(".");
}

bool flmem_file_has_word(const struct flmem_buf *text, const char *word)
{
	return memmem(text->data, text->length, word, strlen(word));
}

bool flmem_file_has_any_word(const struct flmem_buf *text, const char *const *words)
{
	for (; words && *words; words++)
		if (flmem_file_has_word(text, *words))
			return true;
	return false;
}
