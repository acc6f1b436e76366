/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PLUGIN_H
#define FLMEM_PLUGIN_H

/*
 * Shared libraries that only one command needs. They are loaded on use, so that the other commands
 * work and start fast without them. The caller owns the tables, which are only read. Any thread may
 * call, but only one at a time for the same slots.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>

#define FLMEM_PLUGIN_NAMES_MAX 3

struct flmem_plugin {
	/* File names as dlopen() takes them, best first; the first that loads is used. */
	const char *sonames[FLMEM_PLUGIN_NAMES_MAX];
	/* Start of the error if none loads: what needs the library, and its package. */
	const char *missing;
	/* What a too old library lacks, for the error; NULL: the error names the absent symbol. */
	const char *lacks;
	bool loaded_only; /* use the library only if the process has already loaded it */
	/* The library is never unloaded: its threads or handlers may outlive the last user. */
	bool stays;
};

struct flmem_plugin_symbol {
	/* Names of the symbol, newest revision first; the first that exists is used. */
	const char *names[FLMEM_PLUGIN_NAMES_MAX];
	void *slot;    /* a pointer of any type, which receives the address */
	bool optional; /* the library may lack the symbol; its slot is NULL then */
};

/*
 * Loads the library and fills the slots: all of them, or none on failure. *ret_library is for
 * flmem_plugin_close(); with ret_library NULL the library stays loaded. FLMEM_EUNSUPPORTED if no
 * file loads or a symbol is absent.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_plugin_load(const struct flmem_plugin *plugin,
						 const struct flmem_plugin_symbol *symbols,
						 size_t count, void **ret_library,
						 struct flmem_error *err);

/* Unloads the library; NULL is allowed. No slot may be used afterwards. */
FLMEM_API void flmem_plugin_close(void *library);

#endif
