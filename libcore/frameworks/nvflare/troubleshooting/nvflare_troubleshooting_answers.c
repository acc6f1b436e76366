/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/troubleshooting/nvflare_troubleshooting_answers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void flmem_answer_set_state(struct flmem_troubleshoot_answer *answer, enum flmem_step_state state,
			    const char *format, ...)
{
	va_list arguments;

	answer->state = state;
	va_start(arguments, format);
	vsnprintf(answer->evidence, sizeof(answer->evidence), format, arguments);
	va_end(arguments);
}

void flmem_answer_set_next(struct flmem_troubleshoot_answer *answer, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer->next, sizeof(answer->next), format, arguments);
	va_end(arguments);
}

/* Whether a finding is about a file, or about this process. A recording has several processes. */
static bool is_own_finding(const struct flmem_troubleshoot_case *one, const struct flmem_finding *f)
{
	char owner[32];
	int length;

	if (f->line)
		return true;
	if (!one->place || strcmp(f->file, one->place) != 0)
		return false;
	if (one->process)
		return true;
	length = snprintf(owner, sizeof(owner), "process %d", (int)one->pid);
	return strncmp(f->path, owner, (size_t)length) == 0 && strchr(" :", f->path[length]);
}

const struct flmem_finding *flmem_answer_find(const struct flmem_troubleshoot_case *one,
					      const char *const *rules)
{
	for (const char *const *rule = rules; *rule; rule++) {
		for (size_t i = 0; i < one->found->finding_count; i++) {
			const struct flmem_finding *f = &one->found->findings[i];

			if (strcmp(f->rule->id, *rule) == 0 && is_own_finding(one, f))
				return f;
		}
	}
	return NULL;
}

void flmem_answer_report(struct flmem_troubleshoot_answer *answer, const struct flmem_finding *f)
{
	char where[128] = "";

	if (f->line)
		snprintf(where, sizeof(where), "%.100s:%u: ", f->file, f->line);
	flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE, "%s%.80s is %.60s (%s)", where, f->path,
			       f->current ? f->current : "absent", f->rule->id);
	if (f->proposed)
		flmem_answer_set_next(answer, "set it to %.60s%s", f->proposed,
				      f->fixable ? "; flmem recommend --fix on the job writes it"
						 : "");
}

static bool is_server(const struct flmem_troubleshoot_case *one)
{
	return flmem_role_is_server(one->role);
}

/* The value of --role for `flmem start`; NULL if the role is unknown. */
static const char *start_role(const struct flmem_troubleshoot_case *one)
{
	if (!one->role)
		return NULL;
	if (one->role == FLMEM_ROLE_TRAINER)
		return "trainer";
	return is_server(one) ? "server" : "client";
}

void flmem_answer_advise_start(const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *answer, const char *more)
{
	bool foreign = one->framework && one->framework != FLMEM_FRAMEWORK_NVFLARE;

	flmem_answer_set_next(answer, "flmem start --role %s%s%s%s -- COMMAND",
			      start_role(one) ? start_role(one) : "client",
			      foreign ? " --framework " : "",
			      foreign ? flmem_framework_name(one->framework) : "", more);
}

void flmem_answer_advise_watch(const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *answer, const char *why)
{
	if (one->process)
		flmem_answer_set_next(answer, "flmem watch --pid %d --record run.rec%s",
				      (int)one->pid, why);
	else
		flmem_answer_set_next(answer, "flmem watch --all --role %s --record run.rec%s",
				      is_server(one) ? "server" : "client", why);
}

bool flmem_answer_is_foreign(const struct flmem_troubleshoot_case *one,
			     struct flmem_troubleshoot_answer *answer, const char *setting)
{
	if (!one->framework || one->framework == FLMEM_FRAMEWORK_NVFLARE)
		return false;
	flmem_answer_set_state(answer, FLMEM_STEP_NOT_NEEDED, "%s is NVFlare's, and this is %s",
			       setting, flmem_framework_name(one->framework));
	return true;
}
