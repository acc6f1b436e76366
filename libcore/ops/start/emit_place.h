/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_EMIT_PLACE_H
#define FLMEM_OPS_START_EMIT_PLACE_H

/* The directory and the program of an emitted file, as its reader accepts them. */

#include <flmem/error.h>

/* Where the directory is. */
enum flmem_emit_place {
	FLMEM_PLACE_SCRIPT,    /* any: the script changes to it */
	FLMEM_PLACE_HOST,      /* on this host, absolute and without . and .. */
	FLMEM_PLACE_CONTAINER, /* in a container, absolute */
};

/*
 * The directory for the place: NULL if none was named. On this host a relative one is that of the
 * current directory. The caller frees it. FLMEM_EUSAGE for one that its reader would refuse.
 */
int flmem_emit_directory(enum flmem_emit_place place, const char *named, char **ret_directory,
			 struct flmem_error *err);

/*
 * The program of a systemd unit: a plain name, which systemd finds by itself, or an absolute path;
 * a relative one is below the directory, which may be NULL. The caller frees it. FLMEM_EUSAGE for
 * one that systemd would refuse.
 */
int flmem_emit_unit_program(const char *program, const char *directory, char **ret_program,
			    struct flmem_error *err);

#endif
