/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "documents/edit.h"
#include "documents/python/notebook_cells.h"

#define CURRENT_MAX 100	 /* bytes of a value that a finding shows */
#define COMMENT_MAX 4096 /* bytes of a line that are searched for a comment */

/* Length of the name in "{name}" or "${name}", at which *ret_name points; 0 for any other text. */
static size_t reference_name(const char *text, const char **ret_name)
{
	size_t skip = text[0] == '$' ? 2 : 1, length = strlen(text);

	if (length < skip + 2 || text[skip - 1] != '{' || text[length - 1] != '}')
		return 0;
	*ret_name = text + skip;
	return length - skip - 1;
}

const struct flmem_node *flmem_check_resolve(const struct flmem_rule_input *input,
					     const struct flmem_node *value)
{
	const struct flmem_node *found = NULL, *n;
	const char *text = flmem_node_string(value), *name = NULL;
	size_t length;

	if (!text || !strchr(text, '{'))
		return value;
	length = reference_name(text, &name);
	for (n = flmem_node_first(input->document.root); n && length; n = n->next)
		if (n->key && strlen(n->key) == length && !strncmp(n->key, name, length))
			found = n;
	return found && !(found->kind == FLMEM_NODE_STRING && strchr(found->text, '{')) ? found
											: NULL;
}

static char *current_text(const struct flmem_rule_input *input, const struct flmem_remark *remark)
{
	struct flmem_place place = remark->node->place;
	size_t length;

	if (remark->missing)
		return NULL;
	flmem_notebook_written(&input->document, &remark->node->place, &place);
	length = place.end - place.start;
	return strndup(input->document.text.data + place.start,
		       length < CURRENT_MAX ? length : CURRENT_MAX);
}

static char *remark_path(const struct flmem_rule_input *input, const struct flmem_remark *remark)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	struct flmem_place written;

	if (flmem_notebook_written(&input->document, &remark->node->place, &written))
		flmem_buf_puts(&path, "command");
	else if (remark->path)
		flmem_buf_puts(&path, remark->path);
	else
		flmem_node_path(remark->node, &path);
	if (remark->missing)
		flmem_buf_printf(&path, "%s%s", path.length ? "." : "", remark->missing);
	return flmem_buf_take(&path);
}

/* Returns the message of the rule with the detail of this place. The caller frees it. */
static char *full_message(const struct flmem_rule *rule, const char *detail)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_puts(&text, rule->message);
	if (detail)
		flmem_buf_printf(&text, " (%s)", detail);
	return flmem_buf_take(&text);
}

bool flmem_recommendations_add_problem(struct flmem_recommendations *found, const char *file,
				       unsigned line, const struct flmem_error *why)
{
	struct flmem_input_problem problem = {
		.file = strdup(file),
		.line = line,
		.code = why->code,
		.message = strdup(why->message),
	};

	if (problem.file && problem.message && flmem_problems_add(found, &problem))
		return true;
	free(problem.file);
	free(problem.message);
	return false;
}

int flmem_recommendations_store_problem(struct flmem_recommendations *found, const char *file,
					unsigned line, const struct flmem_error *why,
					struct flmem_error *err)
{
	if (flmem_recommendations_add_problem(found, file, line, why))
		return 0;
	return flmem_error_nomem(err, "cannot store the problem of '%s'", file);
}

void flmem_finding_clear(struct flmem_finding *finding)
{
	free(finding->message);
	free(finding->file);
	free(finding->path);
	free(finding->current);
	free(finding->proposed);
	free(finding->edit.text);
}

const char *flmem_finding_current(const struct flmem_finding *finding,
				  char shown[FLMEM_TEXT_BYTES_MAX])
{
	const char *text = finding->current;
	uint64_t bytes;

	if (!text)
		return "absent";
	if (!finding->in_bytes || !flmem_text_read_digits(&text, &bytes) || *text)
		return finding->current;
	return flmem_text_bytes(bytes, shown, FLMEM_TEXT_BYTES_MAX);
}

static bool make_edit(const struct flmem_rule_input *input, const struct flmem_remark *remark,
		      struct flmem_edit *ret_edit)
{
	if (remark->missing)
		return flmem_edit_insert(&input->document, remark->node, remark->missing,
					 remark->proposed, ret_edit);
	return flmem_edit_replace(&input->document, remark->node, remark->proposed, ret_edit);
}

static bool fill_finding(struct flmem_finding *finding, const struct flmem_rule_input *input,
			 const struct flmem_remark *remark)
{
	const struct flmem_node *node = remark->node;

	finding->message = full_message(finding->rule, remark->detail);
	finding->file = strdup(input->file);
	finding->line = node->key ? node->key_place.line : node->place.line;
	finding->path = remark_path(input, remark);
	finding->current = current_text(input, remark);
	finding->proposed = remark->proposed ? strdup(remark->proposed) : NULL;
	finding->in_python = flmem_syntax_is_python(input->document.syntax);
	finding->fixable = finding->rule->fixable && remark->proposed &&
			   make_edit(input, remark, &finding->edit);
	return finding->message && finding->file && finding->path &&
	       (finding->current || remark->missing) && (finding->proposed || !remark->proposed);
}

/* Whether a line has a comment "flmem: ignore RULE reason" for the rule. */
static bool line_suppressions(const char *line, const char *rule)
{
	static const char mark[] = "flmem: ignore ";
	const char *newline = memchr(line, '\n', strnlen(line, COMMENT_MAX));
	size_t length = newline ? (size_t)(newline - line) : strnlen(line, COMMENT_MAX);
	size_t id = strlen(rule);
	const char *found = memmem(line, length, mark, strlen(mark)), *end = line + length;

	if (!found || !(memchr(line, '#', (size_t)(found - line)) ||
			memmem(line, (size_t)(found - line), "//", 2)))
		return false;
	found += strlen(mark);
	if ((size_t)(end - found) <= id || strncmp(found, rule, id) != 0 || found[id] != ' ')
		return false;
	found += id;
	return found + strspn(found, " \t\r") < end; /* a reason follows */
}

/* Start of the line that `p` is in; in an overlong line, COMMENT_MAX bytes before `p`. */
static const char *line_start(const char *text, const char *p)
{
	const char *end = p;

	while (p > text && p[-1] != '\n' && end - p < COMMENT_MAX)
		p--;
	return p;
}

/* Whether a comment on the line or above it suppresses the rule. JSON has no comments. */
static bool is_suppressed(const struct flmem_rule_input *input, const struct flmem_node *node,
			  const char *rule)
{
	const char *text = input->document.text.data, *line, *above;

	if (input->document.syntax == FLMEM_SYNTAX_JSON)
		return false;
	line = text + (node->key ? node->key_place.start : node->place.start);
	line = line_start(text, line);
	above = line_start(text, line > text ? line - 1 : line);
	return line_suppressions(line, rule) || line_suppressions(above, rule);
}

bool flmem_rule_holds(const struct flmem_rule *rule, const struct flmem_version_number *release)
{
	struct flmem_version_number bound;

	if (!release->count)
		return !rule->certain;
	if (rule->since && !flmem_version_number_parse(rule->since, &bound, NULL) &&
	    flmem_version_number_compare(release, &bound) < 0)
		return false;
	return !rule->before || flmem_version_number_parse(rule->before, &bound, NULL) ||
	       flmem_version_number_compare(release, &bound) < 0;
}

/*
 * Whether a list of findings has room for one more: room doubles at each power of two, so that many
 * findings take linear time.
 */
static bool findings_have_room(size_t count)
{
	return count & (count - 1);
}

bool flmem_findings_add(struct flmem_recommendations *found, struct flmem_finding *finding)
{
	const size_t count = found->finding_count;
	struct flmem_finding *grown = found->findings;

	if (!findings_have_room(count))
		grown = reallocarray(found->findings, count ? count * 2 : 1, sizeof(*grown));
	if (!grown)
		return false;
	found->findings = grown;
	grown[found->finding_count++] = *finding;
	*finding = (struct flmem_finding){0};
	return true;
}

bool flmem_problems_add(struct flmem_recommendations *found, struct flmem_input_problem *problem)
{
	struct flmem_input_problem *grown =
		reallocarray(found->problems, found->problem_count + 1, sizeof(*grown));

	if (!grown)
		return false;
	found->problems = grown;
	grown[found->problem_count++] = *problem;
	*problem = (struct flmem_input_problem){0};
	return true;
}

void flmem_check_report(struct flmem_check *check, const struct flmem_remark *remark)
{
	struct flmem_recommendations *found = check->found;
	struct flmem_finding finding = {.rule = &check->row->rule};

	if (is_suppressed(remark->input ? remark->input : check->input, remark->node,
			  finding.rule->id)) {
		found->suppressed_count++;
		return;
	}
	if (found->finding_count == FLMEM_FINDINGS_MAX) {
		found->left_out_count++;
		return;
	}
	finding.severity = remark->severity ? *remark->severity : finding.rule->severity;
	if (check->input->document.shown)
		finding.severity = FLMEM_SEVERITY_INFO;
	if (!fill_finding(&finding, remark->input ? remark->input : check->input, remark) ||
	    !flmem_findings_add(found, &finding)) {
		flmem_finding_clear(&finding);
		check->failed = true;
	}
}

struct flmem_memo flmem_check_memo(const struct flmem_check *check, flmem_memo_compute *compute)
{
	struct flmem_memo_entry *kept = check->kept;
	struct flmem_memo value = {0};

	for (size_t i = 0; i < FLMEM_MEMO_MAX; i++)
		if (kept->rows[i].compute == compute && kept->rows[i].input == check->input)
			return kept->rows[i].value;
	compute(check, &value);
	kept->rows[kept->next].compute = compute;
	kept->rows[kept->next].input = check->input;
	kept->rows[kept->next].value = value;
	kept->next = (kept->next + 1) % FLMEM_MEMO_MAX;
	return value;
}

static void check_subject(struct flmem_check *check, const struct flmem_node *subject)
{
	check->subject = subject;
	check->args = flmem_node_get(subject, "args");
	check->row->check(check);
}

/* The part in an entry of the kind's list; NULL if no rule is about the entry. */
static const struct flmem_node *part_of(const struct flmem_input_kind *kind,
					const struct flmem_node *entry)
{
	const struct flmem_node *part = kind->part ? flmem_node_get(entry, kind->part) : entry;

	if (!flmem_node_is_kind(part, FLMEM_NODE_MAP) || (kind->is_part && !kind->is_part(part)))
		return NULL;
	return part;
}

static const struct flmem_node *first_entry(const struct flmem_rule_input *input,
					    const struct flmem_input_kind *kind)
{
	const struct flmem_node *root = input->document.root;

	return kind->parts ? flmem_node_first(flmem_node_get(root, kind->parts)) : NULL;
}

/* The kinds of an input, by index from 0; NULL after the last. */
static const struct flmem_input_kind *kind_at(const struct flmem_rule_input *input, size_t index)
{
	if (!index)
		return input->kind;
	return index <= FLMEM_KINDS_MORE ? input->more[index - 1] : NULL;
}

bool flmem_rules_reach(const struct flmem_rule_input *input)
{
	const struct flmem_input_kind *kind;
	size_t count = 0;

	for (size_t i = 0; (kind = kind_at(input, i)) && count <= FLMEM_PARTS_MAX; i++) {
		count = 0;
		for (const struct flmem_node *n = first_entry(input, kind); n; n = n->next)
			count += part_of(kind, n) != NULL;
	}
	return count <= FLMEM_PARTS_MAX;
}

static void check_parts(struct flmem_check *check)
{
	const struct flmem_node *entry = first_entry(check->input, check->kind);

	for (size_t count = 0; entry && count < FLMEM_PARTS_MAX; entry = entry->next) {
		const struct flmem_node *part = part_of(check->kind, entry);

		count += part != NULL;
		if (part)
			check_subject(check, part);
	}
}

static void check_rule_input(struct flmem_check *check)
{
	if (check->row->parts)
		check_parts(check);
	else if (check->kind->any_root || check->input->document.syntax == FLMEM_SYNTAX_PLAIN ||
		 flmem_node_is_kind(check->input->document.root, FLMEM_NODE_MAP))
		check_subject(check, check->input->document.root);
}

static bool is_for_kind(const struct flmem_rule_row *row, const struct flmem_input_kind *kind)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(row->inputs) && row->inputs[i]; i++)
		if (row->inputs[i] == kind)
			return true;
	return row->content != FLMEM_CONTENT_OTHER && row->content == kind->content;
}

/* The kind of the input to which the row applies; NULL if it applies to none. */
static const struct flmem_input_kind *applicable_kind(const struct flmem_rule_row *row,
						      const struct flmem_rule_input *input)
{
	const struct flmem_input_kind *kind;

	for (size_t k = 0; (kind = kind_at(input, k)); k++)
		if (is_for_kind(row, kind))
			return kind;
	return NULL;
}

static void run_table(struct flmem_check *check, const struct flmem_rule_table *table)
{
	for (size_t r = 0; r < table->count; r++) {
		check->row = &table->rows[r];
		if (!flmem_rule_holds(&check->row->rule, &check->release))
			continue;
		for (size_t i = 0; i < check->bundle->count; i++) {
			check->input = &check->bundle->inputs[i];
			check->kind = applicable_kind(check->row, check->input);
			if (check->kind &&
			    !(check->bundle->passes_shown && check->input->document.shown))
				check_rule_input(check);
		}
	}
}

int flmem_rules_run(const struct flmem_rule_table *table, const struct flmem_bundle *bundle,
		    const struct flmem_version_number *release, struct flmem_recommendations *found,
		    struct flmem_error *err)
{
	struct flmem_memo_entry kept = {0};
	struct flmem_check check = {
		.bundle = bundle, .release = *release, .found = found, .kept = &kept};

	run_table(&check, table);
	return check.failed ? flmem_error_nomem(err, "cannot store the findings") : 0;
}

const char *flmem_severity_name(enum flmem_severity severity)
{
#define SEVERITY_CASE(name, text)   \
	case FLMEM_SEVERITY_##name: \
		return text;
	switch (severity) {
		FLMEM_SEVERITIES(SEVERITY_CASE)
	}
#undef SEVERITY_CASE
	return NULL;
}

int flmem_severity_find(const char *name, enum flmem_severity *ret_severity,
			struct flmem_error *err)
{
#define SEVERITY_FIND(symbol, text)                      \
	if (strcmp(name, text) == 0) {                   \
		*ret_severity = FLMEM_SEVERITY_##symbol; \
		return 0;                                \
	}
	FLMEM_SEVERITIES(SEVERITY_FIND)
#undef SEVERITY_FIND
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "a severity is error, warning or info");
}
