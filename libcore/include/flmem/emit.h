/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EMIT_H
#define FLMEM_EMIT_H

/*
 * Generates scripts and units that start one role with its memory settings. They run later and in
 * another environment, so they contain the values of the role; scripts keep variables that are
 * already set there.
 */

#include <stdbool.h>

#include <flmem/error.h>
#include <flmem/settings.h>

/* Kinds of generated text. X(NAME, text) */
#define FLMEM_EMIT_KINDS(X)       \
	X(SNIPPET, "snippet")     \
	X(SUB_START, "sub_start") \
	X(SYSTEMD, "systemd")     \
	X(SLURM, "slurm")         \
	X(PBS, "pbs")             \
	X(DOCKER, "docker")       \
	X(K8S, "k8s")

enum flmem_emit_kind {
#define FLMEM_EMIT_KIND_ENUM(name, text) FLMEM_EMIT_##name,
	FLMEM_EMIT_KINDS(FLMEM_EMIT_KIND_ENUM)
#undef FLMEM_EMIT_KIND_ENUM
};

struct flmem_emit_options {
	enum flmem_emit_kind kind;
	struct flmem_settings_request settings; /* its `environment` is not used */
	char *const *argv;			/* NULL: NVFlare's start command of the role */
	const char *workspace; /* NULL: /workspace; batch scripts: the submission directory */
	/* Name of the client; NULL: site-1, in sub_start the directory of the startup kit. */
	const char *site;
	const char *org;   /* organisation of the client; NULL: none */
	const char *image; /* container image; NULL: a placeholder */
	unsigned tasks; /* for batch scripts: MPI processes that share the work; 0 or 1: no MPI */
};

/*
 * Generates the text, which the caller frees with free(). FLMEM_EUSAGE if no command is given and
 * the role and framework have no standard command.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_emit(const struct flmem_emit_options *options, char **ret_text,
					  struct flmem_error *err);

/* Returns true for executable kinds, whose files have mode 0755. */
FLMEM_API bool flmem_emit_is_program(enum flmem_emit_kind kind);

/* Writes the text to a file atomically. FLMEM_EUSAGE if the file exists, unless `replace`. */
FLMEM_API FLMEM_MUST_CHECK int flmem_emit_save(const char *path, const char *text, bool executable,
					       bool replace, struct flmem_error *err);

#endif
