/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/http_connections.h"

#define HOUR_US (UINT64_C(3600) * 1000000)
#define IDLE_US 1000U

static struct flmem_http_connections *locked_late; /* a request begins before its lock is granted */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct flmem_http_connections *connections = locked_late;

	locked_late = NULL;
	if (connections && mutex == &connections->lock) {
		usleep(IDLE_US);
		flmem_http_connection_begin(connections, &connections->slots[0]);
	}
	return __real_pthread_mutex_lock(mutex);
}

/* A request that begins while a sweep waits for the lock is newer than the time of that sweep. */
static void test_begins_during_a_sweep(void **state)
{
	struct flmem_http_connections connections;
	struct flmem_http_connection *connection;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_true(flmem_http_connections_init(&connections, 1, HOUR_US));
	connection = flmem_http_connections_add(&connections, fds[0]);
	assert_ptr_equal(connection, &connections.slots[0]);
	locked_late = &connections;
	flmem_http_connections_sweep(&connections);
	assert_null(locked_late);
	assert_int_equal(connections.cut, 0);
	flmem_http_connection_end(&connections, connection);
	flmem_http_connections_remove(&connections, connection);
	flmem_http_connections_clear(&connections);
	close(fds[0]);
	close(fds[1]);
}

/* Counterpart: a lack of progress is detected. */
static void test_without_progress(void **state)
{
	struct flmem_http_connections connections;
	struct flmem_http_connection *connection;
	char byte;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_true(flmem_http_connections_init(&connections, 1, IDLE_US));
	connection = flmem_http_connections_add(&connections, fds[0]);
	assert_non_null(connection);
	usleep(2 * IDLE_US);
	flmem_http_connections_sweep(&connections);
	assert_int_equal(connections.cut, 1);
	assert_int_equal(read(fds[1], &byte, 1), 0);
	flmem_http_connections_remove(&connections, connection);
	flmem_http_connections_clear(&connections);
	close(fds[0]);
	close(fds[1]);
}

/* A file that is sent ends its connection when it becomes shorter than what was announced. */
static void test_file_becomes_shorter(void **state)
{
	struct flmem_http_connections connections;
	struct flmem_http_connection *connection;
	FILE *file = tmpfile();
	char byte;
	int fds[2];

	(void)state;
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 100), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_true(flmem_http_connections_init(&connections, 1, HOUR_US));
	connection = flmem_http_connections_add(&connections, fds[0]);
	assert_non_null(connection);
	for (int i = 0; i < 2; i++) { /* the second time it is removed before */
		flmem_http_connection_begin(&connections, connection);
		flmem_http_connection_send(&connections, connection, fileno(file), 100);
		flmem_http_connections_sweep(&connections);
		assert_int_equal(connections.cut, 0);
		if (!i)
			flmem_http_connection_end(&connections, connection);
		assert_true(i || connection->file < 0);
	}
	assert_int_equal(ftruncate(fileno(file), 99), 0);
	flmem_http_connections_sweep(&connections);
	assert_int_equal(connections.cut, 1);
	assert_int_equal(read(fds[1], &byte, 1), 0);
	flmem_http_connections_remove(&connections, connection);
	flmem_http_connections_clear(&connections);
	(void)fclose(file);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begins_during_a_sweep),
		cmocka_unit_test(test_without_progress),
		cmocka_unit_test(test_file_becomes_shorter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
