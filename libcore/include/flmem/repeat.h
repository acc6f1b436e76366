/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPEAT_H
#define FLMEM_REPEAT_H

/*
 * Trims processes again and again, at intervals or when a condition holds, until they end, until it
 * brings nothing any more, or until it is told to stop.
 *
 * A process that is looked at is only read, unless the condition needs what only its allocator can
 * tell (then that is asked as by flmem/detect.h); each trim is one of flmem/trim.h. After a trim
 * the process is left alone for the cool-down. A trim that releases less than `least_bytes` was in
 * vain: each one in a row doubles the pause (the cool-down, at least the interval of looks), and
 * after `in_vain_max` of them the process is given up.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/condition.h>
#include <flmem/error.h>
#include <flmem/trim.h>

/*
 * X(NAME, text). TRIMMED: a trim was made, `result` says what it brought. REFUSED: it was not safe
 * now and is tried again. UNDECIDED: the condition cannot be decided, told once per reason.
 * DROPPED: a trim is refused for good, the other processes go on. GIVEN_UP: trims have brought
 * nothing. DONE: as many trims as were asked for. ENDED: the process has.
 */
#define FLMEM_REPEAT_EVENTS(X)    \
	X(TRIMMED, "trimmed")     \
	X(REFUSED, "refused")     \
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

/* "trimmed", ...; never NULL. */
FLMEM_API const char *flmem_repeat_event_name(enum flmem_repeat_event_kind kind);

struct flmem_repeat_event {
	enum flmem_repeat_event_kind kind;
	uint64_t time_us; /* since 1970, UTC */
	pid_t pid;
	const char *reason;			/* why, or NULL */
	const struct flmem_trim_result *result; /* of a trim that was tried, else NULL */
};

struct flmem_repeat_options {
	struct flmem_trim_options trim;	    /* of each; start_time is not used */
	const struct flmem_condition *when; /* NULL: always */
	uint64_t every_us;		    /* between two looks; 0: the default */
	uint64_t cool_down_us;		    /* between two trims of one process, at least */
	uint64_t count;			    /* trims of each process; 0: no limit */
	uint64_t least_bytes; /* a trim that releases less was in vain; 0: the default */
	unsigned in_vain_max; /* 0: the default */
	int stop_fd;	      /* becomes readable when it is to end; -1: none */
	void (*tell)(const struct flmem_repeat_event *event, void *data);
	void *data;
};

#define FLMEM_REPEAT_EVERY_US_DEFAULT	 5000000U
#define FLMEM_REPEAT_LEAST_BYTES_DEFAULT ((uint64_t)1 << 20)
#define FLMEM_REPEAT_IN_VAIN_MAX_DEFAULT 3U
#define FLMEM_REPEAT_COOL_DOWN_US_MAX	 UINT64_C(86400000000)

/*
 * Looks at the processes at once and then every `every_us`. `start_times` says which processes are
 * meant (clock ticks after boot; 0: whichever has the number now). 0 when it was told to stop, or
 * when no process is left of which a trim was or could be made; the code of the refusal when all
 * were refused for good, FLMEM_EPARTLY when some were.
 */
FLMEM_API int flmem_repeat(const pid_t *pids, const uint64_t *start_times, size_t count,
			   const struct flmem_repeat_options *options, struct flmem_error *err);

#endif
