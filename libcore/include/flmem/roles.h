/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ROLES_H
#define FLMEM_ROLES_H

/*
 * Names of the federated-learning frameworks, of the roles of their processes, and of the
 * allocators. Other files make their tables from these.
 */

#include <stdbool.h>

#include <flmem/visibility.h>

/* Roles of processes. X(NAME, text) */
#define FLMEM_ROLES(X)                          \
	X(SERVER, "server")                     \
	X(SERVER_JOB, "server-job")             \
	X(CLIENT, "client")                     \
	X(CLIENT_JOB, "client-job")             \
	X(TRAINER, "trainer")                   \
	X(SIMULATOR_SERVER, "simulator-server") \
	X(SIMULATOR_CLIENT, "simulator-client")

enum flmem_role {
	FLMEM_ROLE_NONE = 0,
#define FLMEM_ROLE_ENUM(name, text) FLMEM_ROLE_##name,
	FLMEM_ROLES(FLMEM_ROLE_ENUM)
#undef FLMEM_ROLE_ENUM
};

/*
 * Frameworks. X(NAME, name): `name` is also that of the folder and of its table. A new framework is
 * named only here, as the last one: recordings contain its number.
 */
#define FLMEM_FRAMEWORKS(X) \
	X(NVFLARE, nvflare) \
	X(APPFL, appfl)     \
	X(FLOWER, flower)

enum flmem_framework {
	FLMEM_FRAMEWORK_NONE = 0,
#define FLMEM_FRAMEWORK_ENUM(NAME, name) FLMEM_FRAMEWORK_##NAME,
	FLMEM_FRAMEWORKS(FLMEM_FRAMEWORK_ENUM)
#undef FLMEM_FRAMEWORK_ENUM
};

/* Allocators. X(NAME, text) */
#define FLMEM_ALLOCATORS(X)     \
	X(UNKNOWN, "unknown")   \
	X(GLIBC, "glibc")       \
	X(JEMALLOC, "jemalloc") \
	X(TCMALLOC, "tcmalloc") \
	X(MIMALLOC, "mimalloc") \
	X(MUSL, "musl")         \
	X(SNMALLOC, "snmalloc") \
	X(RPMALLOC, "rpmalloc") \
	X(GO, "go")             \
	X(JAVA, "java")

enum flmem_allocator_kind {
#define FLMEM_ALLOCATOR_ENUM(name, text) FLMEM_ALLOCATOR_##name,
	FLMEM_ALLOCATORS(FLMEM_ALLOCATOR_ENUM)
#undef FLMEM_ALLOCATOR_ENUM
};

/* Returns true for roles that aggregate; the others train or host training. */
FLMEM_API bool flmem_role_is_server(enum flmem_role role);

/* Return the name of a value; static text, NULL for the NONE values. */
FLMEM_API const char *flmem_role_name(enum flmem_role role);
FLMEM_API const char *flmem_framework_name(enum flmem_framework framework);
FLMEM_API const char *flmem_allocator_name(enum flmem_allocator_kind kind);

#endif
