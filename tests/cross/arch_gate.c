/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the code of the gate for forks on aarch64, around forks of this program:
 * unit/test_fork_gate.c does the same on the processor that runs the tests.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/profile/fork_gate.h"

#define THREADS	     3
#define FORKS	     20
#define PASSES	     20000
#define CLOSED	     77U
#define HOLD_US	     50000
#define CHECK(truth) check_truth(truth, #truth, __LINE__)

typedef void handler(void);

static struct flmem_fork_gate_data *gate;
static int failed;

static void check_truth(int truth, const char *text, int line)
{
	if (!truth)
		fprintf(stderr, "line %d: not %s\n", line, text);
	failed |= !truth;
}

static handler *find_handler(const char *code, const unsigned char *symbol)
{
	const char *at = code + ((uintptr_t)symbol - (uintptr_t)flmem_fork_gate_prepare);
	handler *found;

	memcpy(&found, &at, sizeof(found));
	return found;
}

static void make_gate(void)
{
	const size_t length = (uintptr_t)flmem_fork_gate_end - (uintptr_t)flmem_fork_gate_prepare;
	char *code = mmap(NULL, 2 * (size_t)FLMEM_FORK_GATE_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		exit(1);
	memcpy(code, flmem_fork_gate_prepare, length);
	__builtin___clear_cache(code, code + length);
	if (mprotect(code, FLMEM_FORK_GATE_PAGE, PROT_READ | PROT_EXEC))
		exit(1);
	gate = (void *)(code + FLMEM_FORK_GATE_PAGE);
	if (pthread_atfork(find_handler(code, flmem_fork_gate_prepare),
			   find_handler(code, flmem_fork_gate_parent),
			   find_handler(code, flmem_fork_gate_child)))
		exit(1);
}

/* Forks through the gate; the child has its own gate, which is open. */
static int fork_through(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(gate->forks != 0 || gate->closed != 0);
	return child < 0 || waitpid(child, &status, 0) != child ? -1 : status;
}

static void *fork_often(void *wrong)
{
	for (int i = 0; i < FORKS; i++)
		if (fork_through())
			__atomic_fetch_add((int *)wrong, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *fork_once(void *over)
{
	if (fork_through() == 0)
		__atomic_store_n((int *)over, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void try_many_threads(void *run(void *wrong))
{
	pthread_t threads[THREADS];
	int wrong = 0;

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, run, &wrong) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(wrong == 0);
	CHECK(gate->forks == 0);
}

/* Opens the closed gate by another thread, or by the fork that has waited for too long. */
static void try_closed(int is_opened)
{
	pthread_t thread;
	int over = 0;

	__atomic_store_n(&gate->closed, CLOSED, __ATOMIC_SEQ_CST);
	CHECK(pthread_create(&thread, NULL, fork_once, &over) == 0);
	usleep(HOLD_US);
	CHECK(!__atomic_load_n(&over, __ATOMIC_SEQ_CST));
	CHECK(__atomic_load_n(&gate->closed, __ATOMIC_SEQ_CST) == CLOSED);
	if (is_opened)
		__atomic_store_n(&gate->closed, 0, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	CHECK(over);
	CHECK(gate->closed == 0 && gate->forks == 0);
}

static handler *made_handler(const unsigned char *symbol)
{
	return find_handler((const char *)gate - FLMEM_FORK_GATE_PAGE, symbol);
}

static void *pass_often(void *wrong)
{
	handler *prepare = made_handler(flmem_fork_gate_prepare);
	handler *parent = made_handler(flmem_fork_gate_parent);

	for (int i = 0; i < PASSES; i++) {
		prepare();
		if (!__atomic_load_n(&gate->forks, __ATOMIC_SEQ_CST))
			__atomic_fetch_add((int *)wrong, 1, __ATOMIC_SEQ_CST);
		parent();
	}
	return NULL;
}

/* With a count below zero the gate would never be open for flmem again. */
static void try_handlers_alone(void)
{
	made_handler(flmem_fork_gate_parent)();
	CHECK(gate->forks == 0);
	gate->forks = 2;
	gate->closed = CLOSED;
	made_handler(flmem_fork_gate_child)();
	CHECK(gate->forks == 0 && gate->closed == 0);
}

int main(void)
{
	make_gate();
	try_many_threads(fork_often);
	try_many_threads(pass_often);
	try_closed(1);
	try_closed(0);
	try_handlers_alone();
	return failed;
}
