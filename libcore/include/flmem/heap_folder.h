/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HEAP_FOLDER_H
#define FLMEM_HEAP_FOLDER_H

/* Analyzes all heap profiles of a folder, for example of an experiment. */

#include <flmem/heap_profile.h>

#define FLMEM_HEAP_FOLDER_MAX 256U /* most profiles in one folder */

/* A profile that could not be read. */
struct flmem_heap_unread {
	char *name;
	char reason[FLMEM_ERROR_MESSAGE_MAX];
};

struct flmem_heap_folder {
	struct flmem_heap_profile **profiles; /* sorted by name */
	size_t count;
	size_t baseline; /* index of the profile that all others are compared with */
	struct flmem_heap_unread *unread;
	size_t unread_count;
};

/*
 * Reads the profiles in a folder, without subfolders; other files are ignored. `request` holds the
 * options; its path is not used. `baseline` is the name of a file in the folder, or the path of a
 * file, which may be outside the folder: it is then the first profile. NULL: the first profile with
 * "original", "baseline" or "before" in its name, else the first one. FLMEM_EUSAGE for no folder,
 * no profile, too many profiles, or no such baseline. Release with flmem_heap_folder_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_folder_read(const char *path, const char *baseline,
						      const struct flmem_heap_request *request,
						      struct flmem_heap_folder *ret_folder,
						      struct flmem_error *err);

/* Frees the profiles and zeroes the struct. */
FLMEM_API void flmem_heap_folder_clear(struct flmem_heap_folder *folder);

/* Kinds of findings. X(NAME, text) */
#define FLMEM_HEAP_FINDINGS(X)                                                             \
	X(GROWS, "grows")	/* live bytes of a stack grow with the rounds */           \
	X(MAY_GROW, "may_grow") /* the same, but without rounds or not confirmed by RSS */ \
	X(HOLDS, "holds")	/* one line holds most of the peak */                      \
	X(CHURNS, "churns")	/* one line allocates many times the peak */

enum flmem_heap_finding_kind {
#define FLMEM_HEAP_FINDING_ENUM(name, text) FLMEM_HEAP_FINDING_##name,
	FLMEM_HEAP_FINDINGS(FLMEM_HEAP_FINDING_ENUM)
#undef FLMEM_HEAP_FINDING_ENUM
};

/* Returns the name of a kind ("grows", ...); static text. */
FLMEM_API const char *flmem_heap_finding_name(enum flmem_heap_finding_kind kind);

struct flmem_heap_finding {
	enum flmem_heap_finding_kind kind;
	uint32_t frame; /* index of the line's frame; FLMEM_HEAP_NO_FRAME: stacks without frames */
	/* The program's own line on the stack, or the one with most of `frame`. */
	uint32_t own_frame;
	bool unconfirmed;  /* MAY_GROW: RSS does not show the growth */
	uint64_t bytes;	   /* bytes that grew, are held, or were allocated, by kind */
	double share;	   /* HOLDS: fraction of the peak; CHURNS: multiple of the peak; else 0 */
	double confidence; /* of the growth, 0 to 1; 0 for HOLDS and CHURNS */
};

#define FLMEM_HEAP_FINDINGS_MAX 8U

/*
 * Finds the most important facts of a profile: leaks with the oldest survivors first, then the
 * lines that hold or churn most. FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_heap_findings(const struct flmem_heap_profile *profile,
		    struct flmem_heap_finding ret_findings[FLMEM_HEAP_FINDINGS_MAX],
		    size_t *ret_count, struct flmem_error *err);

#endif
