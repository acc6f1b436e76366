/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_code.h"

#include <string.h>

#include "base/text/text.h"
#include "documents/python/python_fields.h"

void flmem_python_code_start(struct flmem_python_code_search *search,
			     const struct flmem_python_source *source)
{
	flmem_python_start(&search->reader, source, 0);
	search->earlier = search->reader.before;
	search->has_interpreter = strstr(source->text, "get_ipython") ||
				  strstr(source->text, "IPython") ||
				  strstr(source->text, "Interactive");
}

static void advance_code(struct flmem_python_code_search *search)
{
	search->earlier = search->reader.before;
	flmem_python_advance(&search->reader);
}

/* Whether the name is the built-in function: "exec" or "builtins.exec", not a method. */
static bool is_own_function(const struct flmem_python_code_search *search)
{
	static const char *const modules[] = {"builtins", "__builtins__", "__builtin__", NULL};

	return !flmem_python_is(&search->reader.before, ".") ||
	       flmem_python_is_any(&search->earlier, modules);
}

/*
 * Whether the function is kept or passed on. Of eval, a common name of variables, only "run = eval"
 * counts.
 */
static bool is_kept_function(const struct flmem_python_code_search *search,
			     const struct flmem_python_reader *ahead)
{
	static const char *const fronts[] = {"def",    "class",	 "as",	"import",
					     "global", "lambda", "for", NULL};
	static const char *const nexts[] = {"=", ".", ":", NULL};

	if (flmem_python_is_any(&search->reader.before, fronts) ||
	    flmem_python_is_any(&ahead->word, nexts))
		return false;
	return flmem_python_is(&search->reader.word, "exec") ||
	       (flmem_python_is(&search->reader.before, "=") && flmem_python_ends(&ahead->word));
}

/* Whether an argument is a name, with or without dots: "a", "a.b". */
static bool is_plain_argument(struct flmem_python_reader ahead)
{
	do {
		if (ahead.word.kind != FLMEM_PYTHON_NAME)
			return false;
		flmem_python_advance(&ahead);
	} while (flmem_python_accept(&ahead, "."));
	return flmem_python_is(&ahead.word, ")") || flmem_python_is(&ahead.word, ",");
}

/* Whether a method of IPython or of an interpreter runs code; the code is its last argument. */
static bool is_runner(const struct flmem_python_code_search *search)
{
	static const char *const names[] = {
		"run_cell",	  "run_cell_async", "run_code", "run_line_magic",
		"run_cell_magic", "runsource",	    "runcode",	NULL};
	/* Queues, clients and databases have methods of these names, too. */
	static const char *const others[] = {"push", "ex", "ev", "magic", NULL};

	return flmem_python_is(&search->reader.before, ".") &&
	       (flmem_python_is_any(&search->reader.word, names) ||
		(search->has_interpreter && flmem_python_is_any(&search->reader.word, others)));
}

/* Goes to the last argument of the form "NAME, " or "literal, " at the reader. */
static void go_to_last_literal(struct flmem_python_reader *ahead)
{
	for (struct flmem_python_reader next = *ahead; flmem_python_at_literal(&next);) {
		*ahead = next;
		flmem_python_advance(&next);
		if (!flmem_python_accept(&next, ","))
			return;
	}
}

static bool read_code_use(const struct flmem_python_code_search *search,
			  struct flmem_python_code *code)
{
	static const char *const names[] = {"exec", "eval", NULL};
	struct flmem_python_reader ahead = search->reader;
	const bool runner = is_runner(search);

	if (ahead.word.kind != FLMEM_PYTHON_NAME ||
	    (!runner && !flmem_python_is_any(&ahead.word, names)))
		return false;
	*code = (struct flmem_python_code){.function = ahead.word,
					   .built_in = is_own_function(search)};
	flmem_python_advance(&ahead);
	code->called = flmem_python_is(&ahead.word, "(");
	if (!code->called)
		return !runner && code->built_in && is_kept_function(search, &ahead);
	if (flmem_python_is(&search->reader.before, "def"))
		return false;
	flmem_python_advance(&ahead);
	if (runner)
		go_to_last_literal(&ahead);
	if (flmem_python_at_literal(&ahead))
		code->text = ahead.word;
	code->named = is_plain_argument(ahead);
	return !flmem_python_is(&ahead.word, ")");
}

bool flmem_python_code_next(struct flmem_python_code_search *search,
			    struct flmem_python_code *ret_code)
{
	bool found = false;

	for (; !found && search->reader.word.kind != FLMEM_PYTHON_END; advance_code(search))
		found = read_code_use(search, ret_code);
	return found;
}

static bool is_name_letter(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z');
}

/*
 * Whether a string holds a name as a whole word, with `call` before a "(". Quotes are around it, so
 * a character precedes and follows the name.
 */
static bool has_whole_name(const struct flmem_python_word *string, const char *name, bool call)
{
	const char *end = string->text + (string->place.end - string->place.start), *at;
	size_t length = strlen(name);

	for (at = string->text + 1; at < end; at += length) {
		at = memmem(at, (size_t)(end - at), name, length);
		if (!at || at + length >= end)
			return false;
		if (!is_name_letter(at[-1]) &&
		    (call ? at[length] == '(' : !is_name_letter(at[length])))
			return true;
	}
	return false;
}

bool flmem_python_code_has_name(const struct flmem_python_word *string,
				const struct flmem_node *root, const char *package, bool call)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(root, "imports"));
	size_t length = strlen(package);

	for (; n; n = n->next) {
		const char *name = strrchr(n->text, '.');

		if (name && name[1] && flmem_text_starts(n->text, package) &&
		    n->text[length] == '.' && has_whole_name(string, name + 1, call))
			return true;
	}
	return false;
}
