/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_LAUNCH_H
#define FLMEM_LAUNCH_H

/*
 * Starting a command with the settings of its role: the environment it gets, the proof that an
 * allocator really loads into it, and becoming it.
 *
 * Argument and environment lists end in NULL. Nothing here changes the caller's own environment.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/settings.h>

/*
 * The environment of the command: `environment` with the variables of `settings` set. With
 * `scrub_preload` the preloaded jemalloc is followed in LD_PRELOAD by libflmem_scrub.so, which
 * takes both out of the environment before main(), so that children of the command start without
 * them. FLMEM_EUNSUPPORTED when that library is not installed next to libflmem. Release with
 * flmem_launch_environment_free().
 */
FLMEM_API int flmem_launch_environment(const struct flmem_settings *settings,
				       char *const *environment, bool scrub_preload,
				       char ***ret_environment, struct flmem_error *err);

FLMEM_API void flmem_launch_environment_free(char **environment);

/* What was seen in a probe child. */
struct flmem_preload_proof {
	char *program; /* the file that the command runs: for a script its interpreter */
	bool is_shell; /* a script's shell: what the script starts inherits, and is not looked at */
	char *library; /* the allocator's file, as it is mapped there */
	char *said;    /* what loader and allocator wrote on standard error meanwhile; "" */
	uint64_t took_us;
};

/*
 * Proves that the jemalloc of `settings` serves malloc in the command: starts it in a child that is
 * held before main() and killed there, and reads the child's mappings and symbol lookup order. A
 * script counts as its interpreter; env, nice and their like run until they become the program.
 * FLMEM_EUNSUPPORTED with the reason when it does not load (a static, musl, 32-bit or set-user-ID
 * program, another allocator in front, a shell script that is not to pass it on); FLMEM_EPERM when
 * children cannot be traced here; FLMEM_ENOCOMMAND and FLMEM_ENOEXEC as for flmem_launch_exec().
 */
FLMEM_API int flmem_launch_prove(const struct flmem_settings *settings, char *const *argv,
				 char *const *environment, struct flmem_preload_proof *ret_proof,
				 struct flmem_error *err);

FLMEM_API void flmem_preload_proof_clear(struct flmem_preload_proof *proof);

/*
 * Becomes the command, searched in the caller's PATH; returns only when it cannot be:
 * FLMEM_ENOCOMMAND when there is none, FLMEM_ENOEXEC when it cannot be executed.
 */
FLMEM_API int flmem_launch_exec(char *const *argv, char *const *environment,
				struct flmem_error *err);

/*
 * The same as a script for a POSIX shell: the assignments of `settings`, then exec and the command,
 * quoted. The caller frees it.
 */
FLMEM_API int flmem_launch_script(const struct flmem_settings *settings, char *const *argv,
				  bool explain, char **ret_text, struct flmem_error *err);

#endif
