/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_POLICY_H
#define FLMEM_SERIES_POLICY_H

/*
 * When to give a process's retained memory back. It follows what NVFlare's guide to memory
 * management tells its users to do by hand: after every round on clients, after every fifth on
 * servers; less often (1, 2, 5 rounds) while memory is flat, after every round again once it climbs
 * or memory is short; not at all while it brings nothing.
 *
 * It only decides: nothing here acts, reads or knows a clock, so every decision can be repeated
 * from what it was told.
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
	FLMEM_POLICY_CONDITION, /* the condition is to be looked at; the trim depends on it */
	FLMEM_POLICY_PRESSURE,	/* memory has begun to be short */
};

struct flmem_policy_rules {
	unsigned every_rounds; /* between two trims at first: 1, 2 or 5 change, others are fixed */
	bool fixed;	       /* it never changes */
	uint64_t cool_down_us; /* between two trims, at least */
	uint64_t look_us;      /* between two looks at the condition, and after a trim */
	uint64_t least_bytes;  /* a trim that releases less was in vain */
	unsigned in_vain_max;  /* so many in a row, and it rests */
};

/* What is known at an occasion. */
struct flmem_policy_signs {
	enum flmem_policy_occasion occasion;
	uint64_t now_us;
	uint64_t rss_bytes;
	enum flmem_trend_verdict verdict;
	bool pressed;	      /* memory is short */
	const char *pressure; /* what says so, or NULL */
};

enum flmem_policy_change {
	FLMEM_POLICY_SAME,
	FLMEM_POLICY_LOOSENED,	/* trims become rarer */
	FLMEM_POLICY_TIGHTENED, /* after every round again */
	FLMEM_POLICY_RESTING,	/* no trims, as they bring nothing */
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
	unsigned every;	 /* rounds between two trims now */
	unsigned rounds; /* that have ended since the last trim */
	unsigned flat;	 /* rounds in a row */
	unsigned in_vain;
	bool resting;
	bool climbed, pressed; /* at the last occasion */
	bool trimmed;	       /* ever; the rest is of the last time */
	uint64_t trimmed_us, looked_us;
	uint64_t after_bytes; /* resident then */
};

void flmem_policy_init(struct flmem_policy *policy, const struct flmem_policy_rules *rules);

/* An occasion has come. Where a trim is decided, flmem_policy_done() says what became of it. */
void flmem_policy_decide(struct flmem_policy *policy, const struct flmem_policy_signs *signs,
			 struct flmem_policy_decision *ret_decision);

/* Whether an occasion to look at the condition would be taken; that saves preparing it. */
bool flmem_policy_may_look(const struct flmem_policy *policy, uint64_t now_us);

/*
 * A trim was made. A refused one is not told: then the next occasion decides as if it had not been
 * tried. The decision says when it was the last that may bring nothing.
 */
void flmem_policy_done(struct flmem_policy *policy, uint64_t now_us, struct flmem_u64 released,
		       struct flmem_u64 after, struct flmem_policy_decision *ret_decision);

#endif
