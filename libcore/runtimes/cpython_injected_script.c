/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_injected_script.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "proc/process.h"
#include "proc/task.h"
#include "runtimes/cpython_padding.h"

#define POLL_US	     200U
#define POLL_LONG_US 2000U
#define LONG_US	     100000U
#define END_US	     200000U
#define CHECK_US     100000U /* pause between two checks while an answer is awaited */

/* Place of the answer: it begins with the cookie, at the offset of the head's `done`. */
#define HEAD offsetof(struct flmem_padding_head, done)
_Static_assert(sizeof(((struct flmem_padding_head *)0)->done) == FLMEM_CPYTHON_COOKIE, "one word");

/*
 * Sizes for the text of an answer, largest first: the steps of a trim need little; a file's output
 * uses the space there is.
 */
static const size_t answer_sizes[] = {2048, 1024, 320};

static int make_text(const struct flmem_cpython_session *session, size_t output_max,
		     struct flmem_cpython_injected *injected, size_t *ret_address_at,
		     struct flmem_error *err)
{
	flmem_buf_reset(&injected->text);
	flmem_cpython_source_wrap_start(&session->call->code, injected->cookie, output_max,
					&injected->text, ret_address_at);
	return injected->text.failed
		       ? flmem_error_nomem(err, "cannot store the code for the interpreter")
		       : 0;
}

static void write_address(struct flmem_cpython_injected *injected, size_t address_at)
{
	char digits[17];

	snprintf(digits, sizeof(digits), "%016llx", (unsigned long long)injected->address);
	memcpy(injected->text.data + address_at, digits, 16);
}

/* Writes the whole area: an old answer in it could be mistaken for the new one. */
static int write_area(const struct flmem_cpython_session *session,
		      const struct flmem_cpython_injected *injected, struct flmem_error *err)
{
	unsigned char bytes[FLMEM_PADDING_MAX] = {0};
	struct flmem_padding_head head = {.length = injected->length};

	memcpy(head.magic, flmem_padding_magic, sizeof(head.magic));
	memcpy(bytes, &head, sizeof(head));
	if (flmem_process_write_memory(session->view->process, injected->place, bytes,
				       injected->length))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot write to the memory of process %d",
				       (int)session->view->process->pid);
	return 0;
}

int flmem_cpython_injected_write(const struct flmem_cpython_session *session,
				 struct flmem_cpython_injected *injected, struct flmem_error *err)
{
	size_t address_at = 0;
	int rc = flmem_tasks_read(session->view->process, &injected->before);

	if (rc)
		return flmem_process_error(session->view->process, rc, "read the threads", err);
	rc = flmem_cpython_cookie_make(injected->cookie, err);

	for (size_t i = 0; !rc && i < FLMEM_ARRAY_SIZE(answer_sizes); i++) {
		injected->answer_max = FLMEM_CPYTHON_ANSWER_HEAD + answer_sizes[i];
		rc = make_text(session, answer_sizes[i], injected, &address_at, err);
		if (rc)
			return rc;
		injected->length = HEAD + injected->answer_max;
		rc = flmem_padding_find(session->view, injected->length, &injected->place, err);
		if (!rc)
			break;
		if (i + 1 < FLMEM_ARRAY_SIZE(answer_sizes))
			rc = 0;
	}
	if (rc)
		return rc;
	injected->address = injected->place + HEAD;
	write_address(injected, address_at);
	return write_area(session, injected, err);
}

static bool read_injected_answer(const struct flmem_cpython_session *session,
				 const struct flmem_cpython_injected *injected)
{
	unsigned char bytes[FLMEM_PADDING_MAX];
	struct flmem_cpython_result *result = session->result;
	struct flmem_cpython_answer answer;

	if (injected->answer_max > sizeof(bytes) ||
	    flmem_process_read_memory(session->view->process, injected->address, bytes,
				      injected->answer_max) ||
	    !flmem_cpython_answer_parse(bytes, injected->answer_max, injected->cookie, &answer))
		return false;
	flmem_cpython_answer_clear(&result->answer);
	result->answer = answer;
	result->complete = true;
	result->took_us = result->answer.took_ns / 1000U;
	return true;
}

static bool has_new_thread(const struct flmem_cpython_session *session,
			   const struct flmem_tasks *before)
{
	FLMEM_AUTO_TASKS struct flmem_tasks now = {0};
	size_t known = 0;

	if (flmem_tasks_read(session->view->process, &now))
		return false;
	for (size_t i = 0; i < now.count; i++)
		for (size_t k = 0; k < before->count; k++)
			known += now.ids[i] == before->ids[k];
	return known < now.count;
}

/*
 * Waits briefly for new threads to end, so that the target is unchanged when flmem returns; the
 * program may also have started threads.
 */
static void await_thread_end(const struct flmem_cpython_session *session,
			     const struct flmem_tasks *before)
{
	uint64_t start = flmem_clock_us();

	while (has_new_thread(session, before) && flmem_clock_us() - start < END_US)
		flmem_clock_sleep_us(POLL_US);
}

int flmem_cpython_injected_await(const struct flmem_cpython_session *session,
				 const struct flmem_cpython_injected *injected,
				 struct flmem_error *err)
{
	uint64_t start = flmem_clock_us(), spent = 0, check_us = CHECK_US;
	int rc;

	while (!read_injected_answer(session, injected)) {
		spent = flmem_clock_us() - start;
		if (!flmem_process_alive(session->view->process))
			return flmem_error_set(err, FLMEM_ENOPROC, 0,
					       "process %d ended while the code ran",
					       (int)session->view->process->pid);
		if (spent > session->call->timeout_us)
			return flmem_error_set(err, FLMEM_EFAILED, 0, "no answer within %llu ms",
					       (unsigned long long)(spent / 1000U));
		if (spent > check_us && injected->check) {
			rc = injected->check(injected->checker, err);
			if (rc)
				return rc;
			check_us = flmem_clock_us() - start + CHECK_US;
		}
		flmem_clock_sleep_us(spent < LONG_US ? POLL_US : POLL_LONG_US);
	}
	spent = flmem_clock_us() - start;
	session->result->waited_us =
		spent > session->result->took_us ? spent - session->result->took_us : 0;
	await_thread_end(session, &injected->before);
	/* Read once more: the first read may lack the end, if the thread was still writing. */
	(void)read_injected_answer(session, injected);
	return 0;
}

/*
 * True if the place is still that of this answer: another flmem may reuse the place of a finished
 * one, if this flmem was stopped meanwhile.
 */
static bool is_place_ours(const struct flmem_cpython_session *session,
			  const struct flmem_cpython_injected *injected)
{
	unsigned char cookie[FLMEM_CPYTHON_COOKIE];

	return !session->result->complete ||
	       (flmem_process_read_memory(session->view->process, injected->address, cookie,
					  sizeof(cookie)) == 0 &&
		memcmp(cookie, injected->cookie, sizeof(cookie)) == 0);
}

void flmem_cpython_injected_erase(const struct flmem_cpython_session *session,
				  const struct flmem_cpython_injected *injected)
{
	static const unsigned char zeros[FLMEM_PADDING_MAX];

	if (injected->place && injected->length <= sizeof(zeros) &&
	    is_place_ours(session, injected))
		flmem_process_write_memory(session->view->process, injected->place, zeros,
					   injected->length);
}

void flmem_cpython_injected_clear(struct flmem_cpython_injected *injected)
{
	flmem_buf_clear(&injected->text);
	flmem_tasks_clear(&injected->before);
}
