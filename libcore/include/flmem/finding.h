/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FINDING_H
#define FLMEM_FINDING_H

/*
 * Results of flmem/recommend.h: rules, findings with their corrections, unchecked inputs, and the
 * collection of all for one run. Rules are constant; the rest owns its strings and is released with
 * flmem_recommendations_clear().
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/oom.h>
#include <flmem/roles.h>
#include <flmem/text.h>
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

/* "error", ...; static, NULL for other values. */
FLMEM_API const char *flmem_severity_name(enum flmem_severity severity);

/* The severity of a name; FLMEM_EUSAGE with the list of names for an invalid one. */
FLMEM_API FLMEM_MUST_CHECK int
flmem_severity_find(const char *name, enum flmem_severity *ret_severity, struct flmem_error *err);

struct flmem_rule {
	const char *id; /* "NVF-SRV-GC-OFF"; stable */
	enum flmem_severity severity;
	enum flmem_framework framework; /* NONE: any */
	const char *since;     /* first version of the framework to which it applies; NULL: all */
	const char *before;    /* first version to which it no longer applies; NULL: none */
	bool certain;	       /* applies only if the version is known */
	bool fixable;	       /* can be corrected without a decision by the user */
	const char *condition; /* what it detects */
	const char *message;   /* effect and remedy; one sentence without a full stop */
	const char *source;    /* of the advice */
};

/* Replacement of the bytes [start, end) of a file. */
struct flmem_edit {
	size_t start, end;
	char *text;
};

struct flmem_finding {
	const struct flmem_rule *rule;
	enum flmem_severity severity; /* that of the rule, possibly changed for this version */
	char *message;
	char *file;	/* or "process 4711" */
	unsigned line;	/* from 1; 0: about a process or a recording */
	char *path;	/* path of the value: workflows[0].args.memory_gc_rounds */
	char *current;	/* value in the file; NULL: absent */
	bool in_bytes;	/* `current` is a number of bytes */
	char *proposed; /* NULL: no proposal */
	bool fixable;	/* `edit` writes `proposed` and changes nothing else */
	bool in_python; /* the value is in Python, also of a notebook, which is never written */
	struct flmem_edit edit;
};

/* The current value for people: bytes as a size, "absent" without one. Not escaped. */
FLMEM_API const char *flmem_finding_current(const struct flmem_finding *finding,
					    char shown[FLMEM_TEXT_BYTES_MAX]);

/* An input that could not be checked, or not completely. */
struct flmem_input_problem {
	char *file;
	unsigned line; /* 0: the file as a whole */
	int code;      /* enum flmem_code */
	bool warning;  /* not an error: no rule applies to its contents */
	char *message;
};

struct flmem_watch_summary;

/* A checked recording and its summary (flmem/watch.h). */
struct flmem_checked_recording {
	char *file;
	struct flmem_watch_summary *summary;
};

/* A checked log and its contents. */
struct flmem_checked_oom_log {
	char *file;
	struct flmem_oom_log log; /* no kills: not a kernel log */
	struct flmem_gpu_oom gpu;
};

/*
 * Executors of the checked NVFlare jobs whose trainers take variables of their environment instead
 * of the job's settings: those that start a separate process, before 2.9.
 */
struct flmem_trainer_facts {
	size_t count;
	size_t unclear;			/* of these: memory_gc_rounds is unreadable */
	uint64_t gc_lowest, gc_highest; /* memory_gc_rounds of those that set it; 0: none does */
	size_t cuda_count;		/* of these: with cuda_empty_cache */
};

/* A plan with which the memory limits in files were compared. */
struct flmem_held_plan {
	const char *strategy; /* static; NULL: none was given */
	uint64_t server_peak_bytes, client_peak_bytes;
	uint64_t simulator_bytes; /* 0: it is not for a simulator */
	size_t limits;		  /* limits that could be compared with its peaks */
};

struct flmem_recommendations {
	struct flmem_finding *findings; /* by file and line */
	size_t finding_count;
	struct flmem_input_problem *problems;
	size_t problem_count;
	size_t file_count;	 /* checked files and processes */
	size_t process_count;	 /* of these */
	size_t left_out_count;	 /* findings beyond the maximum of 10,000; a problem reports them */
	size_t suppressed_count; /* findings suppressed by a comment or .flmem-recommend.yaml */
	struct flmem_held_plan held_plan;
	/* memory_gc_rounds in force in the checked NVFlare jobs; unknown if they differ. */
	struct flmem_u64 server_gc_rounds, client_gc_rounds;
	/* 1: in force in all checked jobs that set it; 0: not in all. */
	struct flmem_u64 clear_cache;	   /* of the calls of the client API's send() */
	struct flmem_u64 cuda_empty_cache; /* of the clients' executors */
	struct flmem_trainer_facts trainers;
	bool disk_offload; /* a checked job has enable_tensor_disk_offload */
	struct flmem_checked_recording *recordings;
	size_t recording_count;
	struct flmem_checked_oom_log *oom_logs;
	size_t oom_log_count;
};

/* Frees the contents and empties the struct. */
FLMEM_API void flmem_recommendations_clear(struct flmem_recommendations *recommendations);

#endif
