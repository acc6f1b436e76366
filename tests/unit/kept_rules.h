/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_KEPT_RULES_H
#define FLMEM_TESTS_KEPT_RULES_H

/* Cases of rules/NAME.cases: small folders of files, and the text of the findings in them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "kept.h"
#include "tree.h"

#define SEPARATOR "%%%%%\n"
#define FILE_MARK "==> "
#define VERSIONS  "@versions "

/* Puts at most so many bytes: what matters is which rule fired, where, and with which numbers. */
static inline void put_text(struct flmem_buf *out, const char *text, size_t most)
{
	for (; *text && most; text++, most--)
		if (*text == '\n')
			flmem_buf_puts(out, "\\n");
		else
			flmem_buf_putc(out, *text);
}

/* Returns the message without the fixed part of the rule. */
static const char *detail_of(const struct flmem_finding *f)
{
	size_t length = strlen(f->rule->message);

	return strncmp(f->message, f->rule->message, length) == 0 ? f->message + length
								  : f->message;
}

static inline void put_fact(struct flmem_buf *out, const char *name, const struct flmem_u64 *value)
{
	if (!value->unknown)
		flmem_buf_printf(out, " %s %llu", name, (unsigned long long)value->value);
	else if (!strstr(value->unknown, "no "))
		flmem_buf_printf(out, " %s (%.20s)", name, value->unknown);
}

static inline void put_facts(const struct flmem_recommendations *r, struct flmem_buf *out)
{
	flmem_buf_printf(out, "  %zu", r->file_count);
	put_fact(out, "server", &r->server_gc_rounds);
	put_fact(out, "client", &r->client_gc_rounds);
	put_fact(out, "clear", &r->clear_cache);
	put_fact(out, "cuda", &r->cuda_empty_cache);
	if (r->trainers.count)
		flmem_buf_printf(out, " trainers %zu %zu %zu-%zu %zu", r->trainers.count,
				 r->trainers.unclear, (size_t)r->trainers.gc_lowest,
				 (size_t)r->trainers.gc_highest, r->trainers.cuda_count);
	if (r->suppressed_count)
		flmem_buf_printf(out, " suppressed %zu", r->suppressed_count);
	flmem_buf_puts(out, r->disk_offload ? " offload\n" : "\n");
}

static inline void put_finding(const struct flmem_finding *f, struct flmem_buf *out)
{
	flmem_buf_printf(out, "  %s:%u %s %c %s", flmem_text_basename(f->file), f->line,
			 f->rule->id, *flmem_severity_name(f->severity), f->path);
	if (f->current) {
		flmem_buf_putc(out, ' ');
		put_text(out, f->current, 24);
	}
	if (f->proposed) {
		flmem_buf_puts(out, " -> ");
		put_text(out, f->proposed, 40);
	}
	flmem_buf_puts(out, f->fixable ? " (fix)" : "");
	put_text(out, detail_of(f), 60);
	flmem_buf_putc(out, '\n');
}

static inline void put_result(const struct flmem_recommendations *r, struct flmem_buf *out)
{
	put_facts(r, out);
	for (size_t i = 0; i < r->finding_count; i++)
		put_finding(&r->findings[i], out);
	for (size_t i = 0; i < r->problem_count; i++)
		flmem_buf_printf(out, "  %s:%u %d%s %s\n", flmem_text_basename(r->problems[i].file),
				 r->problems[i].line, r->problems[i].code,
				 r->problems[i].warning ? " warning" : "", r->problems[i].message);
}

static inline void put_folder(const char *version, struct flmem_buf *out)
{
	static const char *const paths[] = {"."};
	struct flmem_recommend_options options = {.framework_version = version};
	struct flmem_recommendations found = {0};
	struct flmem_error err = {0};

	if (flmem_recommend(paths, 1, &options, &found, &err))
		flmem_buf_printf(out, "  %d %s\n", err.code, err.message);
	else
		put_result(&found, out);
	flmem_recommendations_clear(&found);
}

static inline void put_corrections(struct flmem_buf *out)
{
	static const char *const paths[] = {"."};
	struct flmem_recommend_options options = {0};
	struct flmem_corrections corrections = {0};

	assert_int_equal(flmem_recommend_correct(paths, 1, &options, &corrections, NULL), 0);
	for (size_t i = 0; i < corrections.count; i++) {
		flmem_buf_printf(out, "  %zu changes of %s: ", corrections.rows[i].changes,
				 corrections.rows[i].file);
		put_text(out, corrections.rows[i].after, 1000);
		flmem_buf_putc(out, '\n');
	}
	flmem_corrections_clear(&corrections);
}

/* Writes one folder after another; ret_versions gets the versions for the check. */
static inline void write_files(const struct tree *tree, const char *from, const char *end,
			       char ret_versions[64])
{
	while (from < end) {
		const char *line = strchr(from, '\n'), *next;
		char name[128];

		assert_true(flmem_text_starts(from, FILE_MARK));
		snprintf(name, sizeof(name), "%.*s", (int)(line - from - 4), from + 4);
		next = strstr(line, "\n" FILE_MARK);
		next = next && next < end ? next + 1 : end;
		if (flmem_text_starts(name, VERSIONS))
			snprintf(ret_versions, 64, "%.63s", name + strlen(VERSIONS));
		else
			tree_write(tree, name, line + 1, (size_t)(next - line - 1));
		from = next;
	}
}

/* Makes a test of each file of cases; the test gets the name as its state. */
#define KEPT_RULE_TESTS(test)                                                                 \
	{"flower", test, NULL, NULL, "flower"}, {"appfl", test, NULL, NULL, "appfl"},         \
		{"scripts", test, NULL, NULL, "scripts"}, {"jobs", test, NULL, NULL, "jobs"}, \
	{                                                                                     \
		"launch", test, NULL, NULL, "launch"                                          \
	}

/* Compares the output of `put` for each case of rules/NAME.cases with rules/NAME.ENDING. */
static inline void compare_cases(const char *name, const char *ending,
				 void (*put)(size_t number, const char *from, const char *end,
					     struct flmem_buf *out))
{
	FLMEM_AUTO_BUF struct flmem_buf cases = FLMEM_BUF_INIT, out = FLMEM_BUF_INIT;
	char path[128];
	const char *from, *end;
	size_t count = 0;

	snprintf(path, sizeof(path), "rules/%s.cases", name);
	kept_read(path, &cases);
	for (from = cases.data; *from; from = end + strlen(SEPARATOR)) {
		end = strstr(from, SEPARATOR);
		assert_non_null(end);
		put(++count, from, end, &out);
	}
	assert_true(count > 0);
	snprintf(path, sizeof(path), "rules/%s.%s", name, ending);
	kept_compare(path, &out);
}

#endif
