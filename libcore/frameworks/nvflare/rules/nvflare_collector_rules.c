/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about Python that changes its garbage collector or allocator by itself. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <string.h>

#include "base/text/text.h"

/*
 * Threshold from which on the collector hardly ever runs, in new objects; Python's defaults are 700
 * to 5000.
 */
#define HARDLY_EVER 1000000

static bool is_call_of(const struct flmem_node *call, const char *path)
{
	const char *own = flmem_node_string(flmem_node_get(call, "path"));
	size_t length = strlen(path);

	return own && strncmp(own, path, length) == 0 &&
	       (!own[length] || strcmp(own + length, ".__call__") == 0);
}

/* Whether gc.enable() or gc.collect() is anywhere in the script. */
static bool collects_again(const struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "calls"));

	while (n && !is_call_of(n, "gc.enable") && !is_call_of(n, "gc.collect"))
		n = n->next;
	return n;
}

static void report_collector(struct flmem_check *check, const struct flmem_node *node,
			     const char *path, const char *doubt)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;

	if (!doubt && collects_again(check))
		doubt = "cannot tell whether it stays off: the script also calls gc.enable() or "
			"gc.collect()";
	flmem_check_report(check, &(struct flmem_remark){.node = node,
							 .path = path,
							 .severity = doubt ? &info : NULL,
							 .detail = doubt});
}

/*
 * Reports gc.set_threshold(0), which disables the collector, and a threshold so large that it
 * hardly ever runs.
 */
static void report_threshold(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *first = flmem_node_get(args, "0");
	int64_t number;

	if (!first)
		first = flmem_node_get(args, "*");
	if (flmem_node_is_kind(first, FLMEM_NODE_EXPRESSION))
		report_collector(check, first, "gc.set_threshold",
				 "cannot tell: the value is known only when the script runs");
	else if (first && flmem_node_integer(first, &number) && (!number || number >= HARDLY_EVER))
		report_collector(check, first, "gc.set_threshold", NULL);
}

/* Whether a value is the function itself: gc.disable without a call, getattr(gc, "disable"). */
static bool is_collector_value(const struct flmem_check *check, const struct flmem_node *value)
{
	static const char *const names[] = {"gc.disable", "gc.freeze", "gc.set_threshold", NULL};
	static const char *const words[] = {"disable", "freeze(", "set_threshold", NULL};

	return flmem_text_is_one_of(value->text, names) ||
	       (strcmp(value->text, "gc") == 0 &&
		flmem_file_has_any_word(&check->input->document.text, words));
}

static void collector_off(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "calls"));

	for (; n; n = n->next)
		if (is_call_of(n, "gc.disable"))
			report_collector(check, flmem_node_get(n, "path"), "gc.disable", NULL);
		else if (is_call_of(n, "gc.freeze"))
			report_collector(check, flmem_node_get(n, "path"), "gc.freeze",
					 "cannot tell what exists when this is called: until "
					 "gc.unfreeze() no collection examines it");
		else if (is_call_of(n, "gc.set_threshold"))
			report_threshold(check, n);
	n = flmem_node_first(flmem_node_get(check->subject, "values"));
	for (; n; n = n->next)
		if (is_collector_value(check, n))
			report_collector(check, n, "gc",
					 "cannot tell whether it is called: it is passed on");
}

/* Reports libc.mallopt(-8, 2), whatever the name of the loaded C library. */
static void allocator_options(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "methods"));

	for (; n; n = n->next)
		if (is_call_of(n, "mallopt") || is_call_of(n, "mallctl"))
			flmem_check_report(
				check, &(struct flmem_remark){.node = flmem_node_get(n, "path"),
							      .path = flmem_node_string(
								      flmem_node_get(n, "path"))});
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define SCRIPT	.inputs = {&flmem_nvflare_python_file, &flmem_nvflare_module_file}

static const struct flmem_rule_row nvflare_collector_rows[] = {
	{
		.rule = {.id = "NVF-COLLECTOR-OFF",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "gc.disable(), or gc.set_threshold() with 0 or a million and "
				      "more; for information with a variable, or beside "
				      "gc.enable() or gc.collect(); gc.freeze(), for information",
			 .message = "objects that refer to each other, and tensors that they hold, "
				    "stay in memory until something calls gc.collect(); NVFlare "
				    "does so only every memory_gc_rounds",
			 .source = "Python documentation, gc; NVFlare code, 2.7.2 to 2.9.0"},
		SCRIPT,
		.check = collector_off,
	},
	{
		.rule = {.id = "NVF-ALLOCATOR-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition = "a script that calls mallopt() or mallctl() of a library",
			 .message = "cannot tell which settings the allocator has: the script "
				    "changes them while it runs; check with flmem recommend --pid",
			 .source = "glibc manual, mallopt; jemalloc manual, mallctl"},
		SCRIPT,
		.check = allocator_options,
	},
};

const struct flmem_rule_table flmem_nvflare_collector_rules = {
	nvflare_collector_rows, FLMEM_ARRAY_SIZE(nvflare_collector_rows)};
