/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests trends, phases, steps, and the decisions of the policy of trims against kept texts
 * (kept.h), for histories that look random and are the same in every run.
 */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/trend.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "kept.h"
#include "series.h"
#include "series/history.h"
#include "series/policy.h"
#include "series/robust.h"
#include "series/steps.h"

#define MIB	   1048576.0
#define LEVEL	   (400 * MIB)
#define POINTS_MAX 400U

struct course {
	struct flmem_trend_point points[POINTS_MAX];
	size_t count;
	uint64_t state;
};

static double pick(struct course *c, const double *values, size_t count)
{
	return values[(size_t)(noise_uniform(&c->state) * (double)count)];
}

#define PICK(c, ...) \
	pick((c), (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static uint64_t whole_bytes(double bytes)
{
	return bytes > 0 ? (uint64_t)bytes : 0;
}

static void add(struct course *c, size_t at, double bytes)
{
	c->points[at].bytes = whole_bytes((double)c->points[at].bytes + bytes);
}

/* Chooses the level, slope and noise of a course. */
static void begin_course(struct course *c)
{
	double growth = PICK(c, 0, 0, 0.0001, -0.0001, 0.0005, -0.001, 0.003, -0.004, 0.02) * LEVEL;
	double noise = PICK(c, 0, 0.0002, 0.0002, 0.002, 0.01, 0.05) * LEVEL;
	double step_us = PICK(c, 1e6, 30e6, 75e6, 110e6, 600e6);
	double round_s = PICK(c, 0.2, 1, 1, 1, 3);

	c->count = (size_t)PICK(c, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 20, 24, 25, 29, 30, 31, 48,
				60, 63, 64, 65, 100, 127, 128, 129, 200, 400);
	for (size_t i = 0; i < c->count; i++)
		c->points[i] = (struct flmem_trend_point){
			.at_us = (uint64_t)(step_us * (double)i),
			.round = (uint64_t)(round_s * (double)i),
			.bytes = whole_bytes(LEVEL + growth * (double)i +
					     noise * noise_normal(&c->state)),
		};
}

/* Adds steps, a ramp that ends or begins, teeth and outliers to a course. */
static void bend_course(struct course *c)
{
	double what = PICK(c, 0, 0, 1, 1, 2, 3, 4, 5);
	double height = PICK(c, 1, 5, 9, 20, 40, -8, -30) * MIB;
	size_t at = (size_t)(noise_uniform(&c->state) * (double)c->count);
	size_t period = 3 + (size_t)(noise_uniform(&c->state) * 12);

	for (size_t i = 0; i < c->count; i++) {
		if (what == 1 && i >= at)
			add(c, i, height);
		else if (what == 2)
			add(c, i, height / 8 * (double)(i < at ? i : at));
		else if (what == 3 && i > at)
			add(c, i, height / 8 * (double)(i - at));
		else if (what == 4)
			add(c, i, height / 4 * (double)(i % period));
		else if (what == 5 && i % period == 1)
			add(c, i, 10 * height);
	}
}

static void put_number(struct flmem_buf *out, const char *name, const struct flmem_i64 *number)
{
	if (number->unknown)
		flmem_buf_printf(out, " %s -", name);
	else
		flmem_buf_printf(out, " %s %" PRId64, name, number->value / 4096);
}

static void put_seconds(struct flmem_buf *out, const struct flmem_u64 *number)
{
	if (number->unknown)
		flmem_buf_printf(out, " [%.12s]", number->unknown);
	else
		flmem_buf_printf(out, " %.4g", (double)number->value);
}

static void put_trend(struct flmem_buf *out, const struct course *c, enum flmem_trend_basis basis)
{
	struct flmem_forecast forecast;
	struct flmem_trend t;

	flmem_trend_measure(c->points, c->count, basis, &t);
	flmem_buf_printf(out, "%c %zu/%zu %s %.3f", basis == FLMEM_TREND_BY_ROUND ? 'r' : 'h',
			 t.points, c->count, flmem_trend_verdict_name(t.verdict), t.confidence);
	put_number(out, "round", &t.growth_per_round_bytes);
	put_number(out, "hour", &t.growth_per_hour_bytes);
	put_number(out, "low", &t.low_bytes);
	put_number(out, "high", &t.high_bytes);
	put_number(out, "step", &t.step_bytes);
	flmem_trend_forecast(&t, FLMEM_KNOWN(UINT64_C(300) << 20), &forecast);
	put_seconds(out, &forecast.exhausted_in_s);
	put_seconds(out, &forecast.exhausted_earliest_s);
	put_seconds(out, &forecast.exhausted_in_rounds);
	flmem_buf_printf(out, " %s\n", t.reason);
}

static void put_trends(uint64_t seed, struct flmem_buf *out)
{
	struct course c = {.state = seed * 2654435761U + 99};

	begin_course(&c);
	bend_course(&c);
	if (seed % 3 == 0)
		bend_course(&c);
	put_trend(out, &c, FLMEM_TREND_BY_ROUND);
	put_trend(out, &c, FLMEM_TREND_BY_HOUR);
}

static void trends_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("trends", 260, 3000, put_trends);
}

/*
 * Writes the results for memory that moves in large pieces. Most of its slopes are 0, and so are
 * bounds of the interval.
 */
static void put_plateaus(uint64_t seed, struct flmem_buf *out)
{
	struct course c = {.state = seed * 2654435761U + 41};
	uint64_t piece;

	begin_course(&c);
	piece = (uint64_t)(PICK(&c, 2, 4, 8, 16, 64) * MIB);
	/* No point may be at the bound of a piece, where rounding would decide. */
	for (size_t i = 0; i < c.count; i++)
		c.points[i].bytes = (c.points[i].bytes + (1U << 15)) / piece * piece;
	put_trend(out, &c, FLMEM_TREND_BY_ROUND);
	put_trend(out, &c, FLMEM_TREND_BY_HOUR);
}

static void plateaus_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("plateaus", 100, 2000, put_plateaus);
}

static void forecasts_have_their_reasons(void **state)
{
	const struct flmem_u64 none = FLMEM_UNKNOWN("no limit"), room = FLMEM_KNOWN(1 << 30);
	static const int64_t rates[] = {-5, 0, 1, 1 << 10, 1 << 30};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (int verdict = 0; flmem_trend_verdict_name((enum flmem_trend_verdict)verdict) &&
			      verdict <= FLMEM_TREND_TOO_EARLY;
	     verdict++)
		for (size_t i = 0; i < 25; i++)
			for (int known = 0; known < 4; known++) {
				struct flmem_trend t = {
					.verdict = (enum flmem_trend_verdict)verdict,
					.basis = known & 1 ? FLMEM_TREND_BY_ROUND
							   : FLMEM_TREND_BY_HOUR,
					.reason = "the reason",
					.growth_per_round_bytes = {.value = rates[i / 5]},
					.growth_per_hour_bytes = {.value = rates[i % 5]},
					.high_bytes = {.value = 2 * rates[i / 5]}};
				struct flmem_forecast f;

				if (!(known & 1))
					t.growth_per_round_bytes.unknown = "no rounds were seen";
				flmem_trend_forecast(&t, known & 2 ? none : room, &f);
				put_seconds(&out, &f.exhausted_in_s);
				put_seconds(&out, &f.exhausted_earliest_s);
				put_seconds(&out, &f.exhausted_in_rounds);
				flmem_buf_putc(&out, '\n');
			}
	kept_compare("forecasts.txt", &out);
}

struct points {
	double x[FLMEM_ROBUST_POINTS_MAX], y[FLMEM_ROBUST_POINTS_MAX];
	unsigned char segment[FLMEM_ROBUST_POINTS_MAX];
	size_t count;
	/* Two models are equal, and the rounding of the compiler decides which is found. */
	bool ties;
};

/* Makes points of noise on a slope, with up to three steps. */
static void fill_points(struct points *p, uint64_t seed)
{
	uint64_t noise = seed * 2654435761U + 7;
	double height = 40 * (double)(seed % 4);

	p->count = 1 + seed % FLMEM_ROBUST_POINTS_MAX;
	p->ties = seed % 4 == 0;
	for (size_t i = 0; i < p->count; i++) {
		int steps = (i > p->count / 3) + (i > p->count / 2) +
			    (seed % 7 == 1 && i > p->count * 3 / 4);
		double off = 4 * noise_normal(&noise);

		p->x[i] = floor((double)i / (seed % 5 == 0 ? 2 : 1));
		p->y[i] = (p->ties ? floor(off) : off) + (double)(seed % 3) * p->x[i] +
			  height * (double)steps;
		p->segment[i] = (unsigned char)(i * (1 + seed % 3) / p->count);
	}
}

static void put_slopes(struct flmem_buf *out, const struct points *p)
{
	const struct flmem_curve curve = {
		.x = p->x, .y = p->y, .segment = p->segment, .count = p->count};
	double sorted[FLMEM_ROBUST_POINTS_MAX];
	struct flmem_slope slope;

	memcpy(sorted, p->y, sizeof(sorted));
	flmem_buf_printf(out, "%zu: median %.4g", p->count, flmem_robust_median(sorted, p->count));
	for (size_t k = 0; k < p->count; k += 5)
		flmem_buf_printf(out, " %.4g", flmem_robust_select(sorted, p->count, k));
	flmem_robust_trend(&curve, &slope);
	flmem_buf_printf(out, "; slope %.4g = %.4g, %.4g to %.4g, p %.3g",
			 flmem_robust_slope(&curve), slope.slope, slope.low, slope.high,
			 slope.p_value);
}

static void put_steps(struct flmem_buf *out, const struct points *p, double height)
{
	struct flmem_steps steps;

	if (p->count <= 6 || p->ties)
		return;
	flmem_steps_find(p->x, p->y, p->count, height, &steps);
	flmem_buf_puts(out, "; steps");
	for (size_t i = 0; i < steps.count; i++)
		flmem_buf_printf(out, " %.4g", steps.height[i]);
	for (size_t i = 1; i < p->count; i++)
		if (steps.segment[i] != steps.segment[i - 1])
			flmem_buf_printf(out, " @%zu", i);
	flmem_buf_printf(out, " evidence %.4g", steps.evidence);
}

/* Writes the medians, slopes and jumps of short curves. */
static void put_curve(uint64_t seed, struct flmem_buf *out)
{
	struct points points = {.count = 0};

	fill_points(&points, seed);
	put_slopes(out, &points);
	put_steps(out, &points, seed % 2 ? 10 : 30);
	flmem_buf_putc(out, '\n');
}

static void curves_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("curves", 150, 5000, put_curve);
}

static void put_history(uint64_t seed, struct flmem_buf *out)
{
	static const uint64_t widths[] = {1, 1000, 250000};
	static struct flmem_history history;
	uint64_t noise = seed * 2654435761U + 3, at_us = 0;
	size_t samples = (size_t)(seed * seed % 23 * 17);
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	size_t count;

	flmem_history_init(&history, widths[seed % 3]);
	for (size_t i = 0; i < samples; i++) {
		double swing = (double)(seed % 4) * 0.4 * MIB * (double)(i % 7);

		at_us += (uint64_t)(noise_uniform(&noise) * 300000);
		flmem_history_add(&history, at_us,
				  (uint64_t)((seed % 5 ? 20 : 300) * MIB + swing +
					     MIB * noise_uniform(&noise)) &
					  ~UINT64_C(0xffff));
	}
	count = flmem_history_points(&history, points);
	flmem_buf_printf(out, "%zu samples, %zu spans of %" PRIu64 ":", samples, history.count,
			 history.width_us);
	for (size_t i = 0; i < count; i++)
		flmem_buf_printf(out, " %" PRIu64 "/%" PRIu64 "/%" PRIu64, points[i].at_us,
				 points[i].round, points[i].bytes >> 16);
	flmem_buf_putc(out, '\n');
}

static void histories_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("histories", 30, 3000, put_history);
}

static void phases_turn_at_their_bound(void **state)
{
	static const uint64_t levels[] = {50, 100, 101, 150, 1000};
	static struct flmem_history history;
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t l = 0; l < FLMEM_ARRAY_SIZE(levels); l++)
		for (int64_t off = -1; off <= 1; off++) {
			uint64_t low = levels[l] << 20;
			uint64_t least = low / 100 > 1U << 20 ? low / 100 : 1U << 20;
			struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
			size_t count;

			flmem_history_init(&history, 1);
			for (uint64_t i = 0; i < 64; i++)
				flmem_history_add(&history, i * 10,
						  low + (i % 2 ? least + (uint64_t)off : 0));
			count = flmem_history_points(&history, points);
			for (size_t i = 0; i < count; i++)
				flmem_buf_printf(&out, " %" PRIu64, points[i].round);
			flmem_buf_putc(&out, '\n');
		}
	kept_compare("phases.txt", &out);
}

static void put_decision(struct flmem_buf *out, size_t at, const struct flmem_policy *p,
			 const struct flmem_policy_decision *d)
{
	if (!d->change && !d->trim && !*d->change_reason && !*d->trim_reason)
		return;
	flmem_buf_printf(out, "%zu %d %s%s%s every %u\n", at, (int)d->change, d->change_reason,
			 d->trim ? " TRIM " : " ", d->trim_reason, p->every);
}

/*
 * Runs the policy on times and sizes that are small numbers, so that they often are at the bounds.
 */
static void walk_policy(const struct flmem_policy_rules *rules, uint64_t seed,
			struct flmem_buf *out)
{
	struct course c = {.state = seed * 2654435761U + 5};
	struct flmem_policy_decision d;
	struct flmem_policy p;
	uint64_t now_us = 0;
	int checks = 0;

	flmem_policy_init(&p, rules);
	for (size_t i = 0; i < 150; i++) {
		struct flmem_policy_inputs inputs = {.verdict = FLMEM_TREND_FLAT,
						     .pressure = "pressure"};
		struct flmem_u64 released, after;

		/*
		 * Each number has its own statement: a compiler chooses the order within an
		 * initialiser.
		 */
		inputs.occasion = (enum flmem_policy_occasion)PICK(&c, 0, 0, 0, 0, 1, 1, 2);
		inputs.now_us = now_us += (uint64_t)PICK(&c, 0, 1, 1, 2, 3, 10);
		inputs.rss_bytes = (uint64_t)PICK(&c, 90, 100, 109, 110, 111, 115, 120, 121, 150);
		if (noise_uniform(&c.state) > 0.8)
			inputs.verdict = (enum flmem_trend_verdict)PICK(&c, 0, 1, 2, 3, 4);
		inputs.under_pressure = noise_uniform(&c.state) < 0.05;
		checks += flmem_policy_may_check(&p, now_us);
		flmem_policy_decide(&p, &inputs, &d);
		put_decision(out, i, &p, &d);
		if (!d.trim || noise_uniform(&c.state) < 0.1)
			continue;
		released = FLMEM_KNOWN((uint64_t)PICK(&c, 0, 4, 9, 10, 11));
		if (noise_uniform(&c.state) < 0.1)
			released = FLMEM_UNKNOWN("x");
		after = FLMEM_KNOWN((uint64_t)PICK(&c, 90, 100, 110));
		if (noise_uniform(&c.state) < 0.1)
			after = FLMEM_UNKNOWN("x");
		flmem_policy_done(&p, now_us, released, after, &d);
		put_decision(out, i, &p, &d);
	}
	flmem_buf_printf(out, "%d checks\n", checks);
}

static void policies_are_as_kept(void **state)
{
	static const struct flmem_policy_rules rules[] = {
		{.every_rounds = 1, .check_us = 3, .min_release_bytes = 10, .max_ineffective = 3},
		{.every_rounds = 2,
		 .cool_down_us = 3,
		 .check_us = 2,
		 .min_release_bytes = 10,
		 .max_ineffective = 1},
		{.every_rounds = 5, .check_us = 10, .min_release_bytes = 4, .max_ineffective = 2},
		{.every_rounds = 3, .fixed = true, .cool_down_us = 1, .max_ineffective = 2},
		{.every_rounds = 1, .fixed = true, .min_release_bytes = 10},
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rules); i++)
		for (uint64_t seed = 1; seed <= 4; seed++)
			walk_policy(&rules[i], seed, &out);
	kept_compare("policies.txt", &out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trends_are_as_kept),
		cmocka_unit_test(plateaus_are_as_kept),
		cmocka_unit_test(forecasts_have_their_reasons),
		cmocka_unit_test(curves_are_as_kept),
		cmocka_unit_test(histories_are_as_kept),
		cmocka_unit_test(phases_turn_at_their_bound),
		cmocka_unit_test(policies_are_as_kept),
	};

	return cmocka_run_group_tests_name("kept_series", tests, NULL, NULL);
}
