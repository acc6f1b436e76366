/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/framework.h"

#include <stdio.h>

#define FRAMEWORK_DECLARATION(NAME, name) \
	extern const struct flmem_framework_ops flmem_framework_##name;
FLMEM_FRAMEWORKS(FRAMEWORK_DECLARATION)
#undef FRAMEWORK_DECLARATION

#define FRAMEWORK_ADDRESS(NAME, name) &flmem_framework_##name,
const struct flmem_framework_ops *const flmem_frameworks[] = {
	FLMEM_FRAMEWORKS(FRAMEWORK_ADDRESS) NULL,
};
#undef FRAMEWORK_ADDRESS

void flmem_identify(struct flmem_subject *subject, struct flmem_identity *ret_identity)
{
	*ret_identity = (struct flmem_identity){0};
	flmem_program_parse(subject->command, &subject->program);
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++) {
		struct flmem_identity identity = {.framework = (*f)->framework};

		if ((*f)->recognise(subject, &identity)) {
			*ret_identity = identity;
			return;
		}
	}
}

const struct flmem_framework_ops *flmem_framework_ops_of(enum flmem_framework framework)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if ((*f)->framework == framework)
			return *f;
	return NULL;
}

void flmem_recommendations_init(struct flmem_recommendations *ret_found)
{
	*ret_found = (struct flmem_recommendations)FLMEM_RECOMMENDATIONS_INIT;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if ((*f)->facts_init)
			(*f)->facts_init(ret_found);
}

const char *flmem_offload_unread(enum flmem_framework framework, enum flmem_role role)
{
	const struct flmem_framework_ops *own = flmem_framework_ops_of(framework);
	const char *why = own ? own->offload_unread : NULL;

	if (own && own->offloads && own->offloads(role))
		return NULL;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !why; f++)
		why = (*f)->offload_unread;
	return why ? why : "no known framework offloads tensors";
}

const struct flmem_start_ops *flmem_start_of(enum flmem_framework framework)
{
	const struct flmem_framework_ops *own = flmem_framework_ops_of(framework);

	return own ? own->start : NULL;
}

const struct flmem_start_ops *flmem_start_script_of(enum flmem_framework framework)
{
	const struct flmem_start_ops *start = flmem_start_of(framework);

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !start; f++)
		start = (*f)->start;
	return start;
}

void flmem_identity_set_site(struct flmem_identity *identity, const char *site)
{
	snprintf(identity->site, sizeof(identity->site), "%s", site ? site : "");
}

struct flmem_u64 flmem_gc_rounds_of(const struct flmem_process_report *process,
				    struct flmem_u64 job)
{
	const struct flmem_framework_ops *framework = flmem_framework_ops_of(process->framework);
	struct flmem_u64 own = FLMEM_UNKNOWN("no environment overrides the job");

	if (framework && framework->own_gc_rounds)
		own = framework->own_gc_rounds(process);
	return own.unknown ? job : own;
}
