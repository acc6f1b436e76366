/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EMIT_H
#define FLMEM_EMIT_H

/*
 * Scripts and units that start one role with its memory settings. They run elsewhere and later, so
 * they hold the role's own values, and scripts let a value stand that is set where they run.
 */

#include <stdbool.h>

#include <flmem/error.h>
#include <flmem/settings.h>

/* X(NAME, text) */
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
	struct flmem_settings_request settings; /* its environment is not used */
	char *const *argv;			/* NULL: NVFlare's own start command of the role */
	const char *workspace; /* NULL: /workspace; for batch scripts where they are submitted */
	const char *site;  /* name of the client; NULL: site-1, in sub_start the kit's directory */
	const char *org;   /* its organisation; NULL: none */
	const char *image; /* for containers; NULL: a name to be filled in */
};

/*
 * Writes the text, which the caller frees. FLMEM_EUSAGE when there is no standard command for the
 * role and framework and none is given.
 */
FLMEM_API int flmem_emit(const struct flmem_emit_options *options, char **ret_text,
			 struct flmem_error *err);

/* True for kinds that are to be executed: a file of it wants mode 0755. */
FLMEM_API bool flmem_emit_is_program(enum flmem_emit_kind kind);

/* Saves it whole or not at all; an existing file is FLMEM_EUSAGE unless `replace`. */
FLMEM_API int flmem_emit_save(const char *path, const char *text, bool executable, bool replace,
			      struct flmem_error *err);

#endif
