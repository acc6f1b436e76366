/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about files of any framework: what their readers refuse, or read differently than written.
 */
#include "rules/document_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "documents/yaml_tags.h"

#define KEYS_MAX 256 /* entries of a map that is searched for duplicates */

/* The next later entry of the same map with the same key; NULL if there is none. */
static const struct flmem_node *later_entry_of(const struct flmem_node *node)
{
	for (const struct flmem_node *n = node->next; n; n = n->next)
		if (strcmp(n->key, node->key) == 0)
			return n;
	return NULL;
}

/* Reports keys that are repeated in a map of the node or below it. */
static void find_duplicates(struct flmem_check *check, const struct flmem_node *node)
{
	bool map = node->kind == FLMEM_NODE_MAP && node->last && node->last->index < KEYS_MAX;
	char detail[48];

	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next) {
		const struct flmem_node *later = map ? later_entry_of(n) : NULL;

		if (later) {
			snprintf(detail, sizeof(detail), "the other one is on line %u",
				 later->key_place.line);
			flmem_check_report(check,
					   &(struct flmem_remark){.node = n, .detail = detail});
		}
		find_duplicates(check, n);
	}
}

static void find_base_60(struct flmem_check *check, const struct flmem_node *node)
{
	const char *text = check->input->document.text.data;
	char detail[64];

	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next) {
		if (n->kind == FLMEM_NODE_INTEGER &&
		    memchr(text + n->place.start, ':', n->place.end - n->place.start)) {
			snprintf(detail, sizeof(detail), "it is read as %.40s", n->text);
			flmem_check_report(check,
					   &(struct flmem_remark){.node = n, .detail = detail});
		}
		find_base_60(check, n);
	}
}

static void value_base_60(struct flmem_check *check)
{
	if (check->input->document.syntax == FLMEM_SYNTAX_YAML)
		find_base_60(check, check->subject);
}

/* Not for HOCON: there a later key is meant to replace or extend an earlier one. */
static void key_twice(struct flmem_check *check)
{
	if (check->input->document.syntax == FLMEM_SYNTAX_JSON)
		find_duplicates(check, check->subject);
}

static void report_tag(const struct flmem_node *node, void *context)
{
	char detail[96];

	snprintf(detail, sizeof(detail), "%.80s", node->tag);
	flmem_check_report(context, &(struct flmem_remark){.node = node, .detail = detail});
}

static void key_twice_in_yaml(struct flmem_check *check)
{
	if (check->input->document.syntax == FLMEM_SYNTAX_YAML)
		find_duplicates(check, check->subject);
}

static void tag_refused(struct flmem_check *check)
{
	if (check->input->document.root && check->input->document.syntax == FLMEM_SYNTAX_YAML)
		flmem_yaml_tags_find_refused(check->input->document.root, report_tag, check);
}

static void python_refused(struct flmem_check *check)
{
	const struct flmem_node *fault = flmem_node_get(check->input->document.root, "fault");

	if (fault)
		flmem_check_report(check, &(struct flmem_remark){.node = fault,
								 .path = "syntax",
								 .detail = fault->text});
}

static const struct flmem_rule_row document_rows[] = {
	{
		.rule = {.id = "KEY-TWICE",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .condition = "a key that occurs twice in one map of a JSON file",
			 .message = "duplicate key: only the last one takes effect, this one is "
				    "ignored; "
				    "remove one of the two",
			 .source = "Python's json module"},
		.content = FLMEM_CONTENT_CONFIG,
		.check = key_twice,
	},
	{
		.rule = {.id = "YAML-KEY-TWICE",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .condition = "a key that occurs twice in one map of a YAML file",
			 .message = "duplicate key: OmegaConf, which reads this file, refuses "
				    "the whole file; "
				    "remove one of the two",
			 .source = "OmegaConf 2.3 and 2.4"},
		.content = FLMEM_CONTENT_CONFIG,
		.check = key_twice_in_yaml,
	},
	{
		.rule = {.id = "YAML-TAG-REFUSED",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .condition = "a tag of YAML that OmegaConf does not read (!custom, "
				      "!!python/..., !!set, !!timestamp), or one that does not fit "
				      "its value (!!int x)",
			 .message = "OmegaConf, which reads this file, refuses the whole file for "
				    "this tag; "
				    "remove the tag",
			 .source = "OmegaConf 2.3 and 2.4"},
		.content = FLMEM_CONTENT_CONFIG,
		.check = tag_refused,
	},
	{
		.rule = {.id = "PYTHON-REFUSED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .condition = "a file of Python in which a bracket or string does not end, "
				      "a bracket closes one of another kind, or a block is not "
				      "indented as Python needs it",
			 .message = "Python refuses this file with a SyntaxError; what else is "
				    "found in it may not be true",
			 .source = "CPython 3.14, lexical analysis"},
		.content = FLMEM_CONTENT_PYTHON,
		.check = python_refused,
	},
	{
		.rule = {.id = "VALUE-BASE-60",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .condition = "a whole number with colons in YAML, like 1:30, without "
				      "quotes",
			 .message = "PyYAML reads this as a number to base 60, so it is not the "
				    "value that it looks like; write a decimal number",
			 .source = "PyYAML 6.0, resolver.py"},
		.content = FLMEM_CONTENT_CONFIG,
		.check = value_base_60,
	},
};

const struct flmem_rule_table flmem_document_rules = {document_rows,
						      FLMEM_ARRAY_SIZE(document_rows)};
