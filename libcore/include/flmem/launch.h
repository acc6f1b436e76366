/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_LAUNCH_H
#define FLMEM_LAUNCH_H

/*
 * Starts a command with the settings of its role: builds its environment, verifies that the
 * allocator loads, and executes the command.
 *
 * Argument and environment lists end in NULL. The caller's own environment is never changed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/settings.h>

/*
 * Makes the environment of the command: `environment` with the variables of `settings` set. With
 * `scrub_preload` the preloaded jemalloc is followed in LD_PRELOAD by libflmem_scrub.so, which
 * removes both from the environment before main(), so that children of the command start without
 * them. FLMEM_EUNSUPPORTED if that library is not installed next to libflmem. Release with
 * flmem_launch_environment_free().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_launch_environment(const struct flmem_settings *settings,
							char *const *environment,
							bool scrub_preload, char ***ret_environment,
							struct flmem_error *err);

/* Frees a list made by flmem_launch_environment() or flmem_profile_prepare(); NULL is allowed. */
FLMEM_API void flmem_launch_environment_free(char **environment);

/* What flmem_launch_prove() found in its probe child. */
struct flmem_preload_proof {
	char *program; /* the executed file; for a script its interpreter */
	bool is_shell; /* the command is a shell script; children of the shell are not checked */
	char *library; /* file of the allocator, as mapped in the child */
	char *stderr_text; /* what loader and allocator printed on standard error, or "" */
	uint64_t took_us;
};

/*
 * Verifies that the jemalloc of `settings` serves malloc in the command. It starts the command (for
 * a script its interpreter) in a child that is stopped before main() and killed there, and reads
 * the child's mappings and symbol lookup order. env, nice and similar wrappers run until they
 * execute the program. FLMEM_EUNSUPPORTED with the reason if jemalloc does not load (a static,
 * musl, 32-bit or set-user-ID program, another allocator before it, a shell script that must not
 * pass it on), or if the library that serves malloc is not jemalloc; FLMEM_EPERM if children cannot
 * be traced here; FLMEM_ENOCOMMAND and FLMEM_ENOEXEC as for flmem_launch_exec(). Release with
 * flmem_preload_proof_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_launch_prove(const struct flmem_settings *settings,
						  char *const *argv, char *const *environment,
						  struct flmem_preload_proof *ret_proof,
						  struct flmem_error *err);

/* Frees what the proof owns and zeroes the struct. */
FLMEM_API void flmem_preload_proof_clear(struct flmem_preload_proof *proof);

/*
 * Executes the command, which is searched in the caller's PATH, in place of the calling process.
 * Returns only on failure: FLMEM_ENOCOMMAND if the command does not exist, FLMEM_ENOEXEC if it
 * cannot be executed.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_launch_exec(char *const *argv, char *const *environment,
						 struct flmem_error *err);

/*
 * Makes a POSIX shell script that starts the command: the assignments of `settings`, then exec with
 * the quoted command. With `explain` a comment with the reason precedes each assignment. The caller
 * frees the text with free(). FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_launch_script(const struct flmem_settings *settings,
						   char *const *argv, bool explain, char **ret_text,
						   struct flmem_error *err);

#endif
