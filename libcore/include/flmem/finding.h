/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FINDING_H
#define FLMEM_FINDING_H

/*
 * What flmem/recommend.h reports: rules, findings with their corrections, inputs that could not be
 * checked, and all of them together for one run. Rules are constant; the rest owns its strings and
 * is released with flmem_recommendations_clear().
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/oom.h>
#include <flmem/roles.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/* Worst first. X(NAME, text) */
#define FLMEM_SEVERITIES(X)   \
	X(ERROR, "error")     \
	X(WARNING, "warning") \
	X(INFO, "info")

enum flmem_severity {
#define FLMEM_SEVERITY_ENUM(name, text) FLMEM_SEVERITY_##name,
	FLMEM_SEVERITIES(FLMEM_SEVERITY_ENUM)
#undef FLMEM_SEVERITY_ENUM
};

FLMEM_API const char *flmem_severity_name(enum flmem_severity severity);

/* FLMEM_EUSAGE with the list for a name that is none. */
FLMEM_API int flmem_severity_find(const char *name, enum flmem_severity *ret_severity,
				  struct flmem_error *err);

struct flmem_rule {
	const char *id; /* "NVF-SRV-GC-OFF"; stable */
	enum flmem_severity severity;
	enum flmem_framework framework; /* NONE: any */
	const char *since;     /* first version of the framework that it holds for; NULL: all */
	const char *before;    /* first version that it does not hold for any more; NULL: none */
	bool certain;	       /* needs to know the version; else it holds where that is unknown */
	bool fixable;	       /* a correction can be made without a decision by the user */
	const char *condition; /* what it looks for */
	const char *message; /* what that does, and what to do; one sentence without a full stop */
	const char *source;  /* of the advice */
};

/* Bytes [start, end) of a file, and what to put there. */
struct flmem_edit {
	size_t start, end;
	char *text;
};

struct flmem_finding {
	const struct flmem_rule *rule;
	enum flmem_severity severity; /* the rule's, or what it comes to for this version */
	char *message;
	char *file;	/* or "process 4711" */
	unsigned line;	/* from 1; 0: it is about a process, or a recording */
	char *path;	/* way to the value: workflows[0].args.memory_gc_rounds */
	char *current;	/* as the file has it; NULL: absent */
	char *proposed; /* NULL: nothing to write instead */
	bool fixable;	/* `edit` writes `proposed` and changes nothing else */
	struct flmem_edit edit;
};

/* An input that could not be checked, or not wholly. */
struct flmem_input_problem {
	char *file;
	unsigned line; /* 0: the file as a whole */
	int code;      /* enum flmem_code */
	char *message;
};

struct flmem_watch_summary;

/* A recording that was checked, with what it says (flmem/watch.h). */
struct flmem_checked_recording {
	char *file;
	struct flmem_watch_summary *summary;
};

/* A kernel's log that was checked, with what it says. */
struct flmem_checked_oom_log {
	char *file;
	struct flmem_oom_log log;
};

struct flmem_recommendations {
	struct flmem_finding *findings; /* by file and line */
	size_t finding_count;
	struct flmem_input_problem *problems;
	size_t problem_count;
	size_t file_count;     /* files and processes that were checked */
	size_t process_count;  /* of these */
	size_t left_out_count; /* findings beyond the 10,000 that are kept; a problem says so */
	size_t silenced_count; /* findings that a comment or .flmem-recommend.yaml takes out */
	/* memory_gc_rounds in force in NVFlare's jobs that were checked; unknown if they differ. */
	struct flmem_u64 server_gc_rounds, client_gc_rounds;
	/* 1: in force wherever the jobs that were checked can tell; 0: somewhere not. */
	struct flmem_u64 clear_cache;	   /* of the calls of the client API's send() */
	struct flmem_u64 cuda_empty_cache; /* of the clients' executors */
	bool disk_offload; /* some job that was checked has enable_tensor_disk_offload */
	struct flmem_checked_recording *recordings;
	size_t recording_count;
	struct flmem_checked_oom_log *oom_logs;
	size_t oom_log_count;
};

/* Frees what it owns, and makes it empty. */
FLMEM_API void flmem_recommendations_clear(struct flmem_recommendations *recommendations);

#endif
