/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HEAP_FOLDER_H
#define FLMEM_HEAP_FOLDER_H

/* All heap profiles of a folder, such as those of an experiment, and what stands out in them. */

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
	size_t baseline; /* the one that the others are compared with */
	struct flmem_heap_unread *unread;
	size_t unread_count;
};

/*
 * Reads the profiles of the folder, not those of folders in it; other files are left out.
 * `request` has the options, without a path. The baseline is the file with this name in the folder,
 * or with this path, which may be elsewhere: it is then the first of the profiles. With NULL it is
 * the first one with "original", "baseline" or "before" in its name, else the first one.
 * FLMEM_EUSAGE: no folder, no profile, too many, no such baseline. Release it with
 * flmem_heap_folder_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_folder_read(const char *path, const char *baseline,
						      const struct flmem_heap_request *request,
						      struct flmem_heap_folder *ret_folder,
						      struct flmem_error *err);
FLMEM_API void flmem_heap_folder_clear(struct flmem_heap_folder *folder);

/* X(NAME, text) */
#define FLMEM_HEAP_FINDINGS(X)                                                   \
	X(GROWS, "grows")	/* live bytes of a stack grow with the rounds */ \
	X(MAY_GROW, "may_grow") /* the same without rounds, or against RSS */    \
	X(HOLDS, "holds")	/* one line has most of the peak */              \
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
	uint32_t own_frame; /* of its stack, or the one with most of the line */
	bool unconfirmed;   /* MAY_GROW: RSS does not show it */
	uint64_t bytes;	    /* that grew, are held, or were allocated */
	double share;	    /* HOLDS: of the peak; CHURNS: how many times the peak; else 0 */
	double confidence;  /* GROWS, MAY_GROW; else 0 */
};

#define FLMEM_HEAP_FINDINGS_MAX 8U

/* Leaks, those with the oldest survivors first, then lines. FLMEM_EFAILED without memory. */
FLMEM_API FLMEM_MUST_CHECK int
flmem_heap_findings(const struct flmem_heap_profile *profile,
		    struct flmem_heap_finding ret_findings[FLMEM_HEAP_FINDINGS_MAX],
		    size_t *ret_count, struct flmem_error *err);

#endif
