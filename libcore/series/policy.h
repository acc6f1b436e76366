/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_POLICY_H
#define FLMEM_SERIES_POLICY_H

/*
 * Decides when to release a process's retained memory. It automates the manual advice of NVFlare's
 * guide to memory management: after every round on clients, after every fifth on servers; less
 * often (1, 2, 5 rounds) while memory is flat, after every round again once it rises or memory is
 * short; not at all while trims are ineffective.
 *
 * The policy only decides: nothing here acts, reads or uses a clock, so every decision can be
 * reproduced from its inputs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/trend.h>
#include <flmem/value.h>

#define FLMEM_POLICY_REASON_MAX 160U

/* Rounds in a row that must be flat before trims become rarer. */
#define FLMEM_POLICY_FLAT_ROUNDS 5U

enum flmem_policy_occasion {
	FLMEM_POLICY_ROUND,	/* a round has ended */
	FLMEM_POLICY_CONDITION, /* the condition is due for a check; the trim depends on it */
	FLMEM_POLICY_PRESSURE,	/* memory pressure has begun */
};

struct flmem_policy_rules {
	unsigned every_rounds; /* initial interval; 1, 2 and 5 adapt, others are fixed */
	bool fixed;	       /* the interval never changes */
	uint64_t cool_down_us; /* minimum between two trims */
	/* Minimum time between two checks of the condition, and after a trim. */
	uint64_t check_us;
	uint64_t min_release_bytes; /* a trim that releases less is ineffective */
	unsigned max_ineffective;   /* ineffective trims in a row that pause trims */
};

/* The inputs of one decision. */
struct flmem_policy_inputs {
	enum flmem_policy_occasion occasion;
	uint64_t now_us;
	uint64_t rss_bytes;
	enum flmem_trend_verdict verdict;
	bool under_pressure;  /* memory is short */
	const char *pressure; /* the reason for `under_pressure`, or NULL */
};

enum flmem_policy_change {
	FLMEM_POLICY_SAME,
	FLMEM_POLICY_INTERVAL_RAISED,  /* trims become rarer */
	FLMEM_POLICY_INTERVAL_LOWERED, /* trims follow every round again */
	FLMEM_POLICY_PAUSED,	       /* trims are paused, because they are ineffective */
	FLMEM_POLICY_RESUMED,
};

struct flmem_policy_decision {
	enum flmem_policy_change change;
	char change_reason[FLMEM_POLICY_REASON_MAX]; /* "" without a change */
	bool trim;
	char trim_reason[FLMEM_POLICY_REASON_MAX]; /* "" without a trim */
};

struct flmem_policy {
	struct flmem_policy_rules rules;
	unsigned every;	 /* current number of rounds between two trims */
	unsigned rounds; /* rounds that have ended since the last trim */
	unsigned flat;	 /* flat rounds in a row */
	unsigned ineffective;
	bool paused;
	bool was_climbing, under_pressure; /* state at the last occasion */
	bool trimmed; /* a trim was made; the members below describe the last one */
	uint64_t trimmed_us, checked_us;
	uint64_t after_bytes; /* resident bytes after it */
};

void flmem_policy_init(struct flmem_policy *policy, const struct flmem_policy_rules *rules);

/*
 * Decides at an occasion. If the decision is to trim, report the result with flmem_policy_done().
 */
void flmem_policy_decide(struct flmem_policy *policy, const struct flmem_policy_inputs *inputs,
			 struct flmem_policy_decision *ret_decision);

/* Whether a check of the condition is allowed now; if not, the caller need not prepare one. */
bool flmem_policy_may_check(const struct flmem_policy *policy, uint64_t now_us);

/*
 * Reports a trim that was made. Do not report a refused one: then the next occasion decides as if
 * it had not been tried. The decision reports when it was the last ineffective trim allowed.
 */
void flmem_policy_done(struct flmem_policy *policy, uint64_t now_us, struct flmem_u64 released,
		       struct flmem_u64 after, struct flmem_policy_decision *ret_decision);

#endif
