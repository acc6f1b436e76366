/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPEAT_H
#define FLMEM_REPEAT_H

/*
 * Trims processes repeatedly, at intervals or when a condition holds, until they end, until trims
 * stay ineffective, or until the caller requests a stop.
 *
 * A check only reads the process, unless the condition needs a figure that only its allocator knows
 * (then the allocator is called as in flmem/detect.h); each trim is one of flmem/trim.h. After a
 * trim the process is not touched during the cool-down. A trim that releases less than
 * `min_release_bytes` is ineffective: each one in a row doubles the pause (the cool-down, at least
 * the interval between checks), and after `max_ineffective` of them trims of the process stop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/condition.h>
#include <flmem/error.h>
#include <flmem/trim.h>

/*
 * X(NAME, text). TRIMMED: a trim was made, `result` holds the figures. REFUSED: a trim was not safe
 * now and will be tried again. UNDECIDED: the condition cannot be decided, reported once per
 * reason. DROPPED: a trim is refused permanently, the other processes continue. GIVEN_UP: too many
 * ineffective trims in a row. WAITING: the condition does not hold yet, reported once for each
 * process. DONE: the requested number of trims was made. ENDED: the process has exited.
 */
#define FLMEM_REPEAT_EVENTS(X)    \
	X(TRIMMED, "trimmed")     \
	X(REFUSED, "refused")     \
	X(WAITING, "waiting")     \
	X(UNDECIDED, "undecided") \
	X(DROPPED, "dropped")     \
	X(GIVEN_UP, "given-up")   \
	X(DONE, "done")           \
	X(ENDED, "ended")

enum flmem_repeat_event_kind {
#define FLMEM_REPEAT_EVENT_ENUM(name, text) FLMEM_REPEAT_##name,
	FLMEM_REPEAT_EVENTS(FLMEM_REPEAT_EVENT_ENUM)
#undef FLMEM_REPEAT_EVENT_ENUM
};

/* Returns the name of a kind ("trimmed", ...); never NULL. */
FLMEM_API const char *flmem_repeat_event_name(enum flmem_repeat_event_kind kind);

struct flmem_repeat_event {
	enum flmem_repeat_event_kind kind;
	uint64_t time_us; /* time of the event, since 1970-01-01 UTC */
	pid_t pid;
	const char *reason; /* reason of a refusal or of an undecided condition, or NULL */
	const struct flmem_trim_result *result; /* result of the attempted trim; NULL without one */
};

struct flmem_repeat_options {
	struct flmem_trim_options trim;	    /* options of each trim; start_time is not used */
	const struct flmem_condition *when; /* trim only while this holds; NULL: always */
	uint64_t every_us;		    /* time between two checks; 0: the default */
	uint64_t cool_down_us;		    /* minimum time between two trims of one process */
	uint64_t count;			    /* trims to make of each process; 0: no limit */
	uint64_t min_release_bytes; /* a trim that releases less is ineffective; 0: the default */
	/* Ineffective trims in a row before trims of a process stop; 0: the default. */
	unsigned max_ineffective;
	int stop_fd; /* file descriptor that becomes readable to request the end; -1: none */
	void (*on_event)(const struct flmem_repeat_event *event, void *data);
	void *data;
};

#define FLMEM_REPEAT_EVERY_US_DEFAULT	       5000000U
#define FLMEM_REPEAT_MIN_RELEASE_BYTES_DEFAULT ((uint64_t)1 << 20)
#define FLMEM_REPEAT_MAX_INEFFECTIVE_DEFAULT   3U
#define FLMEM_REPEAT_COOL_DOWN_US_MAX	       UINT64_C(86400000000)

/*
 * Trims the processes repeatedly. It checks them immediately and then every `every_us`.
 * `start_times` identifies the processes (clock ticks after boot; 0: any process with the PID).
 * Returns 0 when a stop was requested, or when no process is left for which a trim was or could be
 * made; the code of the refusal when all were refused permanently, FLMEM_EPARTLY when some were.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_repeat(const pid_t *pids, const uint64_t *start_times,
					    size_t count,
					    const struct flmem_repeat_options *options,
					    struct flmem_error *err);

#endif
