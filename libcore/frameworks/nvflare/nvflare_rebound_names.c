/* SPDX-License-Identifier: Apache-2.0 */
/* Reports names of classes with settings that a script binds to something else. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/recipes/nvflare_recipes.h"

#define CLASS_NAMES_MAX 32U
#define PATTERN_MAX	64U /* words of a "case" that are searched */

/* A name by which the script calls a class with settings. */
struct class_name {
	struct flmem_nvflare_span name;
	size_t imported_at; /* offset after the last import of it so far; 0: none */
	size_t called_at;   /* offset of the last call */
};

struct name_search {
	struct flmem_check *check;
	const char *text;
	struct flmem_python_reader reader;
	struct class_name names[CLASS_NAMES_MAX];
	size_t count;
};

static bool is_class_word(const struct name_search *search, const struct class_name *one,
			  const struct flmem_python_word *word)
{
	size_t length = one->name.end - one->name.start;

	return word->kind == FLMEM_PYTHON_NAME && word->place.end - word->place.start == length &&
	       strncmp(search->text + one->name.start, word->text, length) == 0;
}

/* Notes the name that an import binds in a call: the first part of "module.Class(". */
static void note_called_name(struct name_search *search, const struct flmem_node *call)
{
	size_t start = call->place.start;
	struct class_name one = {.name = {.start = start, .end = start}, .called_at = start};

	one.name.end += strspn(search->text + start, "abcdefghijklmnopqrstuvwxyz"
						     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	if (one.name.end == start)
		return;
	for (size_t i = 0; i < search->count; i++) {
		struct class_name *known = &search->names[i];

		if (known->name.end - known->name.start == one.name.end - start &&
		    strncmp(search->text + known->name.start, search->text + start,
			    one.name.end - start) == 0) {
			known->called_at = start > known->called_at ? start : known->called_at;
			return;
		}
	}
	if (search->count < CLASS_NAMES_MAX)
		search->names[search->count++] = one;
}

static void report_again(struct name_search *search, const struct class_name *one,
			 const struct flmem_python_word *word)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)(one->name.end - one->name.start),
		 search->text + one->name.start);
	if (one->called_at > word->place.start)
		flmem_nvflare_report_word(search->check, word, name,
					  "the name may be that of something else by then");
}

static void check_bound_word(struct name_search *search, const struct flmem_python_word *word)
{
	for (size_t i = 0; i < search->count; i++)
		if (is_class_word(search, &search->names[i], word))
			report_again(search, &search->names[i], word);
}

/* Notes what an import binds. "*" of a module without such classes binds no such name. */
static void read_bound_import(struct name_search *search)
{
	static const char *const others[] = {"nvflare", "typing", "torch", "numpy",
					     "math",	"os",	  "enum",  NULL};
	struct flmem_python_reader ahead = search->reader;
	bool from = flmem_python_is(&ahead.word, "from"), own;

	flmem_python_advance(&ahead);
	own = flmem_python_is_any(&ahead.word, others);
	for (; !flmem_python_ends(&ahead.word); flmem_python_advance(&ahead)) {
		for (size_t i = 0; i < search->count; i++)
			if (is_class_word(search, &search->names[i], &ahead.word))
				search->names[i].imported_at = ahead.word.place.end;
		if (!from || own || !flmem_python_is(&ahead.word, "*"))
			continue;
		for (size_t i = 0; i < search->count; i++)
			if (search->names[i].imported_at)
				report_again(search, &search->names[i], &ahead.word);
	}
}

/*
 * Notes names in patterns: "case NAME:", "case [NAME, *rest]:", "case ... as NAME:", not "case
 * NAME(" and "case a.NAME".
 */
static void read_case(struct name_search *search)
{
	static const char *const nexts[] = {"(", ".", "=", NULL};
	struct flmem_python_reader ahead = search->reader;
	int depth = 0;

	flmem_python_advance(&ahead);
	for (unsigned i = 0; i < PATTERN_MAX && !flmem_python_ends(&ahead.word); i++) {
		const struct flmem_python_word word = ahead.word, before = ahead.before;
		char mark = word.kind == FLMEM_PYTHON_MARK ? *word.text : '\0';

		depth += (mark && strchr("([{", mark)) - (mark && strchr(")]}", mark));
		if ((mark == ':' && depth <= 0) || flmem_python_is(&word, "if"))
			return;
		flmem_python_advance(&ahead);
		if (!flmem_python_is(&before, ".") && !flmem_python_is_any(&ahead.word, nexts))
			check_bound_word(search, &word);
	}
}

static void read_bound_statement(struct name_search *search)
{
	static const char *const imports[] = {"from", "import", NULL};
	static const char *const definitions[] = {"class", "def", NULL};
	const struct flmem_python_word *word = &search->reader.word;
	struct flmem_python_reader ahead = search->reader;

	if (flmem_python_is_any(word, imports)) {
		read_bound_import(search);
	} else if (flmem_python_is(word, "case")) {
		read_case(search);
	} else if (flmem_python_is_any(word, definitions) && word->place.column > 1) {
		flmem_python_advance(&ahead);
		check_bound_word(search, &ahead.word);
	}
}

/* Names that the module itself defines hide an import: their calls are not those of the class. */
void flmem_nvflare_report_rebound_names(struct flmem_check *check)
{
	const struct flmem_python_part part = {.line = 1};
	struct name_search search = {.check = check, .text = check->input->document.text.data};
	const struct flmem_python_source source = {.text = search.text, .parts = &part, .count = 1};

	for (const struct flmem_node *n = flmem_nvflare_first(check, "calls"); n; n = n->next)
		if (flmem_nvflare_is_settable(flmem_nvflare_path_text(n)))
			note_called_name(&search, n);
	if (!search.count)
		return;
	flmem_python_start(&search.reader, &source, 0);
	for (; search.reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&search.reader))
		if (flmem_python_at_statement(&search.reader) && !search.reader.python.brackets)
			read_bound_statement(&search);
}
