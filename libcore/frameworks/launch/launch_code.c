/* SPDX-License-Identifier: Apache-2.0 */
/* Reads code about a framework that Python runs as a string: its settings are unknown. */
#include <string.h>

#include "documents/python/python_code.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_check.h"

#define CODE_MAX 64U /* findings in one file */

struct code_check {
	struct flmem_check *check;
	const char *package;
	const char *const *words;
};

/*
 * Whether a string of the file may be the code that eval(NAME) runs. Without one, the eval() is
 * taken to evaluate a number.
 */
static bool has_text_about(const struct code_check *code, const struct flmem_python_source *source)
{
	struct flmem_python_reader reader;

	flmem_python_start(&reader, source, 0);
	for (; reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&reader))
		if (reader.word.kind == FLMEM_PYTHON_STRING &&
		    flmem_python_code_has_name(&reader.word, code->check->subject, code->package,
					       true))
			return true;
	return false;
}

static bool has_any_word(const struct flmem_python_word *string, const char *const *words)
{
	for (; *words; words++)
		if (memmem(string->text, string->place.end - string->place.start, *words,
			   strlen(*words)))
			return true;
	return false;
}

static bool is_about(const struct code_check *code, const struct flmem_python_source *source,
		     const struct flmem_python_code *use)
{
	if (use->text.kind == FLMEM_PYTHON_STRING)
		return has_any_word(&use->text, code->words) ||
		       flmem_python_code_has_name(&use->text, code->check->subject, code->package,
						  false);
	if (!use->built_in)
		return false;
	return flmem_python_is(&use->function, "exec") || !use->called || !use->named ||
	       has_text_about(code, source);
}

static void report_code_use(struct flmem_check *check, const struct flmem_python_code *use)
{
	struct flmem_node node = {
		.kind = FLMEM_NODE_STRING, .text = "", .place = use->function.place};
	bool literal = use->text.kind == FLMEM_PYTHON_STRING;
	char name[FLMEM_PYTHON_DOTTED_MAX] = "";

	if (literal)
		node.place = use->text.place;
	node.place.line = flmem_document_line(&check->input->document, node.place.line);
	flmem_python_word_text(&use->function, name);
	flmem_check_report(check,
			   &(struct flmem_remark){.node = &node,
						  .path = name,
						  .detail = literal ? NULL
								    : "the code is known only "
								      "when the script runs"});
}

void flmem_launch_check_code(struct flmem_check *check, const char *package,
			     const char *const *words)
{
	const struct flmem_python_part part = {.line = 1};
	const struct flmem_python_source source = {
		.text = check->input->document.text.data, .parts = &part, .count = 1};
	const struct code_check code = {.check = check, .package = package, .words = words};
	struct flmem_python_code_search search;
	struct flmem_python_code use;

	flmem_python_code_start(&search, &source);
	for (unsigned i = 0; i < CODE_MAX && flmem_python_code_next(&search, &use);)
		if (is_about(&code, &source, &use)) {
			report_code_use(check, &use);
			i++;
		}
}
