/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SETTINGS_H
#define FLMEM_SETTINGS_H

/*
 * Memory settings of a federated-learning process by its role: environment variables for its start,
 * with reason and source; merged with the user's settings, and printed for a shell or another
 * launcher.
 *
 * Settings own their values: release with flmem_settings_clear(). Names, reasons and sources are
 * static. The environment of the calling process is never changed.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/roles.h>

/* Supported allocators. X(NAME, text) */
#define FLMEM_SETTINGS_ALLOCATORS(X) \
	X(GLIBC, "glibc")            \
	X(JEMALLOC, "jemalloc")      \
	X(AUTO, "auto")

/* AUTO: jemalloc if its library is found, else glibc. */
enum flmem_settings_allocator {
#define FLMEM_SETTINGS_ALLOCATOR_ENUM(name, text) FLMEM_SETTINGS_ALLOCATOR_##name,
	FLMEM_SETTINGS_ALLOCATORS(FLMEM_SETTINGS_ALLOCATOR_ENUM)
#undef FLMEM_SETTINGS_ALLOCATOR_ENUM
};

/*
 * What is known about the jobs that the process will run. Variables that external trainers of
 * NVFlare 2.7.2 to 2.8 take instead of the job's own settings are set only if LEFT.
 */
enum flmem_settings_job {
	FLMEM_SETTINGS_JOB_UNKNOWN, /* no job known */
	FLMEM_SETTINGS_JOB_SET,	    /* the job sets its cleanup interval, or may do so */
	FLMEM_SETTINGS_JOB_LEFT,    /* the job does not set its cleanup interval */
	FLMEM_SETTINGS_JOB_UNREAD,  /* the job has no trainers that read the variables */
};

struct flmem_settings_request {
	enum flmem_role role;  /* server, client or trainer */
	bool high_parallelism; /* a server that works on many clients at once */
	bool gpu;	       /* the process uses a GPU (client or trainer) */
	/* Static: why `gpu` is false, as the reason of settings left out. */
	const char *gpu_missing;
	enum flmem_settings_allocator allocator;
	/* Absolute path of the library to preload; NULL: the installed one. */
	const char *jemalloc_library;
	/* The settings are for another machine: jemalloc_library need not exist here. */
	bool elsewhere;
	enum flmem_framework framework; /* framework of the process; NONE: NVFlare */
	enum flmem_settings_job job;
	/* "2.8", "2.8.1"; NULL: unknown, settings of every version are made. */
	const char *framework_version;
	bool force;		  /* values of the role replace the user's values */
	char *const *environment; /* the user's environment, as environ; NULL: empty */
};

/* Origin of a setting's value. X(NAME, text) */
#define FLMEM_SETTING_ORIGINS(X) \
	X(ROLE, "role")          \
	X(USER, "user")          \
	X(JOINED, "joined")      \
	X(OMITTED, "omitted")

/*
 * Where the value comes from. ROLE: the value of the role, also if it replaces a user's value that
 * its reader ignores. USER: the user's value is kept. JOINED: the value of the role is appended to
 * the user's value. OMITTED: left out although the role has a value, for the given `reason`.
 */
enum flmem_setting_origin {
#define FLMEM_SETTING_ORIGIN_ENUM(name, text) FLMEM_SETTING_##name,
	FLMEM_SETTING_ORIGINS(FLMEM_SETTING_ORIGIN_ENUM)
#undef FLMEM_SETTING_ORIGIN_ENUM
};

/* Returns the name of an origin ("role", ...); static, NULL for other values. */
FLMEM_API const char *flmem_setting_origin_name(enum flmem_setting_origin origin);

struct flmem_setting {
	const char *name;
	char *value; /* NULL when omitted */
	enum flmem_setting_origin origin;
	const char *where;  /* place of a job setting in the job; NULL: an environment variable */
	const char *reason; /* why the setting has this value; one sentence without a full stop */
	const char *source; /* document that the value is taken from */
	const char *note;   /* problem of the user's value, also if that is replaced; or NULL */
};

struct flmem_settings {
	enum flmem_role role;
	enum flmem_framework framework;
	enum flmem_allocator_kind allocator; /* glibc or jemalloc */
	char *jemalloc_library;		     /* the library that is preloaded, or NULL */
	struct flmem_setting *rows;	     /* environment variables first, then job settings */
	size_t count;
};

/*
 * Makes the settings of a role. FLMEM_EUSAGE for a role without settings, an invalid version or an
 * invalid library path; FLMEM_EUNSUPPORTED if jemalloc is requested and no library is found.
 * Release with flmem_settings_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_settings_make(const struct flmem_settings_request *request,
						   struct flmem_settings *ret_settings,
						   struct flmem_error *err);

/* Frees the values and zeroes the struct. */
FLMEM_API void flmem_settings_clear(struct flmem_settings *settings);

/*
 * Returns true if this machine has a GPU that PyTorch could use, by its device nodes (NVIDIA, WSL,
 * AMD).
 */
FLMEM_API bool flmem_settings_gpu_present(void);

/*
 * Text formats. X(NAME, text, meaning)
 *
 * docker is a file for `docker run --env-file`, k8s the env: list of a container, systemd lines for
 * the [Service] section or a drop-in. nvflare-docker and nvflare-slurm are YAML for the
 * `job_launcher` key of the file that `nvflare deploy prepare` reads; resources.json has the same
 * keys.
 */
#define FLMEM_SETTINGS_FORMATS(X)                                                           \
	X(SH, "sh", "POSIX shells: eval")                                                   \
	X(FISH, "fish", "fish: pipe into source")                                           \
	X(CSH, "csh", "csh and tcsh: eval")                                                 \
	X(DOTENV, "dotenv", ".env file")                                                    \
	X(SYSTEMD, "systemd", "lines of a unit")                                            \
	X(DOCKER, "docker", "docker run --env-file")                                        \
	X(K8S, "k8s", "env: list of a Kubernetes container")                                \
	X(NVFLARE_DOCKER, "nvflare-docker", "default_job_env of NVFlare's Docker launcher") \
	X(NVFLARE_SLURM, "nvflare-slurm", "setup and forward_env of NVFlare's Slurm launcher")

enum flmem_settings_format {
#define FLMEM_SETTINGS_FORMAT_ENUM(name, text, meaning) FLMEM_SETTINGS_FORMAT_##name,
	FLMEM_SETTINGS_FORMATS(FLMEM_SETTINGS_FORMAT_ENUM)
#undef FLMEM_SETTINGS_FORMAT_ENUM
};

/* Finds the format of a name. FLMEM_EUSAGE with the list of names for an invalid one. */
FLMEM_API FLMEM_MUST_CHECK int flmem_settings_format_find(const char *name,
							  enum flmem_settings_format *ret_format,
							  struct flmem_error *err);

/* Returns true for formats that are used on another machine. */
FLMEM_API bool flmem_settings_format_elsewhere(enum flmem_settings_format format);

/*
 * Prints the environment variables, quoted so that every value is preserved byte for byte. With
 * `explain`, a comment with reason and source precedes each, and job settings and omissions are
 * printed as comments. The caller frees the text with free(). FLMEM_EUNSUPPORTED if the format
 * cannot represent a value (a newline in a docker file, for example).
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_settings_print(const struct flmem_settings *settings,
						    enum flmem_settings_format format, bool explain,
						    char **ret_text, struct flmem_error *err);

#endif
