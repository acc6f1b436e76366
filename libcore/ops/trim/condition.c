/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/condition.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/parse.h>
#include <flmem/text.h>

#include "base/cleanup.h"

#define VALUE_MAX     32U
#define PERCENT_SCALE 1000U /* percentages are stored in thousandths */
#define PERCENT_LIMIT 1000U /* the largest valid percentage */

enum node_kind {
	NODE_COMPARE,
	NODE_AND,
	NODE_OR,
	NODE_NOT,
};

enum figure_comparison {
	COMPARE_GREATER,
	COMPARE_AT_LEAST,
	COMPARE_LESS,
	COMPARE_AT_MOST,
};

struct condition_node {
	enum node_kind kind;
	size_t left, right; /* indices of the sides; a NOT has only `left` */
	enum flmem_condition_field field;
	enum figure_comparison comparison;
	bool is_percent;
	uint64_t value; /* bytes, or thousandths of a per cent */
};

/* The tree, stored in an array; children come before their parents, the root is last. */
struct flmem_condition {
	struct condition_node nodes[2 * FLMEM_CONDITION_PARTS_MAX];
	size_t count;
	size_t parts;
};

static const struct {
	const char *text, *meaning;
	bool needs_heap, of_limit;
} condition_fields[] = {
#define FIELD_ROW(name, text, what, heap, limit) {text, what, heap, limit},
	FLMEM_CONDITION_FIELDS(FIELD_ROW)
#undef FIELD_ROW
};

const char *flmem_condition_field_name(enum flmem_condition_field field)
{
	return field < FLMEM_CONDITION_FIELD_COUNT ? condition_fields[field].text : NULL;
}

const char *flmem_condition_field_meaning(enum flmem_condition_field field)
{
	return field < FLMEM_CONDITION_FIELD_COUNT ? condition_fields[field].meaning : NULL;
}

struct condition_parser {
	const char *text;
	const char *at;
	unsigned depth;
	struct flmem_condition *condition;
	struct flmem_error *err;
};

static int set_parse_error(const struct condition_parser *parser, const char *what)
{
	char shown[64];

	flmem_text_escape(parser->text, shown, sizeof(shown));
	return flmem_error_set(parser->err, FLMEM_EUSAGE, 0, "condition '%s', at character %zu: %s",
			       shown, (size_t)(parser->at - parser->text) + 1, what);
}

static void skip_spaces(struct condition_parser *parser)
{
	while (*parser->at == ' ' || *parser->at == '\t')
		parser->at++;
}

static size_t word_length(const char *at)
{
	size_t length = 0;

	while (isalpha((unsigned char)at[length]) || (length && at[length] == '-'))
		length++;
	return length;
}

/* Consumes the word, in upper or lower case, or the operator sign with the same meaning. */
static bool take_word(struct condition_parser *parser, const char *word, const char *sign)
{
	size_t length;

	skip_spaces(parser);
	length = word_length(parser->at);
	if (length != strlen(word) || strncasecmp(parser->at, word, length) != 0) {
		length = sign ? strlen(sign) : 0;
		if (!length || strncmp(parser->at, sign, length) != 0)
			return false;
	}
	parser->at += length;
	return true;
}

static int add_condition_node(struct condition_parser *parser, struct condition_node node,
			      size_t *ret_index)
{
	struct flmem_condition *condition = parser->condition;

	if (condition->count == FLMEM_ARRAY_SIZE(condition->nodes) ||
	    (node.kind == NODE_COMPARE && condition->parts == FLMEM_CONDITION_PARTS_MAX))
		return set_parse_error(parser, "too many comparisons");
	condition->parts += node.kind == NODE_COMPARE;
	*ret_index = condition->count;
	condition->nodes[condition->count++] = node;
	return 0;
}

static int set_figure_error(const struct condition_parser *parser)
{
	char text[256];
	size_t used = (size_t)snprintf(text, sizeof(text), "unknown figure; choose from");

	for (size_t i = 0; i < FLMEM_CONDITION_FIELD_COUNT && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s %s", i ? "," : "",
					 condition_fields[i].text);
	return set_parse_error(parser, text);
}

static int parse_field(struct condition_parser *parser, enum flmem_condition_field *ret_field)
{
	size_t length;

	skip_spaces(parser);
	length = word_length(parser->at);
	for (size_t i = 0; i < FLMEM_CONDITION_FIELD_COUNT; i++) {
		if (length != strlen(condition_fields[i].text) ||
		    strncasecmp(parser->at, condition_fields[i].text, length) != 0)
			continue;
		parser->at += length;
		*ret_field = (enum flmem_condition_field)i;
		return 0;
	}
	return length ? set_figure_error(parser)
		      : set_parse_error(parser, "expected a figure, as in rss > 8G");
}

static int parse_comparison(struct condition_parser *parser, enum figure_comparison *ret_comparison)
{
	bool greater, equal;

	skip_spaces(parser);
	if (*parser->at != '>' && *parser->at != '<')
		return set_parse_error(parser, "expected one of > >= < <=");
	greater = *parser->at++ == '>';
	equal = *parser->at == '=';
	parser->at += equal;
	*ret_comparison = greater ? (equal ? COMPARE_AT_LEAST : COMPARE_GREATER)
				  : (equal ? COMPARE_AT_MOST : COMPARE_LESS);
	return 0;
}

/* Reads a percentage such as "20" or "12.5", in thousandths; at most three decimal places. */
static bool read_percent(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0, unit = PERCENT_SCALE;
	bool digits = false, point = false;

	for (; *text; text++) {
		if (*text == '.' && !point && digits) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9' || (point && unit == 1) || value > UINT32_MAX)
			return false;
		digits = true;
		value = value * 10 + (uint64_t)(*text - '0');
		unit /= point ? 10 : 1;
	}
	*ret_value = value * unit;
	return digits && *ret_value <= (uint64_t)PERCENT_LIMIT * PERCENT_SCALE;
}

static int parse_value(struct condition_parser *parser, struct condition_node *node)
{
	char text[VALUE_MAX];
	const char *start;
	size_t length = 0;

	skip_spaces(parser);
	start = parser->at;
	while (isalnum((unsigned char)start[length]) || start[length] == '.')
		length++;
	if (!length || length >= sizeof(text))
		return set_parse_error(parser, "expected a size or a percentage, as in 8G or 20%");
	memcpy(text, start, length);
	text[length] = '\0';
	node->is_percent = start[length] == '%';
	if (!node->is_percent && flmem_parse_size(text, &node->value, NULL))
		return set_parse_error(parser,
				       "invalid size or percentage; write 8G, 1.5GiB or 20%");
	if (node->is_percent && !read_percent(text, &node->value))
		return set_parse_error(parser,
				       "invalid percentage; write 20% or 12.5%, at most 1000%");
	if (node->is_percent && node->field == FLMEM_CONDITION_RSS)
		return set_parse_error(
			parser, "a percentage refers to rss; compare rss itself with a size");
	parser->at += length + node->is_percent;
	return 0;
}

static int parse_any(struct condition_parser *parser, size_t *ret_index);

static int parse_parentheses(struct condition_parser *parser, size_t *ret_index)
{
	int rc;

	parser->at++;
	if (++parser->depth > FLMEM_CONDITION_DEPTH_MAX)
		return set_parse_error(parser, "parentheses or `not` are nested too deeply");
	rc = parse_any(parser, ret_index);
	if (rc)
		return rc;
	parser->depth--;
	skip_spaces(parser);
	if (*parser->at != ')')
		return set_parse_error(parser, "expected ')'");
	parser->at++;
	return 0;
}

static int parse_part(struct condition_parser *parser, size_t *ret_index)
{
	struct condition_node node = {0};
	int rc;

	if (take_word(parser, "not", "!")) {
		if (++parser->depth > FLMEM_CONDITION_DEPTH_MAX)
			return set_parse_error(parser,
					       "parentheses or `not` are nested too deeply");
		node.kind = NODE_NOT;
		rc = parse_part(parser, &node.left);
		parser->depth--;
		return rc ? rc : add_condition_node(parser, node, ret_index);
	}
	if (*parser->at == '(')
		return parse_parentheses(parser, ret_index);
	rc = parse_field(parser, &node.field);
	if (!rc)
		rc = parse_comparison(parser, &node.comparison);
	if (!rc)
		rc = parse_value(parser, &node);
	return rc ? rc : add_condition_node(parser, node, ret_index);
}

static int parse_all(struct condition_parser *parser, size_t *ret_index)
{
	struct condition_node node = {.kind = NODE_AND};
	int rc = parse_part(parser, ret_index);

	while (!rc && take_word(parser, "and", "&&")) {
		node.left = *ret_index;
		rc = parse_part(parser, &node.right);
		if (!rc)
			rc = add_condition_node(parser, node, ret_index);
	}
	return rc;
}

static int parse_any(struct condition_parser *parser, size_t *ret_index)
{
	struct condition_node node = {.kind = NODE_OR};
	int rc = parse_all(parser, ret_index);

	while (!rc && take_word(parser, "or", "||")) {
		node.left = *ret_index;
		rc = parse_all(parser, &node.right);
		if (!rc)
			rc = add_condition_node(parser, node, ret_index);
	}
	return rc;
}

int flmem_condition_parse(const char *text, struct flmem_condition **ret_condition,
			  struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_condition *condition = calloc(1, sizeof(*condition));
	struct condition_parser parser = {
		.text = text, .at = text, .condition = condition, .err = err};
	size_t root;
	int rc;

	if (!condition)
		return flmem_error_nomem(err, "cannot allocate the condition");
	if (strlen(text) > FLMEM_CONDITION_TEXT_MAX)
		return set_parse_error(&parser, "the condition is too long");
	rc = parse_any(&parser, &root);
	if (rc)
		return rc;
	skip_spaces(&parser);
	if (*parser.at)
		return set_parse_error(&parser, "expected `and`, `or` or the end");
	*ret_condition = FLMEM_TAKE(condition);
	return 0;
}

void flmem_condition_free(struct flmem_condition *condition)
{
	free(condition);
}

bool flmem_condition_needs_heap(const struct flmem_condition *condition)
{
	for (size_t i = 0; i < condition->count; i++)
		if (condition->nodes[i].kind == NODE_COMPARE &&
		    condition_fields[condition->nodes[i].field].needs_heap)
			return true;
	return false;
}

static struct flmem_u64 used_of_limit(const struct flmem_limit_report *limit)
{
	struct flmem_u64 max = limit->cgroup_max_bytes, left = limit->headroom_bytes;

	if (max.unknown || left.unknown)
		return max.unknown ? max : left;
	return FLMEM_KNOWN(max.value > left.value ? max.value - left.value : 0);
}

static struct flmem_u64 figure_bytes(const struct flmem_process_report *report,
				     enum flmem_condition_field field)
{
	switch (field) {
	case FLMEM_CONDITION_RSS:
		return report->memory.rss_bytes;
	case FLMEM_CONDITION_ANON:
		return report->memory.anon_bytes;
	case FLMEM_CONDITION_FILE:
		return report->memory.file_bytes;
	case FLMEM_CONDITION_SHMEM:
		return report->memory.shmem_bytes;
	case FLMEM_CONDITION_SWAP:
		return report->memory.swap_bytes;
	case FLMEM_CONDITION_TRIMMABLE:
		return report->heap.trimmable_bytes;
	case FLMEM_CONDITION_FREE:
		return report->heap.free_resident_bytes;
	case FLMEM_CONDITION_PINNED:
		return report->heap.pinned_bytes;
	case FLMEM_CONDITION_CACHED:
		return report->heap.cached_bytes;
	case FLMEM_CONDITION_IN_USE:
		return report->heap.in_use_bytes;
	case FLMEM_CONDITION_CGROUP:
		return used_of_limit(&report->limit);
	case FLMEM_CONDITION_HEADROOM:
		return report->limit.headroom_bytes;
	case FLMEM_CONDITION_FIELD_COUNT:
		break;
	}
	return FLMEM_UNKNOWN("unknown figure");
}

/* Returns the right side of the comparison, in bytes. */
static struct flmem_u64 threshold_bytes(const struct condition_node *node,
					const struct flmem_process_report *report)
{
	struct flmem_u64 whole = condition_fields[node->field].of_limit
					 ? report->limit.cgroup_max_bytes
					 : report->memory.rss_bytes;

	if (!node->is_percent)
		return FLMEM_KNOWN(node->value);
	if (whole.unknown)
		return whole;
	/* 128-bit arithmetic, so that rounding cannot change the result of the comparison. */
	return FLMEM_KNOWN(
		(uint64_t)((unsigned __int128)whole.value * node->value / (100U * PERCENT_SCALE)));
}

static enum flmem_truth compare_figure(const struct condition_node *node,
				       const struct flmem_process_report *report, const char **why)
{
	struct flmem_u64 bytes = figure_bytes(report, node->field),
			 limit = threshold_bytes(node, report);
	bool holds = false;

	if (bytes.unknown || limit.unknown) {
		*why = bytes.unknown ? bytes.unknown : limit.unknown;
		return FLMEM_UNDECIDED;
	}
	switch (node->comparison) {
	case COMPARE_GREATER:
		holds = bytes.value > limit.value;
		break;
	case COMPARE_AT_LEAST:
		holds = bytes.value >= limit.value;
		break;
	case COMPARE_LESS:
		holds = bytes.value < limit.value;
		break;
	case COMPARE_AT_MOST:
		holds = bytes.value <= limit.value;
		break;
	}
	return holds ? FLMEM_TRUE : FLMEM_FALSE;
}

/*
 * Combines two sides by Kleene's three-valued logic: an undecided side matters only if the other
 * side does not decide the result.
 */
static enum flmem_truth join_truths(enum node_kind kind, enum flmem_truth left,
				    enum flmem_truth right)
{
	enum flmem_truth decisive = kind == NODE_AND ? FLMEM_FALSE : FLMEM_TRUE;

	if (left == decisive || right == decisive)
		return decisive;
	if (left == FLMEM_UNDECIDED || right == FLMEM_UNDECIDED)
		return FLMEM_UNDECIDED;
	return left;
}

static enum flmem_truth negate_truth(enum flmem_truth truth)
{
	return truth == FLMEM_UNDECIDED ? truth : truth == FLMEM_TRUE ? FLMEM_FALSE : FLMEM_TRUE;
}

enum flmem_truth flmem_condition_check(const struct flmem_condition *condition,
				       const struct flmem_process_report *report,
				       const char **ret_why)
{
	enum flmem_truth truths[2 * FLMEM_CONDITION_PARTS_MAX] = {0}, last = FLMEM_FALSE;
	const char *why = NULL;

	for (size_t i = 0; i < condition->count; i++) {
		const struct condition_node *node = &condition->nodes[i];

		if (node->kind == NODE_COMPARE)
			last = compare_figure(node, report, &why);
		else if (node->kind == NODE_NOT)
			last = negate_truth(truths[node->left]);
		else
			last = join_truths(node->kind, truths[node->left], truths[node->right]);
		truths[i] = last;
	}
	*ret_why = last == FLMEM_UNDECIDED ? why : NULL;
	return last;
}
