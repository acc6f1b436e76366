/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests which rounds are seen in lines of several logs against a kept text (kept.h). The lines come
 * in an order that looks random and is the same in every run.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "frameworks/round_markers.h"
#include "kept.h"
#include "series.h"

#define WALKS	 40
#define LINES	 60
#define LOGS	 3
#define NAME_63	 "012345678901234567890123456789012345678901234567890123456789012"
#define CLIENT	 "Received UpdateGlobalModel request from client "
#define CHUNK(n) "processing chunk [" n "/3] from client "

/* In these lines %u stands for a round: that of the walk, which sometimes moves on. */
static const char *const lines[] = {
	"Round %u started.",
	"Round %u finished.",
	"Round x, Round %u started.",
	"Round %u start",
	"Starting new round %u on clients",
	"started training round %u",
	"finished training round %u",
	"id r=%u recv: x",
	"x got task assignment: name=train, id=1",
	"x finished processing task",
	"x got task assignment: name=train, id=2",
	"x finished processing task",
	"Finished FedAvg.",
	"[ROUND %u/5]",
	"[ROUND %u]",
	"some other line",
	"",
};

static const char *const client_lines[] = {
	CLIENT "a",
	CLIENT "bb",
	CLIENT "a\"",
	CLIENT,
	CLIENT NAME_63,
	CLIENT NAME_63 "4",
	CHUNK("1") "a",
	CHUNK("2") "a",
	CHUNK("3") "bb",
	CHUNK("x") "a",
	"Terminating the server",
	"[INFO appfl: ]:          0 ",
	"[INFO appfl: ]:          7 x",
	"[INFO appfl: ]: 1234567890 x",
	"[INFO appfl: ]:        1x  x",
	"[INFO appfl: ]:          9",
};

static const char *const regex_lines[] = {"epoch 1 x",	      "epoch 2",
					  "epoch 2",	      "epoch",
					  "Round 3 started.", "epoch 99999999999999999999999",
					  "my epoch 1 of 3"};

struct table {
	const char *regex;
	const char *const *lines;
	size_t count;
	size_t logs;
};

static void put_change(struct flmem_buf *out, bool changed, const struct flmem_round_change *change)
{
	if (change->finished)
		flmem_buf_printf(out, "-%" PRIu64, change->finished_number);
	if (change->started)
		flmem_buf_printf(out, "+%" PRIu64, change->started_number);
	if (changed != (change->finished || change->started))
		flmem_buf_puts(out, "!");
	flmem_buf_putc(out, changed ? ' ' : '.');
}

static void walk(const struct table *table, uint64_t seed, struct flmem_buf *out)
{
	FLMEM_AUTO_ROUNDS struct flmem_rounds rounds;
	struct flmem_round_change change;
	uint64_t state = seed * 2654435761U + 1;
	unsigned round = (unsigned)(seed % 3);

	assert_int_equal(flmem_rounds_init(&rounds, table->regex, NULL), 0);
	for (size_t i = 0; i < LINES; i++) {
		size_t log = (size_t)(noise_uniform(&state) * (double)table->logs);
		size_t row = (size_t)(noise_uniform(&state) * (double)table->count);
		double what = noise_uniform(&state);
		char line[256];
		int length;

		if (log == LOGS)
			/* The last log that has a bit, and the first without one. */
			log = 63 + seed % 2;
		round = what < 0.25 ? round + 1 : what < 0.3 ? 0 : round;
		/* A row that has no %u ignores the number. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
		length = snprintf(line, sizeof(line), table->lines[row], round);
#pragma GCC diagnostic pop
		put_change(out, flmem_rounds_read(&rounds, log, line, (size_t)length, &change),
			   &change);
		if (what > 0.85)
			put_change(out, flmem_rounds_pause(&rounds, &change), &change);
	}
	flmem_buf_putc(out, '\n');
}

static void walks_are_as_kept(void **state)
{
	static const struct table tables[] = {
		{NULL, lines, FLMEM_ARRAY_SIZE(lines), 1},
		{NULL, lines, FLMEM_ARRAY_SIZE(lines), LOGS},
		{NULL, lines + 8, 5, LOGS + 1}, /* lines about tasks and their ends */
		{NULL, lines, 10, LOGS + 1},
		{NULL, client_lines, FLMEM_ARRAY_SIZE(client_lines), 2},
		{NULL, client_lines, 6, 2},
		{"epoch ([0-9]+)", regex_lines, FLMEM_ARRAY_SIZE(regex_lines), 2},
		{"epoch( ([0-9]+))?", regex_lines, FLMEM_ARRAY_SIZE(regex_lines), 2},
		{"^epoch", regex_lines, FLMEM_ARRAY_SIZE(regex_lines), 1},
		{"(x)?epoch", regex_lines, FLMEM_ARRAY_SIZE(regex_lines), 1},
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tables); i++)
		for (uint64_t seed = 1; seed <= WALKS; seed++)
			walk(&tables[i], seed, &out);
	kept_compare("rounds.txt", &out);
}

/* Reads each line alone, which shows what it contributes. */
static void lines_are_as_kept(void **state)
{
	static const char *const alone[] = {
		"Round 0 started.",
		"Round 18446744073709551615 started.",
		"Round 18446744073709551616 started.",
		"Round 99999999999999999999999 started.",
		"Round 09 started.",
		"Round / started.",
		"Round : started.",
		"Round 5started.",
		"Round  started.",
		"Round 5 started",
		"Round 5 finished.",
		"xRound 5 started.x",
		"got task assignment: name=train,",
		"got task assignment: name=trai",
		"[ROUND 3/",
		"[ROUND 3",
		"x, ROUND 4]",
		CLIENT "a",
		CLIENT,
		CLIENT " ",
		CLIENT "a\\n",
		CLIENT "!",
		CLIENT NAME_63,
		CLIENT NAME_63 "x",
		CHUNK("1") "a",
		"processing chunk [1/] from client a",
		"processing chunk [1 3] from client a",
		"appfl: ]:          1 ",
		"appfl: ]:          1",
		"appfl: ]: 1          ",
		"appfl: ]:           ",
		"appfl: ]: 0123456789 ",
		"appfl: ]: 01234567890 ",
		"appfl: ]:      1 2 3 ",
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(alone); i++) {
		FLMEM_AUTO_ROUNDS struct flmem_rounds rounds;
		struct flmem_round_change change;
		char line[256];

		assert_int_equal(flmem_rounds_init(&rounds, NULL, NULL), 0);
		snprintf(line, sizeof(line), "%s", alone[i]);
		for (int k = 0; k < 3; k++)
			put_change(&out, flmem_rounds_read(&rounds, 0, line, strlen(line), &change),
				   &change);
		put_change(&out, flmem_rounds_pause(&rounds, &change), &change);
		flmem_buf_printf(&out, " %s\n", alone[i]);
	}
	kept_compare("round-lines.txt", &out);
}

/* A search by expression covers the text before its limit, and nothing after it. */
static void the_search_is_limited(void **state)
{
	static char line[4200];

	(void)state;
	for (size_t at = 4080; at <= 4100; at++) {
		FLMEM_AUTO_ROUNDS struct flmem_rounds rounds;
		struct flmem_round_change change;

		memset(line, 'x', sizeof(line));
		memcpy(line + at, "epoch", 5);
		assert_int_equal(flmem_rounds_init(&rounds, "epoch", NULL), 0);
		assert_int_equal(flmem_rounds_read(&rounds, 0, line, sizeof(line) - 1, &change),
				 at + 5 <= 4096);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_are_as_kept),
		cmocka_unit_test(lines_are_as_kept),
		cmocka_unit_test(the_search_is_limited),
	};

	return cmocka_run_group_tests_name("kept_rounds", tests, NULL, NULL);
}
