/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/framework.h"

#include <stdio.h>

extern const struct flmem_framework_ops flmem_framework_nvflare;
extern const struct flmem_framework_ops flmem_framework_appfl;
extern const struct flmem_framework_ops flmem_framework_flower;

const struct flmem_framework_ops *const flmem_frameworks[] = {
	&flmem_framework_nvflare,
	&flmem_framework_flower,
	&flmem_framework_appfl,
	NULL,
};

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

void flmem_identity_set_site(struct flmem_identity *identity, const char *site)
{
	snprintf(identity->site, sizeof(identity->site), "%s", site ? site : "");
}
