/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_EMIT_PLACE_H
#define FLMEM_OPS_START_EMIT_PLACE_H

/* Converts the directory and the program of an emitted file to what its reader accepts. */

#include <flmem/error.h>

/* This says where the directory of an emitted file is. */
enum flmem_emit_place {
	FLMEM_PLACE_SCRIPT,    /* where the script runs; any path, the script changes to it */
	FLMEM_PLACE_HOST,      /* on this host, absolute and without . and .. */
	FLMEM_PLACE_CONTAINER, /* in a container, absolute */
};

/*
 * Returns the directory for a place, NULL if none was named. On this host a relative path is
 * relative to the current directory. The caller frees it. FLMEM_EUSAGE for a directory that the
 * reader would refuse.
 */
int flmem_emit_directory(enum flmem_emit_place place, const char *named, char **ret_directory,
			 struct flmem_error *err);

/*
 * Returns the program of a systemd unit: a plain name, which systemd finds by itself, or an
 * absolute path. A relative path is one below `directory`, which may be NULL. The caller frees it.
 * FLMEM_EUSAGE for a program that systemd would refuse.
 */
int flmem_emit_unit_program(const char *program, const char *directory, char **ret_program,
			    struct flmem_error *err);

#endif
