/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SETTINGS_H
#define FLMEM_SETTINGS_H

/*
 * Memory settings of a federated-learning process by its role: which environment variables it
 * should be started with, why, and where the value comes from; merged with what the user has set,
 * and printed for a shell or another launcher.
 *
 * Settings own their values: release with flmem_settings_clear(). Names, reasons and sources are
 * static. Nothing here changes the calling process's own environment.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/roles.h>

/* Allocators that settings are made for. X(NAME, text) */
#define FLMEM_SETTINGS_ALLOCATORS(X) \
	X(GLIBC, "glibc")            \
	X(JEMALLOC, "jemalloc")      \
	X(AUTO, "auto")

/* AUTO: jemalloc where its library is found, else glibc. */
enum flmem_settings_allocator {
#define FLMEM_SETTINGS_ALLOCATOR_ENUM(name, text) FLMEM_SETTINGS_ALLOCATOR_##name,
	FLMEM_SETTINGS_ALLOCATORS(FLMEM_SETTINGS_ALLOCATOR_ENUM)
#undef FLMEM_SETTINGS_ALLOCATOR_ENUM
};

struct flmem_settings_request {
	enum flmem_role role;  /* server, client or trainer */
	bool high_parallelism; /* a server with many client connections at work at once */
	bool gpu;	       /* a client or trainer that uses one */
	enum flmem_settings_allocator allocator;
	const char *jemalloc_library; /* absolute path to preload; NULL: the one that is found */
	bool elsewhere; /* for another machine: a named jemalloc_library needs not exist here */
	enum flmem_framework framework; /* NONE: NVFlare */
	const char *framework_version;	/* "2.8", "2.8.1"; NULL: unknown, then every version's */
	bool force;			/* the role's values replace the user's own */
	char *const *environment;	/* what the user has set, as environ; NULL: nothing */
};

/* How a setting came to its value. X(NAME, text) */
#define FLMEM_SETTING_ORIGINS(X) \
	X(ROLE, "role")          \
	X(USER, "user")          \
	X(JOINED, "joined")      \
	X(OMITTED, "omitted")

/*
 * ROLE: the value of the role. USER: the user has set it, and that stands. JOINED: the user's value
 * with the role's appended. OMITTED: left out although the role has a value; `reason` says why.
 */
enum flmem_setting_origin {
#define FLMEM_SETTING_ORIGIN_ENUM(name, text) FLMEM_SETTING_##name,
	FLMEM_SETTING_ORIGINS(FLMEM_SETTING_ORIGIN_ENUM)
#undef FLMEM_SETTING_ORIGIN_ENUM
};

FLMEM_API const char *flmem_setting_origin_name(enum flmem_setting_origin origin);

struct flmem_setting {
	const char *name;
	char *value; /* NULL when omitted */
	enum flmem_setting_origin origin;
	const char *where;  /* NULL: an environment variable; else the job setting that it is */
	const char *reason; /* one sentence without a full stop */
	const char *source; /* of the value */
	const char *note;   /* what is wrong with the user's value, or NULL */
};

struct flmem_settings {
	enum flmem_role role;
	enum flmem_framework framework;
	enum flmem_allocator_kind allocator; /* glibc or jemalloc */
	char *jemalloc_library;		     /* the one that is preloaded, or NULL */
	struct flmem_setting *rows;	     /* environment variables first, then job settings */
	size_t count;
};

/*
 * Makes the settings. FLMEM_EUSAGE for a role without settings, a version or library path that
 * cannot be one; FLMEM_EUNSUPPORTED when jemalloc is asked for and no library is found.
 */
FLMEM_API int flmem_settings_make(const struct flmem_settings_request *request,
				  struct flmem_settings *ret_settings, struct flmem_error *err);

FLMEM_API void flmem_settings_clear(struct flmem_settings *settings);

/* Whether this machine has a GPU that PyTorch could use, by its device nodes (NVIDIA, AMD). */
FLMEM_API bool flmem_settings_gpu_present(void);

/*
 * Text formats. X(NAME, text, meaning)
 * docker is a file for `docker run --env-file`, k8s the env: list of a container, systemd lines for
 * the [Service] section or a drop-in.
 */
#define FLMEM_SETTINGS_FORMATS(X)                    \
	X(SH, "sh", "POSIX shells: eval")            \
	X(FISH, "fish", "fish: pipe into source")    \
	X(CSH, "csh", "csh and tcsh: eval")          \
	X(DOTENV, "dotenv", ".env file")             \
	X(SYSTEMD, "systemd", "lines of a unit")     \
	X(DOCKER, "docker", "docker run --env-file") \
	X(K8S, "k8s", "env: list of a Kubernetes container")

enum flmem_settings_format {
#define FLMEM_SETTINGS_FORMAT_ENUM(name, text, meaning) FLMEM_SETTINGS_FORMAT_##name,
	FLMEM_SETTINGS_FORMATS(FLMEM_SETTINGS_FORMAT_ENUM)
#undef FLMEM_SETTINGS_FORMAT_ENUM
};

/* The format of a name; FLMEM_EUSAGE with the list when there is none. */
FLMEM_API int flmem_settings_format_find(const char *name, enum flmem_settings_format *ret_format,
					 struct flmem_error *err);

/* True for formats that are read on another machine than the one that prints them. */
FLMEM_API bool flmem_settings_format_elsewhere(enum flmem_settings_format format);

/*
 * Prints the environment variables so that the reader gets every value byte for byte, with
 * `explain` each behind a comment that gives reason and source, and the job settings and omissions
 * as comments too. The text is the caller's to free. FLMEM_EUNSUPPORTED when the format cannot hold
 * a value (a newline in a docker file, say).
 */
FLMEM_API int flmem_settings_print(const struct flmem_settings *settings,
				   enum flmem_settings_format format, bool explain, char **ret_text,
				   struct flmem_error *err);

#endif
