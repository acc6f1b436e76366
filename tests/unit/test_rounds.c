/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "frameworks/round_markers.h"

/*
 * The rounds that were noticed. Each function takes the lines of several logs, each with the number
 * of its log in front. At a line "|", and at the end, all lines before have been read.
 */
struct noticed {
	char text[512]; /* "+3" for a round that started, "-3" for one that finished, "|" */
	size_t used;
};

static void note(struct noticed *noticed, const char *sign, uint64_t number)
{
	noticed->used +=
		(size_t)snprintf(noticed->text + noticed->used,
				 sizeof(noticed->text) - noticed->used, "%s%" PRIu64, sign, number);
}

static void note_change(struct noticed *noticed, const struct flmem_round_change *change)
{
	if (change->finished)
		note(noticed, "-", change->finished_number);
	if (change->started)
		note(noticed, "+", change->started_number);
}

static struct noticed listen_with(const char *regex, const char *const *lines, size_t count)
{
	FLMEM_AUTO_ROUNDS struct flmem_rounds rounds;
	struct noticed noticed = {"", 0};
	struct flmem_round_change change;

	assert_int_equal(flmem_rounds_init(&rounds, regex, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		size_t log = (size_t)(lines[i][0] - '0'), length = strlen(lines[i] + 1);
		char line[1024];

		memcpy(line, lines[i] + 1, length + 1);
		if (lines[i][0] == '|')
			flmem_rounds_pause(&rounds, &change);
		else
			flmem_rounds_read(&rounds, log, line, length, &change);
		note_change(&noticed, &change);
		if (lines[i][0] == '|')
			noticed.text[noticed.used++] = '|';
	}
	flmem_rounds_pause(&rounds, &change);
	note_change(&noticed, &change);
	return noticed;
}

#define LISTEN(...)                                                                    \
	listen_with(NULL, (const char *const[]){__VA_ARGS__},                          \
		    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)) \
		.text

static void nvflare_server_text(void **state)
{
	(void)state;
	assert_string_equal(
		LISTEN("02026-01-02 18:00:15,401 - FedAvg - INFO - [identity=server, "
		       "run=job, wf=controller] - ",
		       "0--------------------------------------------------------",
		       "0                    Round 0 started.                    ",
		       "0--------------------------------------------------------",
		       "02026-01-02 18:00:16,000 - ServerRunner - INFO - assigned task to client "
		       "site-1: name=train, id=1",
		       "02026-01-02 18:00:18,000 - ServerRunner - INFO - finished processing "
		       "client "
		       "result by controller",
		       "0                    Round 1 started.                    ",
		       "02026-01-02 18:00:20,000 - FedAvg - INFO - Finished FedAvg."),
		"+0-0+1-1");
	assert_string_equal(LISTEN("0a - ScatterAndGather - INFO - [x] - Round 4 started.",
				   "0a - ScatterAndGather - INFO - [x] - Round 4 finished.",
				   "0a - ScatterAndGather - INFO - [x] - Round 5 started."),
			    "+4-4+5");
}

static void nvflare_server_json(void **state)
{
	(void)state;
	assert_string_equal(
		LISTEN("0{\"asctime\": \"2026-01-02 18:00:15,401\", \"name\": \"FedAvg\", "
		       "\"levelname\": \"INFO\", \"fl_ctx\": \"[run=job]\", \"message\": "
		       "\"\\n------\\n   Round 0 started.    \\n------\\n\"}",
		       "0{\"message\": \"Sampled clients: ['site-1']\"}",
		       "0{\"message\": \"\\n------\\n   Round 1 started.    \\n------\\n\"}"),
		"+0-0+1");
}

static void nvflare_client_counts_its_tasks(void **state)
{
	(void)state;
	assert_string_equal(LISTEN("0t - ClientRunner - INFO - [x] - got task assignment: "
				   "name=train, id=7",
				   "0t - ClientRunner - INFO - [x] - finished processing task",
				   "0t - ClientRunner - INFO - [x] - got task assignment: "
				   "name=validate, id=8",
				   "0t - ClientRunner - INFO - [x] - got task assignment: "
				   "name=train, id=9"),
			    "+0-0+1");
}

static void numbers_take_over_from_counting(void **state)
{
	(void)state;
	assert_string_equal(
		LISTEN("0t - ClientRunner - got task assignment: name=train, id=7",
		       "0t - mem_utils - INFO - [RSS] CA s=site-1 r=12 recv: 83.2 MB",
		       "0t - mem_utils - INFO - [RSS] CA s=site-1 r=12 send: 79.2 MB",
		       "0t - ClientRunner - finished processing task",
		       "0t - ClientRunner - got task assignment: name=train, id=8",
		       "0t - mem_utils - INFO - [RSS] CA s=site-1 r=13 recv: 83.2 MB",
		       "0t - mem_utils - INFO - [RSS] CA s=site-1 r=None recv: 83.2 MB"),
		"+0-0+12-12+13");
}

/*
 * With NVFLARE_CLIENT_MEMORY_PROFILE a client's log has both lines. They are one round, from task
 * to end.
 */
static void a_task_and_its_number_are_one_round(void **state)
{
	(void)state;
	assert_string_equal(LISTEN("0t - ClientRunner - got task assignment: name=train, id=3",
				   "0t - mem_utils - INFO - [RSS] CA s=site-1 r=0 recv: 83.2 MB",
				   "0t - ClientRunner - finished processing task",
				   "0t - mem_utils - INFO - [RSS] CA s=site-1 r=0 send: 79.2 MB",
				   "0t - ClientRunner - got task assignment: name=train, id=4",
				   "0t - mem_utils - INFO - [RSS] CA s=site-1 r=1 recv: 83.2 MB",
				   "0t - ClientRunner - finished processing task",
				   "0t - ClientRunner - got task assignment: name=train, id=5",
				   "0t - mem_utils - INFO - [RSS] CA s=site-1 r=2 recv: 83.2 MB",
				   "0t - ClientRunner - finished processing task"),
			    "+0-0+1-1+2-2");
	/* A round of the server lasts longer than the part of one of its clients. */
	assert_string_equal(LISTEN("0Round 0 started.", "1got task assignment: name=train, id=3",
				   "1[RSS] CA s=site-1 r=0 recv: 83.2 MB",
				   "1finished processing task", "0Round 0 finished.",
				   "0Round 1 started."),
			    "+0-0+1");
	/* Tasks of other names end no round. */
	assert_string_equal(LISTEN("0started training round 2", "0finished processing task",
				   "0finished training round 2"),
			    "+2-2");
}

/* The end of a client's task is not that of the round, whichever log is read first. */
static void a_client_read_before_its_server_ends_no_round(void **state)
{
	(void)state;
	assert_string_equal(
		LISTEN("0got task assignment: name=train, id=3",
		       "0[RSS] CA s=site-1 r=0 recv: 83.2 MB", "0finished processing task",
		       "1Round 0 started.", "|", "1Round 0 finished.", "|",
		       "0got task assignment: name=train, id=4",
		       "0[RSS] CA s=site-1 r=1 recv: 83.2 MB", "1Round 1 started.", "|",
		       "0finished processing task", "|", "0got task assignment: name=train, id=5",
		       "0[RSS] CA s=site-1 r=2 recv: 83.2 MB", "0finished processing task",
		       "1Round 1 finished.", "1Round 2 started.", "|", "1Round 2 finished."),
		"+0|-0|+1||-1+2|-2");
	/* A client without numbers of its own has the server's. */
	assert_string_equal(LISTEN("0got task assignment: name=train, id=3",
				   "0finished processing task", "1Round 0 started.", "|",
				   "1Round 0 finished.", "|",
				   "0got task assignment: name=train, id=4", "1Round 1 started.",
				   "|", "0finished processing task", "|", "1Finished FedAvg."),
			    "+0|-0|+1||-1");
	/* Other clients do not know the number either. */
	assert_string_equal(LISTEN("1got task assignment: name=train, id=4",
				   "0got task assignment: name=train, id=3",
				   "0[RSS] CA s=site-1 r=0 recv: 83.2 MB",
				   "1[RSS] CA s=site-2 r=0 recv: 83.2 MB",
				   "0finished processing task", "|", "1finished processing task"),
			    "+0|-0");
}

static void swarm_and_cyclic(void **state)
{
	(void)state;
	assert_string_equal(LISTEN("0Starting new round 2 on clients: ['a', 'b']",
				   "0started training round 2", "0finished training round 2",
				   "0Finished round 2",
				   "0Starting new round 3 on clients: ['a', 'b']"),
			    "+2-2+3");
}

static void flower(void **state)
{
	(void)state;
	assert_string_equal(LISTEN("0\033[92mINFO \033[0m:      [ROUND 1/3]",
				   "0INFO :      configure_train: Sampled 2 nodes",
				   "0INFO :      [ROUND 2/3]", "0INFO :      [SUMMARY]"),
			    "+1-1+2-2");
	assert_string_equal(LISTEN("0INFO :      [ROUND 3/3]",
				   "0INFO :      Strategy execution finished in 12.50s"),
			    "+3-3");
	assert_string_equal(LISTEN("0INFO :      [ROUND 1]", "0INFO :      [ROUND 2]"), "+1-1+2");
	assert_string_equal(LISTEN("0INFO :      [RUN 12345, ROUND 1]",
				   "0INFO :      [RUN 12345, ROUND 1]",
				   "0INFO :      [RUN 12345, ROUND 2]"),
			    "+1-1+2");
}

#define APPFL "0\033[34m\033[1mappfl: \xe2\x9c\x85\033[0m[2026-01-02 10:00:00,000 server]: "

static void appfl_server_goes_by_the_first_client(void **state)
{
	(void)state;
	assert_string_equal(LISTEN(APPFL "Received GetGlobalModel request from client Client1",
				   APPFL "Received UpdateGlobalModel request from client Client1",
				   APPFL "Received UpdateGlobalModel request from client Client2",
				   APPFL "Received UpdateGlobalModel request from client Client2",
				   APPFL "Received UpdateGlobalModel request from client Client1",
				   APPFL "Terminating the server ..."),
			    "+0-0+1-1");
}

/*
 * The lines are those of comm/mpi, comm/ray and comm/globus_compute of 1.12, and of agent/ for the
 * batched clients.
 */
static void appfl_servers_of_other_communicators(void **state)
{
	(void)state;
	assert_string_equal(
		LISTEN(APPFL "Received UpdateGlobalModel request from Client1 [MPI rank 1]",
		       APPFL "Received UpdateGlobalModel request from Client2 [MPI rank 2]",
		       APPFL "Received UpdateGlobalModel request from Client1 [MPI rank 1]"),
		"+0-0+1");
	assert_string_equal(
		LISTEN(APPFL "Received UpdateGlobalModel request from batched clients: ['Client1', "
			     "'Client2'] [MPI rank 1]",
		       APPFL "Received UpdateGlobalModel request from batched clients: ['Client3', "
			     "'Client4'] [MPI rank 2]",
		       APPFL "Received UpdateGlobalModel request from batched clients: ['Client1', "
			     "'Client2'] [MPI rank 1]"),
		"+0-0+1");
	assert_string_equal(LISTEN(APPFL "Task 'train' is assigned to Client1.",
				   APPFL "Received results of task 'train' from Client1.",
				   APPFL "Received results of task 'train' from Client2.",
				   APPFL "Received results of task 'train' from Client1."),
			    "+0-0+1");
}

/*
 * The lines are those of edge/controllers/sage.py and app_opt/feature_election/controller.py of
 * 2.9.
 */
static void nvflare_controllers_with_other_texts(void **state)
{
	(void)state;
	assert_string_equal(
		LISTEN("0INFO - Round 3 started.", "0INFO - Round 3 finished in 12.5 seconds"),
		"+3-3");
	assert_string_equal(LISTEN("0INFO - --- FL Round 1/5 ---", "0INFO - --- FL Round 2/5 ---"),
			    "+1-1+2");
}

static void appfl_server_counts_chunks_once(void **state)
{
	(void)state;
	assert_string_equal(
		LISTEN(APPFL "Received UpdateGlobalModel request from client Client1",
		       APPFL "Streamed aggregation: processing chunk [1/2] from client Client1",
		       APPFL "Received UpdateGlobalModel request from client Client1",
		       APPFL "Streamed aggregation: processing chunk [2/2] from client Client1",
		       APPFL "Received UpdateGlobalModel request from client Client1",
		       APPFL "Streamed aggregation: processing chunk [1/2] from client Client1"),
		"+0-0+1");
}

static void appfl_client_tables(void **state)
{
	(void)state;
	assert_string_equal(LISTEN(APPFL "     Round      Epoch       Time Train Loss",
				   APPFL "         0          0     1.2345     0.9876",
				   APPFL "         0          1     1.2345     0.9876",
				   APPFL "         1          0     1.2345     0.9876",
				   "0[10:00:00]:          2          0     1.2345 not APPFL",
				   APPFL "   a     2          0     1.2345     0.9876"),
			    "+0-0+1");
}

static void several_logs_tell_of_the_same_rounds(void **state)
{
	(void)state;
	assert_string_equal(LISTEN("0Round 0 started.", "1Round 0 started.", "1Round 1 started.",
				   "0Round 1 started.", "0Round 2 started.", "1Round 1 finished.",
				   "1Round 0 started."),
			    "+0-0+1-1+2");
	/* Rounds are counted by one log only. */
	assert_string_equal(LISTEN("0got task assignment: name=train, id=1",
				   "1got task assignment: name=train, id=1",
				   "1finished processing task", "0finished processing task",
				   "0got task assignment: name=train, id=2"),
			    "+0-0+1");
}

static void a_new_job_starts_again(void **state)
{
	(void)state;
	assert_string_equal(LISTEN("0Round 8 started.", "0Round 9 started.", "0Finished FedAvg.",
				   "0Round 0 started."),
			    "+8-8+9-9+0");
}

static void what_merely_looks_similar_is_no_round(void **state)
{
	(void)state;
	assert_string_equal(LISTEN("0Round started.", "0Round x started.", "0Round 1 start",
				   "0Round 99999999999999999999999 started.", "0[ROUND ]",
				   "0[ROUND 1", "0Round -1 started.", "0 r= recv: ", "0",
				   "0processing chunk [1/] from client a",
				   "0Received UpdateGlobalModel request from client "),
			    "");
	/* A marker later in the line counts, too. */
	assert_string_equal(LISTEN("0Round x: Round 3 started."), "+3");
}

static void a_regular_expression_instead(void **state)
{
	static const char *const lines[] = {"0Round 0 started.", "0epoch 7 begins",
					    "0epoch 8 begins", "0epoch begins"};
	struct flmem_rounds rounds;
	struct flmem_error err = {0};

	(void)state;
	assert_string_equal(listen_with("^epoch ([0-9]+)", lines, 4).text, "+7-7+8");
	assert_string_equal(listen_with("begins$", lines, 4).text, "+0-0+1-1+2");
	assert_string_equal(listen_with("epoch ([a-z]+)", lines, 4).text, "");
	assert_int_equal(flmem_rounds_init(&rounds, "epoch (", &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "regular expression"));
}

/* A log has NULs when it was cut while its writer kept its place in it. */
static void nuls_do_not_hide_what_a_regex_marks(void **state)
{
	FLMEM_AUTO_ROUNDS struct flmem_rounds rounds;
	struct flmem_round_change change;
	char inner[] = "x\0y epoch 8", hole[8200] = "";

	(void)state;
	memcpy(hole + 8180, "epoch 7", 8);
	assert_int_equal(flmem_rounds_init(&rounds, "epoch ([0-9]+)$", NULL), 0);
	assert_true(flmem_rounds_read(&rounds, 0, hole, 8187, &change));
	assert_int_equal(change.started_number, 7);
	assert_true(flmem_rounds_read(&rounds, 0, inner, sizeof(inner) - 1, &change));
	assert_int_equal(change.started_number, 8);
	memset(hole, 0, sizeof(hole));
	assert_false(flmem_rounds_read(&rounds, 0, hole, 8187, &change));
	assert_false(flmem_rounds_read(&rounds, 0, hole, 0, &change));
}

static void rounds_may_be_cleared_twice(void **state)
{
	struct flmem_rounds rounds;

	(void)state;
	assert_int_equal(flmem_rounds_init(&rounds, "epoch ([0-9]+)", NULL), 0);
	flmem_rounds_clear(&rounds);
	assert_false(rounds.has_regex);
	flmem_rounds_clear(&rounds);
}

static void bytes_of_any_kind_are_read(void **state)
{
	FLMEM_AUTO_ROUNDS struct flmem_rounds rounds;
	char line[] = "\0\xff\0Round 5 started.\0\x80";
	struct flmem_round_change change;

	(void)state;
	assert_int_equal(flmem_rounds_init(&rounds, NULL, NULL), 0);
	assert_true(flmem_rounds_read(&rounds, 0, line, sizeof(line) - 1, &change));
	assert_true(change.started && change.started_number == 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nvflare_server_text),
		cmocka_unit_test(nvflare_server_json),
		cmocka_unit_test(nvflare_client_counts_its_tasks),
		cmocka_unit_test(numbers_take_over_from_counting),
		cmocka_unit_test(a_task_and_its_number_are_one_round),
		cmocka_unit_test(a_client_read_before_its_server_ends_no_round),
		cmocka_unit_test(swarm_and_cyclic),
		cmocka_unit_test(flower),
		cmocka_unit_test(appfl_server_goes_by_the_first_client),
		cmocka_unit_test(appfl_servers_of_other_communicators),
		cmocka_unit_test(nvflare_controllers_with_other_texts),
		cmocka_unit_test(appfl_server_counts_chunks_once),
		cmocka_unit_test(appfl_client_tables),
		cmocka_unit_test(several_logs_tell_of_the_same_rounds),
		cmocka_unit_test(a_new_job_starts_again),
		cmocka_unit_test(what_merely_looks_similar_is_no_round),
		cmocka_unit_test(a_regular_expression_instead),
		cmocka_unit_test(rounds_may_be_cleared_twice),
		cmocka_unit_test(nuls_do_not_hide_what_a_regex_marks),
		cmocka_unit_test(bytes_of_any_kind_are_read),
	};

	return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
