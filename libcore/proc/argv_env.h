/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_ARGV_ENV_H
#define FLMEM_PROC_ARGV_ENV_H

/*
 * The command line and the environment of a process: lists of NUL-terminated words that the process
 * itself can rewrite at any time, so untrusted text of any shape. The environment is the one that
 * the program was started with; later changes do not show.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "base/text/buf.h"

struct flmem_process;

struct flmem_argv_env {
	const char **values; /* point into `text` */
	size_t count;
	bool cut; /* the text or the count of words exceeded the limits */
	char *text;
};

/* Most words of a list. The text is limited to Linux's default ARG_MAX, 2 MiB. */
#define FLMEM_ARGV_ENV_MAX 65536U

/*
 * Reads the command line. For a kernel thread or a zombie the list is empty, which is not an error.
 */
int flmem_argv_env_read_argv(const struct flmem_process *process, struct flmem_argv_env *ret_words,
			     struct flmem_error *err);

/*
 * Reads the environment. FLMEM_EPERM unless the caller may trace the process (ptrace access mode
 * read).
 */
int flmem_argv_env_read_env(const struct flmem_process *process, struct flmem_argv_env *ret_words,
			    struct flmem_error *err);

/*
 * Takes ownership of the text of `buf` and splits it at each NUL; a last word without one counts.
 * `cut`: the text was truncated. Returns 0 or -ENOMEM.
 */
int flmem_argv_env_split(struct flmem_buf *buf, bool cut, struct flmem_argv_env *ret_words);

void flmem_argv_env_clear(struct flmem_argv_env *words);

#define FLMEM_AUTO_ARGV_ENV FLMEM_AUTO(flmem_argv_env_clear)

/*
 * Returns the value of an environment variable, the first one of that name as getenv(3) does; or
 * NULL.
 */
const char *flmem_argv_env_getenv(const struct flmem_argv_env *words, const char *name);

#endif
