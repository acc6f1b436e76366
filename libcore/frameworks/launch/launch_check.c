/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/launch/launch_check.h"

#include <string.h>

#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_calls.h"

void flmem_launch_check_each(struct flmem_check *check,
			     void (*look)(const struct flmem_launch_check *one))
{
	struct flmem_launches launches;

	flmem_launches_read(check->input, &launches);
	for (size_t i = 0; i < launches.launch_count; i++)
		if (launches.launches[i].framework == check->row->rule.framework)
			look(&(struct flmem_launch_check){.check = check,
							  .launches = &launches,
							  .launch = &launches.launches[i],
							  .index = (int)i});
}

void flmem_launch_check_variables(struct flmem_check *check,
				  void (*look)(const struct flmem_launch_check *one,
					       const struct flmem_launch_variable *variable))
{
	flmem_launch_check_variables_with(check, look, NULL);
}

void flmem_launch_check_variables_with(struct flmem_check *check,
				       void (*look)(const struct flmem_launch_check *one,
						    const struct flmem_launch_variable *variable),
				       const void *context)
{
	struct flmem_launches launches;

	flmem_launches_read(check->input, &launches);
	for (size_t i = 0; i < launches.variable_count; i++) {
		const struct flmem_launch_variable *variable = &launches.variables[i];
		struct flmem_launch_check one = {.check = check,
						 .launches = &launches,
						 .index = variable->launch,
						 .context = context};

		if (one.index < 0 && launches.launch_count == 1)
			one.index = 0;
		if (one.index >= 0)
			one.launch = &launches.launches[one.index];
		if (variable->known && !variable->local && !variable->unset && !variable->repeated)
			look(&one, variable);
	}
}

const struct flmem_launch_variable *flmem_launch_variable_of(const struct flmem_launch_check *one,
							     const char *name)
{
	return flmem_launch_find(one->launches, one->index, name);
}

void flmem_launch_report_doubt(struct flmem_check *check, const struct flmem_place *place,
			       const char *path, const char *why)
{
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = *place};

	flmem_check_report(check,
			   &(struct flmem_remark){.node = &node, .path = path, .detail = why});
}

/*
 * Whether no other checked file resolves a doubt: a script that is checked does, unless it runs a
 * simulator with variables that are not followed.
 */
static bool doubt_remains(const struct flmem_check *check, const struct flmem_launch_doubt *doubt)
{
	const struct flmem_rule_input *script = flmem_launch_script_of(check, doubt);

	return !script || (doubt->unfollowed && flmem_launch_simulates(&script->document.text,
								       check->row->rule.framework));
}

void flmem_launch_report_doubts(struct flmem_check *check, const struct flmem_launches *launches)
{
	for (size_t i = 0; i < launches->doubt_count; i++)
		if (doubt_remains(check, &launches->doubts[i]))
			flmem_launch_report_doubt(check, &launches->doubts[i].place, "environment",
						  launches->doubts[i].why);
}

static void report_start(const struct flmem_launch_check *one)
{
	flmem_launch_report_doubt(one->check, &one->launch->place, "environment", NULL);
}

/* Python belongs to the framework whose package it names: "job.py" alone fits any framework. */
static enum flmem_framework owner_of_starts(const struct flmem_document *document)
{
	bool python = flmem_syntax_is_python(document->syntax);

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; python && *f; f++)
		if (flmem_file_has_word(&document->text, (*f)->package))
			return (*f)->framework;
	return flmem_launch_owner(&document->text);
}

/*
 * Reports files that a notebook writes and that are not read. They start nothing, so the allocator
 * is not in doubt, but they may configure the framework.
 */
static void report_unread_texts(struct flmem_check *check, const struct flmem_launches *launches)
{
	for (size_t i = 0; i < launches->doubt_count; i++)
		if (strcmp(launches->doubts[i].why, FLMEM_LAUNCH_UNREAD_TEXT) == 0)
			flmem_launch_report_doubt(check, &launches->doubts[i].place, "environment",
						  launches->doubts[i].why);
}

static bool starts_framework(const struct flmem_launches *launches, enum flmem_framework framework)
{
	for (size_t i = 0; i < launches->launch_count; i++)
		if (launches->launches[i].framework == framework)
			return true;
	return false;
}

void flmem_launch_check_starts(struct flmem_check *check)
{
	enum flmem_framework framework = check->row->rule.framework;
	bool owned = owner_of_starts(&check->input->document) == framework;
	struct flmem_launches launches;

	flmem_launches_read(check->input, &launches);
	if (launches.launch_count) {
		flmem_launch_check_each(check, report_start);
		if (owned)
			report_unread_texts(check, &launches);
	} else if (owned) {
		flmem_launch_report_doubts(check, &launches);
	}
	if (launches.cut && (owned || starts_framework(&launches, framework))) {
		const struct flmem_place first =
			flmem_launch_first_line(check->input->document.text.data);

		flmem_launch_report_doubt(check, &first, "environment", FLMEM_LAUNCH_CUT);
	}
}

void flmem_launch_report(struct flmem_check *check, const struct flmem_launch_variable *variable,
			 const char *proposed, const char *detail)
{
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = variable->place};

	flmem_check_report(check, &(struct flmem_remark){.node = &node,
							 .path = variable->name,
							 .proposed = proposed,
							 .detail = detail});
}

const struct flmem_rule_input *flmem_launch_script_of(const struct flmem_check *check,
						      const struct flmem_launch_doubt *doubt)
{
	for (size_t i = 0; *doubt->script && i < check->bundle->count; i++)
		if (strcmp(flmem_text_basename(check->bundle->inputs[i].file), doubt->script) == 0)
			return &check->bundle->inputs[i];
	return NULL;
}

const char *flmem_launch_arenas(enum flmem_role role)
{
	return role == FLMEM_ROLE_CLIENT ? "2" : "4";
}
