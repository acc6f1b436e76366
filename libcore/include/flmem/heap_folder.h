/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HEAP_FOLDER_H
#define FLMEM_HEAP_FOLDER_H

/* Analyzes all heap profiles of a folder, for example of an experiment. */

#include <flmem/heap_profile.h>

#define FLMEM_HEAP_FOLDER_MAX 256U /* profiles */

/* A profile that could not be read. */
struct flmem_heap_unread {
	char *name;
	char reason[FLMEM_ERROR_MESSAGE_MAX];
};

struct flmem_heap_folder {
	struct flmem_heap_profile **profiles; /* by name */
	size_t count;
	size_t baseline; /* index of the baseline of all comparisons */
	struct flmem_heap_unread *unread;
	size_t unread_count;
};

/*
 * Reads the profiles in the folder, without subfolders; other files are ignored. `request` has the
 * options, without a path. The baseline is the file with this name in the folder, or with this
 * path, which may be outside the folder: it is then the first profile. NULL: the first profile with
 * "original", "baseline" or "before" in its name, else the first one. FLMEM_EUSAGE: no folder, no
 * profile, too many, no such baseline. Release it with flmem_heap_folder_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_folder_read(const char *path, const char *baseline,
						      const struct flmem_heap_request *request,
						      struct flmem_heap_folder *ret_folder,
						      struct flmem_error *err);
FLMEM_API void flmem_heap_folder_clear(struct flmem_heap_folder *folder);

/* X(NAME, text) */
#define FLMEM_HEAP_FINDINGS(X)                                                             \
	X(GROWS, "grows")	/* live bytes of a stack grow with the rounds */           \
	X(MAY_GROW, "may_grow") /* the same, but without rounds or not confirmed by RSS */ \
	X(HOLDS, "holds")	/* one line has most of the peak */                        \
	X(CHURNS, "churns")	/* one line allocates many times the peak */

enum flmem_heap_finding_kind {
#define FLMEM_HEAP_FINDING_ENUM(name, text) FLMEM_HEAP_FINDING_##name,
	FLMEM_HEAP_FINDINGS(FLMEM_HEAP_FINDING_ENUM)
#undef FLMEM_HEAP_FINDING_ENUM
};

/* "grows", ...; static. */
FLMEM_API const char *flmem_heap_finding_name(enum flmem_heap_finding_kind kind);

struct flmem_heap_finding {
	enum flmem_heap_finding_kind kind;
	uint32_t frame;	    /* the line; FLMEM_HEAP_NO_FRAME: stacks without frames */
	uint32_t own_frame; /* program's own line of the stack, or the one with most of `frame` */
	bool unconfirmed;   /* MAY_GROW: RSS does not show it */
	uint64_t bytes;	    /* bytes grown, held or allocated */
	double share;	    /* HOLDS: fraction of the peak; CHURNS: multiple of the peak; else 0 */
	double confidence;  /* GROWS, MAY_GROW; else 0 */
};

#define FLMEM_HEAP_FINDINGS_MAX 8U

/* Leaks, oldest survivors first, then lines. FLMEM_EFAILED when memory is out. */
FLMEM_API FLMEM_MUST_CHECK int
flmem_heap_findings(const struct flmem_heap_profile *profile,
		    struct flmem_heap_finding ret_findings[FLMEM_HEAP_FINDINGS_MAX],
		    size_t *ret_count, struct flmem_error *err);

#endif
