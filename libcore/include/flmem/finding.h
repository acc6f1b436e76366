/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FINDING_H
#define FLMEM_FINDING_H

/*
 * Results of flmem/recommend.h: rules, findings with their corrections, inputs that could not be
 * checked, and the collection of all for one run. Rules are constant; the rest owns its strings and
 * is released with flmem_recommendations_clear().
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/oom.h>
#include <flmem/roles.h>
#include <flmem/text.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/* Severities of findings, worst first. X(NAME, text) */
#define FLMEM_SEVERITIES(X)   \
	X(ERROR, "error")     \
	X(WARNING, "warning") \
	X(INFO, "info")

enum flmem_severity {
#define FLMEM_SEVERITY_ENUM(name, text) FLMEM_SEVERITY_##name,
	FLMEM_SEVERITIES(FLMEM_SEVERITY_ENUM)
#undef FLMEM_SEVERITY_ENUM
};

/* Returns the name of a severity ("error", ...); static, NULL for other values. */
FLMEM_API const char *flmem_severity_name(enum flmem_severity severity);

/* Finds the severity of a name. FLMEM_EUSAGE with the list of names for an invalid one. */
FLMEM_API FLMEM_MUST_CHECK int
flmem_severity_find(const char *name, enum flmem_severity *ret_severity, struct flmem_error *err);

struct flmem_rule {
	const char *id; /* stable identifier, "NVF-SRV-GC-OFF" */
	enum flmem_severity severity;
	enum flmem_framework framework; /* framework that the rule is about; NONE: any */
	const char *since; /* first version of the framework to which the rule applies; NULL: all */
	const char *before;    /* first version to which the rule no longer applies; NULL: none */
	bool certain;	       /* the rule applies only if the version is known */
	bool fixable;	       /* the finding can be corrected without a decision by the user */
	const char *condition; /* what the rule detects */
	const char *message;   /* effect and remedy; one sentence without a full stop */
	const char *source;    /* document that the advice is taken from */
};

/* Replacement of the bytes [start, end) of a file. */
struct flmem_edit {
	size_t start, end;
	char *text;
};

struct flmem_finding {
	const struct flmem_rule *rule;
	enum flmem_severity severity; /* severity of the rule, possibly changed for this version */
	char *message;
	char *file;	/* path of the file, or "process 4711" */
	unsigned line;	/* from 1; 0: about a process or a recording */
	char *path;	/* path of the value: workflows[0].args.memory_gc_rounds */
	char *current;	/* value in the file; NULL: absent */
	bool in_bytes;	/* `current` is a number of bytes */
	char *proposed; /* NULL: no proposal */
	bool fixable;	/* `edit` writes `proposed` and changes nothing else */
	/* The value is in Python code, also of a notebook; notebooks are never written. */
	bool in_python;
	struct flmem_edit edit;
};

/*
 * Returns the current value for people: bytes as a size, "absent" if there is no value. The text is
 * not escaped; it is in `shown` or belongs to the finding.
 */
FLMEM_API const char *flmem_finding_current(const struct flmem_finding *finding,
					    char shown[FLMEM_TEXT_BYTES_MAX]);

/* An input that could not be checked at all, or only in part. */
struct flmem_input_problem {
	char *file;
	unsigned line; /* 0: the file as a whole */
	int code;      /* enum flmem_code */
	bool warning;  /* no error: no rule applies to the contents of the file */
	bool link;     /* a symbolic link to a folder, not followed */
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
	struct flmem_oom_log log; /* its kill count is 0 if the file is not a kernel log */
	struct flmem_gpu_oom gpu;
};

/*
 * Facts about the executors of the checked NVFlare jobs whose trainers take variables of their
 * environment instead of the job's settings: executors that start a separate process, before
 * NVFlare 2.9.
 */
struct flmem_trainer_facts {
	size_t count;
	size_t unclear; /* number of these with an unreadable memory_gc_rounds */
	/* Lowest and highest memory_gc_rounds of those that set it; 0: none does. */
	uint64_t gc_lowest, gc_highest;
	size_t cuda_count; /* number of these with cuda_empty_cache */
};

/* A plan with which the memory limits in files were compared. */
struct flmem_held_plan {
	const char *strategy; /* name of the plan's strategy; static; NULL: no plan was given */
	uint64_t server_peak_bytes, client_peak_bytes;
	uint64_t simulator_bytes; /* 0: the plan is not for a simulator */
	size_t limits; /* number of limits that could be compared with the plan's peaks */
};

struct flmem_recommendations {
	struct flmem_finding *findings; /* sorted by file and line */
	size_t finding_count;
	struct flmem_input_problem *problems;
	size_t problem_count;
	size_t file_count;	 /* number of checked files and processes */
	size_t process_count;	 /* number of checked processes */
	size_t left_out_count;	 /* findings beyond the maximum of 10,000; a problem reports them */
	size_t suppressed_count; /* findings suppressed by a comment or .flmem-recommend.yaml */
	struct flmem_held_plan held_plan;
	/* memory_gc_rounds in force in the checked NVFlare jobs; unknown if they differ. */
	struct flmem_u64 server_gc_rounds, client_gc_rounds;
	/* 1: the setting is in force in all checked jobs that set it; 0: not in all. */
	struct flmem_u64 clear_cache;	   /* clear_cache of the calls of the client API's send() */
	struct flmem_u64 cuda_empty_cache; /* cuda_empty_cache of the clients' executors */
	struct flmem_trainer_facts trainers;
	bool disk_offload; /* a checked job has enable_tensor_disk_offload */
	struct flmem_checked_recording *recordings;
	size_t recording_count;
	struct flmem_checked_oom_log *oom_logs;
	size_t oom_log_count;
};

/* Frees the contents and zeroes the struct. */
FLMEM_API void flmem_recommendations_clear(struct flmem_recommendations *recommendations);

#endif
