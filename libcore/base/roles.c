/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/roles.h>

#include <stddef.h>

#define NAME_CASE_ROLE(name, text) \
	case FLMEM_ROLE_##name:    \
		return text;
#define NAME_CASE_FRAMEWORK(NAME, name) \
	case FLMEM_FRAMEWORK_##NAME:    \
		return #name;
#define NAME_CASE_ALLOCATOR(name, text) \
	case FLMEM_ALLOCATOR_##name:    \
		return text;

bool flmem_role_is_server(enum flmem_role role)
{
	return role == FLMEM_ROLE_SERVER || role == FLMEM_ROLE_SERVER_JOB ||
	       role == FLMEM_ROLE_SIMULATOR_SERVER;
}

const char *flmem_role_name(enum flmem_role role)
{
	switch (role) {
		FLMEM_ROLES(NAME_CASE_ROLE)
	case FLMEM_ROLE_NONE:
		break;
	}
	return NULL;
}

const char *flmem_framework_name(enum flmem_framework framework)
{
	switch (framework) {
		FLMEM_FRAMEWORKS(NAME_CASE_FRAMEWORK)
	case FLMEM_FRAMEWORK_NONE:
		break;
	}
	return NULL;
}

const char *flmem_allocator_name(enum flmem_allocator_kind kind)
{
	switch (kind) {
		FLMEM_ALLOCATORS(NAME_CASE_ALLOCATOR)
	}
	return NULL;
}
