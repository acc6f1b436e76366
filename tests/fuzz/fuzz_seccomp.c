/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target's seccomp filter. The evaluator must end, agree with a plain interpreter when everything
 * is known, and name every action that a call comes to that fits what is known.
 */
#include "../unit/bpf_machine.h"
#include "fuzz.h"
#include "remote/seccomp/seccomp_filter.h"

#define CALLS 16

static bool is_covered(const struct flmem_filter_outcome *outcome, uint32_t verdict)
{
	struct flmem_filter_outcome one = {0};

	flmem_filter_outcome_add(&one, verdict);
	return (outcome->actions & one.actions) == one.actions &&
	       (one.actions != 1U << FLMEM_FILTER_ERRNO || outcome->errors_differ ||
		outcome->error == one.error);
}

static bool is_single(unsigned bits)
{
	return bits && !(bits & (bits - 1));
}

/* Draws a call that agrees with the known bits; the numbers only have to depend on the input. */
static void draw(const struct flmem_filter_input *input, uint64_t *seed, struct seccomp_data *data)
{
	uint32_t words[FLMEM_FILTER_WORDS];

	for (size_t i = 0; i < FLMEM_FILTER_WORDS; i++) {
		*seed = *seed * 6364136223846793005U + 1442695040888963407U;
		words[i] = input->words[i].value |
			   (input->words[i].open & (uint32_t)(*seed >> (*seed >> 61 << 2)));
	}
	memcpy(data, words, sizeof(*data));
}

static void check_exact(const struct sock_filter *program, size_t length,
			const struct seccomp_data *data)
{
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;
	uint32_t words[FLMEM_FILTER_WORDS];

	memcpy(words, data, sizeof(words));
	for (size_t i = 0; i < FLMEM_FILTER_WORDS; i++)
		input.words[i] = (struct flmem_filter_word){.value = words[i]};
	flmem_filter_run(program, length, &input, &outcome);
	if (!is_single(outcome.actions) || outcome.errors_differ ||
	    !is_covered(&outcome, bpf_run(program, length, data)))
		abort();
}

/* The first 16 words select the known bits, the next ones are their values. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_filter_input input = {0};
	struct flmem_filter_outcome outcome;
	struct seccomp_data call;
	uint32_t words[2 * FLMEM_FILTER_WORDS] = {0};
	struct sock_filter *program;
	uint64_t seed = size;
	size_t length;

	if (size < sizeof(words))
		return 0;
	memcpy(words, data, sizeof(words));
	for (size_t i = 0; i < FLMEM_FILTER_WORDS; i++) {
		input.words[i].open = words[i];
		input.words[i].value = words[FLMEM_FILTER_WORDS + i] & ~words[i];
		seed = seed * 31 + words[i];
	}
	size -= sizeof(words);
	length = size / sizeof(*program);
	program = malloc(size + 1);
	if (!program)
		abort();
	memcpy(program, data + sizeof(words), length * sizeof(*program));
	flmem_filter_run(program, length, &input, &outcome);
	for (int i = 0; i < CALLS; i++) {
		draw(&input, &seed, &call);
		check_exact(program, length, &call);
		if (!is_covered(&outcome, bpf_run(program, length, &call)))
			abort();
	}
	free(program);
	return 0;
}
