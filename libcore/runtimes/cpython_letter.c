/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_letter.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "proc/process.h"
#include "proc/task.h"
#include "runtimes/cpython_padding.h"

#define LOOK_US	     200U
#define LOOK_LONG_US 2000U
#define LONG_US	     100000U
#define END_US	     200000U

/* The answer begins with the cookie, in the place of the head's `done`. */
#define HEAD offsetof(struct flmem_padding_head, done)
_Static_assert(sizeof(((struct flmem_padding_head *)0)->done) == FLMEM_CPYTHON_COOKIE, "one word");

/*
 * Text of an answer: what the steps of a trim print is short; a file's output gets what there is.
 */
static const size_t answer_sizes[] = {2048, 1024, 320};

static int make_text(const struct flmem_cpython_visit *visit, size_t output_max,
		     struct flmem_cpython_letter *letter, size_t *ret_address_at,
		     struct flmem_error *err)
{
	flmem_buf_reset(&letter->text);
	flmem_cpython_source_wrap_start(&visit->call->code, letter->cookie, output_max,
					&letter->text, ret_address_at);
	return letter->text.failed ? flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory") : 0;
}

static void put_address(struct flmem_cpython_letter *letter, size_t address_at)
{
	char digits[17];

	snprintf(digits, sizeof(digits), "%016llx", (unsigned long long)letter->address);
	memcpy(letter->text.data + address_at, digits, 16);
}

/* All of it: there may be an old one, whose answer would be taken for ours. */
static int put(const struct flmem_cpython_visit *visit, bool in_memory,
	       struct flmem_cpython_letter *letter, struct flmem_error *err)
{
	unsigned char bytes[FLMEM_PADDING_MAX] = {0};
	struct flmem_padding_head head = {.length = letter->length};

	memcpy(head.magic, flmem_padding_magic, sizeof(head.magic));
	memcpy(bytes, &head, sizeof(head));
	if (in_memory) {
		letter->source = letter->address + letter->answer_max;
		memcpy(bytes + (letter->source - letter->place), letter->text.data,
		       letter->text.length);
	}
	if (flmem_process_write_memory(visit->view->process, letter->place, bytes, letter->length))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot write to the memory of process %d",
				       (int)visit->view->process->pid);
	return 0;
}

int flmem_cpython_letter_write(const struct flmem_cpython_visit *visit, bool in_memory,
			       struct flmem_cpython_letter *letter, struct flmem_error *err)
{
	size_t address_at = 0;
	int rc = flmem_tasks_read(visit->view->process, &letter->before);

	if (rc)
		return flmem_process_error(visit->view->process, rc, "read the threads", err);
	rc = flmem_cpython_cookie_make(letter->cookie, err);

	for (size_t i = 0; !rc && i < FLMEM_ARRAY_SIZE(answer_sizes); i++) {
		letter->answer_max = FLMEM_CPYTHON_ANSWER_HEAD + answer_sizes[i];
		rc = make_text(visit, answer_sizes[i], letter, &address_at, err);
		if (rc)
			return rc;
		letter->length = HEAD + letter->answer_max + (in_memory ? letter->text.length : 0);
		rc = flmem_padding_find(visit->view, letter->length, &letter->place, err);
		if (!rc)
			break;
		if (i + 1 < FLMEM_ARRAY_SIZE(answer_sizes))
			rc = 0;
	}
	if (rc)
		return rc;
	letter->address = letter->place + HEAD;
	put_address(letter, address_at);
	return put(visit, in_memory, letter, err);
}

static bool take_answer(const struct flmem_cpython_visit *visit,
			const struct flmem_cpython_letter *letter)
{
	unsigned char bytes[FLMEM_PADDING_MAX];
	struct flmem_cpython_result *result = visit->result;

	if (letter->answer_max > sizeof(bytes) ||
	    flmem_process_read_memory(visit->view->process, letter->address, bytes,
				      letter->answer_max) ||
	    !flmem_cpython_answer_parse(bytes, letter->answer_max, letter->cookie, &result->answer))
		return false;
	result->complete = true;
	result->took_us = result->answer.took_ns / 1000U;
	return true;
}

static bool has_new(const struct flmem_cpython_visit *visit, const struct flmem_tasks *before)
{
	FLMEM_AUTO_TASKS struct flmem_tasks now = {0};
	size_t known = 0;

	if (flmem_tasks_read(visit->view->process, &now))
		return false;
	for (size_t i = 0; i < now.count; i++)
		for (size_t k = 0; k < before->count; k++)
			known += now.ids[i] == before->ids[k];
	return known < now.count;
}

/* The target is as it was when flmem is done; its own new threads are not awaited for long. */
static void await_end(const struct flmem_cpython_visit *visit, const struct flmem_tasks *before)
{
	uint64_t start = flmem_clock_us();

	while (has_new(visit, before) && flmem_clock_us() - start < END_US)
		flmem_clock_sleep_us(LOOK_US);
}

int flmem_cpython_letter_await(const struct flmem_cpython_visit *visit,
			       const struct flmem_cpython_letter *letter, struct flmem_error *err)
{
	uint64_t start = flmem_clock_us(), spent = 0;

	while (!take_answer(visit, letter)) {
		spent = flmem_clock_us() - start;
		if (!flmem_process_alive(visit->view->process))
			return flmem_error_set(err, FLMEM_ENOPROC, 0,
					       "process %d ended while the code ran",
					       (int)visit->view->process->pid);
		if (spent > visit->call->timeout_us)
			return flmem_error_set(err, FLMEM_EFAILED, 0, "no answer within %llu ms",
					       (unsigned long long)(spent / 1000U));
		flmem_clock_sleep_us(spent < LONG_US ? LOOK_US : LOOK_LONG_US);
	}
	spent = flmem_clock_us() - start;
	visit->result->waited_us =
		spent > visit->result->took_us ? spent - visit->result->took_us : 0;
	await_end(visit, &letter->before);
	return 0;
}

void flmem_cpython_letter_erase(const struct flmem_cpython_visit *visit,
				const struct flmem_cpython_letter *letter)
{
	static const unsigned char zeros[FLMEM_PADDING_MAX];

	if (letter->place && letter->length <= sizeof(zeros))
		flmem_process_write_memory(visit->view->process, letter->place, zeros,
					   letter->length);
}

void flmem_cpython_letter_clear(struct flmem_cpython_letter *letter)
{
	flmem_buf_clear(&letter->text);
	flmem_tasks_clear(&letter->before);
}
