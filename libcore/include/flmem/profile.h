/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILE_H
#define FLMEM_PROFILE_H

/*
 * Sampled heap profiles: the allocations of a process by code location, in a file of fixed size
 * that is readable while the process runs and after it was killed.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

struct flmem_profile_request {
	const char *output;	 /* path of the profile; the caller owns the string */
	uint64_t interval_bytes; /* mean number of allocated bytes between samples; 0: 512 KiB */
	uint64_t limit_bytes;	 /* size of the file; 0: 64 MiB */
	bool native;		 /* record native frames also inside and between Python frames */
	bool follow_children;	 /* each child process writes its own file, FILE.PID */
	bool python_allocators; /* sample Python's small objects one by one (PYTHONMALLOC=malloc) */
	bool force;		/* replace an existing file */
};

/*
 * Creates the profile for a command that the caller executes next, in its own process, with the
 * returned environment: `environment` with the sampler in LD_PRELOAD. FLMEM_EUSAGE for an invalid
 * size or an existing file, FLMEM_EFAILED if the file cannot be allocated in full,
 * FLMEM_EUNSUPPORTED if the sampler is not installed, FLMEM_ENOCOMMAND and FLMEM_ENOEXEC as for
 * flmem_launch_exec(): an existing file is then not replaced. Release the list with
 * flmem_launch_environment_free().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_prepare(const struct flmem_profile_request *request,
						     char *const *argv, char *const *environment,
						     char ***ret_environment,
						     struct flmem_error *err);

/*
 * Returns the environment with the sampler preloaded; it stays dormant until
 * flmem_profile_attach(). FLMEM_EUNSUPPORTED if the sampler is not installed. Release the list with
 * flmem_launch_environment_free().
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_profile_ready(char *const *environment, char ***ret_environment, struct flmem_error *err);

/*
 * Makes the environment as flmem_profile_ready() does, but each program also opens a socket in a
 * new thread, for attaching without tracing. This has side effects (docs/guides/profile.md). A
 * program under seccomp filters opens the socket only with `assume_seccomp`: a filter may kill it
 * for the system calls that the socket needs. FLMEM_EUNSUPPORTED if the sampler is not installed.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_ready_socket(bool assume_seccomp,
							  char *const *environment,
							  char ***ret_environment,
							  struct flmem_error *err);

/*
 * Checks that the program can start with the sampler; call it before flmem_profile_ready(). musl's
 * loader ends a program (status 127) if a preloaded library needs symbols that only glibc has.
 * FLMEM_EUNSUPPORTED if the program's C library differs from the sampler's, or if it or LD_PRELOAD
 * names the library of a sanitizer; FLMEM_ENOCOMMAND if there is no such command.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_program_check(const char *program,
							   struct flmem_error *err);

/*
 * Stores in the profile the round that the sampled process is in; 4294967295: none. FLMEM_EUSAGE if
 * the file is not a heap profile, is a copy that no process reads, or belongs to a process that is
 * no longer sampled. FLMEM_ENOPROC if the process is not visible (killed, or in another container
 * or host); the round is stored nevertheless.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_set_round(const char *path, uint32_t round,
						       struct flmem_error *err);

#endif
