/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VERDICT_H
#define FLMEM_VERDICT_H

/*
 * Answers "leak or memory retained by the allocator?": the resident memory of a process by class,
 * and the largest class. docs/guides/verdict.md explains the classes.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/visibility.h>

/* Classes of resident memory; every resident byte is in one. X(NAME, text, meaning) */
#define FLMEM_MEMORY_CLASSES(X)                            \
	X(LIVE, "live", "the program holds it")            \
	X(RETAINED, "retained", "free; trim returns it")   \
	X(FRAGMENTED, "fragmented", "free, but pinned")    \
	X(CACHED, "cached", "free, waiting in caches")     \
	X(RUNTIME, "runtime", "free in a runtime's pools") \
	X(SHARED, "shared", "shared memory, tmpfs")        \
	X(FILE, "file", "pages of files")                  \
	X(UNKNOWN, "unknown", "could not be classified")

enum flmem_memory_class {
#define FLMEM_MEMORY_CLASS_ENUM(name, text, what) FLMEM_MEMORY_##name,
	FLMEM_MEMORY_CLASSES(FLMEM_MEMORY_CLASS_ENUM)
#undef FLMEM_MEMORY_CLASS_ENUM
	FLMEM_MEMORY_CLASS_COUNT,
};

/* Return the name of a class ("live", ...) and a short meaning. Never NULL. */
FLMEM_API const char *flmem_memory_class_name(enum flmem_memory_class which);
FLMEM_API const char *flmem_memory_class_meaning(enum flmem_memory_class which);

/* Bytes by class. They add up to rss_bytes of the same report. */
struct flmem_memory_classes {
	const char *unknown; /* static: why there are no amounts, or NULL */
	uint64_t bytes[FLMEM_MEMORY_CLASS_COUNT];
	/* Bytes possibly in another class: sampling error and contradictions. */
	uint64_t error_bytes;
};

/* Possible verdicts. X(NAME, text) */
#define FLMEM_VERDICTS(X)                   \
	X(LIVE, "live")                     \
	X(RETAINED, "retained")             \
	X(FRAGMENTED, "fragmented")         \
	X(CACHED, "cached")                 \
	X(RUNTIME, "runtime")               \
	X(SHARED_OR_FILE, "shared-or-file") \
	X(MIXED, "mixed")

enum flmem_verdict_kind {
	FLMEM_VERDICT_NONE = 0,
#define FLMEM_VERDICT_ENUM(name, text) FLMEM_VERDICT_##name,
	FLMEM_VERDICTS(FLMEM_VERDICT_ENUM)
#undef FLMEM_VERDICT_ENUM
};

/* Returns the name of a verdict; NULL for FLMEM_VERDICT_NONE. */
FLMEM_API const char *flmem_verdict_name(enum flmem_verdict_kind kind);

/* A command to run next, and its purpose. */
struct flmem_advice {
	char *command;
	char *purpose;
};

struct flmem_verdict {
	enum flmem_verdict_kind kind;
	const char *unknown; /* static: why there is no verdict, or NULL */
	struct flmem_memory_classes classes;
	unsigned confidence_percent; /* 0 to 100 */
	char **reasons;		     /* sentences, most important first */
	size_t reason_count;
	struct flmem_advice *next;
	size_t next_count;
};

/* Returns "high" from 90 percent on, "medium" from 60 on, else "low". */
FLMEM_API const char *flmem_confidence_word(unsigned percent);

#endif
