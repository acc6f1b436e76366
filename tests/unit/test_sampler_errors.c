/* SPDX-License-Identifier: Apache-2.0 */
/* Tests over many runs whether estimates are as near to the true bytes as their errors say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "preload/sampler/sampler.h"
#include "profiler/sampling_error.h"

#define INTERVAL    1000U
#define SITES	    8U
#define RUNS	    1000U
#define SAMPLES_MIN 10

/* The allocations of one thread: blocks of the sizes of the sites, by chance or in turn. */
struct load {
	const char *name;
	uint64_t sizes[SITES], large; /* 0: not used; each twentieth block has the size `large` */
	unsigned blocks, threads;
	bool in_turn;
	double largest_error; /* the largest mean error, in intervals */
};

struct estimate {
	double exact, bytes, count, samples;
};

static uint64_t state_of_choice;

static unsigned choose(unsigned below)
{
	state_of_choice = state_of_choice * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)((state_of_choice >> 33) % below);
}

static unsigned sites_of(const struct load *load)
{
	unsigned count = 0;

	while (count < SITES && load->sizes[count])
		count++;
	return count;
}

static bool allocate_in_thread(const struct load *load, uint64_t seed,
			       struct estimate estimates[SITES])
{
	uint64_t random = seed, remaining = sampler_draw_gap(&random, 0, 0, INTERVAL);
	bool any = false;

	for (unsigned i = 0; i < load->blocks; i++) {
		unsigned site = load->in_turn ? i % sites_of(load) : choose(sites_of(load));
		uint64_t size = load->large && !choose(20) ? load->large : load->sizes[site];
		uint64_t end, bytes, count;

		estimates[site].exact += (double)size;
		if (size <= remaining) {
			remaining -= size;
			continue;
		}
		any = true;
		end = sampler_last_point(random, INTERVAL) + size - remaining;
		sampler_weigh(size, end, INTERVAL, &bytes, &count);
		remaining = sampler_draw_gap(&random, end, INTERVAL, INTERVAL);
		estimates[site].bytes += (double)bytes;
		estimates[site].count += (double)count / FLMEM_PROFILE_COUNT_UNIT;
		estimates[site].samples++;
	}
	return any;
}

static struct flmem_heap_site site_of(const struct estimate *estimate)
{
	struct flmem_heap_site site = {
		.count_variance =
			flmem_sampling_variance_of_count(estimate->samples, estimate->count),
		.twice = fmax(0, estimate->bytes / INTERVAL - estimate->samples),
	};

	site.amounts.bytes[FLMEM_HEAP_ALLOCATED] = (uint64_t)estimate->bytes;
	site.amounts.count[FLMEM_HEAP_ALLOCATED] = (uint64_t)(estimate->count + 0.5);
	return site;
}

struct coverage {
	unsigned intervals, held;
	double error;
};

static void check_estimate(const struct flmem_heap_profile *profile,
			   const struct flmem_heap_sampled_sum *sum, double exact,
			   struct coverage *coverage)
{
	double error = sqrt(flmem_heap_sum_variance(profile, sum));

	coverage->intervals++;
	coverage->held += fabs(sum->bytes - exact) <= 2 * error + 1;
	coverage->error += error / INTERVAL;
}

static void run_load(const struct load *load, uint64_t seed, struct coverage *sites,
		     struct coverage *totals)
{
	struct estimate estimates[SITES] = {{0}};
	struct flmem_heap_profile profile = {
		.interval_bytes = INTERVAL, .interval_now_bytes = INTERVAL, .stratified = true};
	struct flmem_heap_sampled_sum all = {0};
	double exact = 0;

	for (unsigned i = 0; i < load->threads; i++)
		profile.threads += allocate_in_thread(
			load, (seed * 1000 + i + 1) * 0x9e3779b97f4a7c15U, estimates);
	for (unsigned i = 0; i < SITES; i++)
		profile.whole_bytes += (uint64_t)estimates[i].bytes;
	for (unsigned i = 0; i < SITES; i++) {
		struct flmem_heap_site site = site_of(&estimates[i]);
		struct flmem_heap_sampled_sum sum = {0};

		flmem_heap_sum_add(&profile, &site, FLMEM_HEAP_ALLOCATED, &sum);
		if (estimates[i].samples >= SAMPLES_MIN)
			check_estimate(&profile, &sum, estimates[i].exact, sites);
		flmem_heap_sum_add(&profile, &site, FLMEM_HEAP_ALLOCATED, &all);
		exact += estimates[i].exact;
	}
	check_estimate(&profile, &all, exact, totals);
}

/* For each of the first loads the errors of a Poisson process would be 8 intervals of 64. */
static const struct load loads[] = {
	{"one site of small blocks", {20}, .blocks = 3200, .threads = 1, .largest_error = 2},
	{"one site, sizes that divide", {125}, .blocks = 512, .threads = 1, .largest_error = 2},
	{"one site of 0.3", {300}, .blocks = 213, .threads = 1, .largest_error = 2.5},
	{"one site of 0.8", {800}, .blocks = 80, .threads = 1, .largest_error = 4},
	{"one site of 1", {1000}, .blocks = 64, .threads = 1, .largest_error = 1},
	{"one site of 1.3", {1300}, .blocks = 49, .threads = 1, .largest_error = 4},
	{"one site of 1.7", {1700}, .blocks = 37, .threads = 1, .largest_error = 2},
	{"one site of 2", {2000}, .blocks = 32, .threads = 1, .largest_error = 0},
	{"one site of 20", {20000}, .blocks = 32, .threads = 1, .largest_error = 0},
	{"one site of small and large",
	 {50},
	 3000,
	 .blocks = 600,
	 .threads = 1,
	 .largest_error = 99},
	{"many threads", {20}, .blocks = 6, .threads = 2000, .largest_error = 99},
	{"sites by chance",
	 {50, 50, 50, 50, 50, 50, 50, 50},
	 .blocks = 4000,
	 .threads = 1,
	 .largest_error = 5},
	{"sites in turn",
	 {50, 50, 50, 50, 50, 50, 50, 50},
	 .blocks = 4000,
	 .threads = 1,
	 .in_turn = true,
	 .largest_error = 5},
	{"sites in the turn of intervals",
	 {125, 125, 125, 125, 125, 125, 125, 125},
	 .blocks = 4000,
	 .threads = 2,
	 .in_turn = true,
	 .largest_error = 12},
	{"all sizes",
	 {10, 30, 100, 300, 600, 1000, 1500, 3000},
	 .blocks = 3000,
	 .threads = 2,
	 .largest_error = 99},
	{"small and large at each site",
	 {50, 60, 70, 80},
	 2500,
	 .blocks = 3000,
	 .threads = 1,
	 .largest_error = 99},
};

static void test_estimates_are_within_two_errors(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		const struct load *load = &loads[i];
		unsigned runs = RUNS;
		struct coverage sites = {0}, totals = {0};

		state_of_choice = i;
		for (unsigned run = 0; run < runs; run++)
			run_load(load, run + 1, &sites, &totals);
		print_message("%s: %.3f of %u sites, error %.2f; %.3f of totals, error %.2f\n",
			      load->name, (double)sites.held / sites.intervals, sites.intervals,
			      sites.error / sites.intervals, (double)totals.held / totals.intervals,
			      totals.error / runs);
		assert_true(sites.held >= 0.94 * sites.intervals);
		assert_true(totals.held >= 0.94 * totals.intervals);
		assert_true(sites.error <= (load->largest_error + 1e-9) * sites.intervals);
	}
}

/* Older files and dumps have the points of a Poisson process. */
static void test_older_files_keep_their_errors(void **state)
{
	struct flmem_heap_profile profile = {
		.interval_bytes = INTERVAL, .interval_now_bytes = INTERVAL, .threads = 1};
	const struct flmem_heap_site site = site_of(&(struct estimate){0, 64000, 3200, 64});
	struct flmem_heap_sampled_sum sum = {0};

	(void)state;
	profile.whole_bytes = 64000;
	flmem_heap_sum_add(&profile, &site, FLMEM_HEAP_ALLOCATED, &sum);
	assert_true(fabs(sqrt(flmem_heap_sum_variance(&profile, &sum)) / 7960 - 1) < 0.01);
	/* If the interval has changed, points that met a block twice are unknown. */
	profile.stratified = true;
	profile.interval_now_bytes = 2 * INTERVAL;
	sum = (struct flmem_heap_sampled_sum){0};
	flmem_heap_sum_add(&profile, &site, FLMEM_HEAP_ALLOCATED, &sum);
	assert_true(sqrt(flmem_heap_sum_variance(&profile, &sum)) > 10000);
}

/* Returns the variance of blocks of `size` intervals, in square intervals for each of them. */
static double bound_of(double size, bool stratified)
{
	const struct flmem_heap_profile profile = {.interval_bytes = INTERVAL,
						   .interval_now_bytes = INTERVAL,
						   .stratified = stratified};
	struct flmem_heap_site site = {.count_variance = 1e300};
	struct flmem_heap_sampled_sum sum = {0};

	site.amounts.bytes[FLMEM_HEAP_ALLOCATED] = (uint64_t)(size * INTERVAL * 100000);
	site.amounts.count[FLMEM_HEAP_ALLOCATED] = 100000;
	flmem_heap_sum_add(&profile, &site, FLMEM_HEAP_ALLOCATED, &sum);
	return sum.variance / INTERVAL / INTERVAL / 100000;
}

/* Only the mean size of a mixture is known, so the curve has neither steps nor falls. */
static void test_larger_blocks_never_differ_by_less(void **state)
{
	(void)state;
	for (int stratified = 0; stratified < 2; stratified++) {
		double before = bound_of(0.05, stratified);

		for (int i = 11; i <= 400; i++) {
			double bound = bound_of(0.005 * i, stratified);

			assert_true(bound >= before - 1e-4 && bound <= before + 0.006);
			before = bound;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_estimates_are_within_two_errors),
		cmocka_unit_test(test_older_files_keep_their_errors),
		cmocka_unit_test(test_larger_blocks_never_differ_by_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
