/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests inputs that are read from mapped pages, and rewritten meanwhile: the second read may find
 * other bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <flmem/aggregate.h>

#include "tree.h"

#define BYTES  4194304U
#define HEADER "{\"t\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[0,%u]}}"
#define BLOCK  (512U << 10)
/* The last element of the first block, which is compared and searched from its beginning. */
#define LAST_ELEMENT (BLOCK - 8)
#define RUNS	     100

static struct sigaction handler;

/* cmocka has its own handler in each test. */
static void install_handler(void)
{
	sigaction(SIGBUS, &handler, NULL);
}

struct world {
	struct tree tree;
	char *paths[2], *output;
	int fd;
	off_t at;
	uint64_t values[2]; /* values that are written there in turn */
	atomic_bool stop;
};

static void write_model(const char *path, const char *dtype, unsigned element_bytes,
			off_t *ret_data)
{
	static char zeros[BYTES];
	char header[128] = {0};
	uint64_t length;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	snprintf(header, sizeof(header), HEADER, dtype, BYTES / element_bytes, BYTES);
	length = (strlen(header) + 7) / 8 * 8;
	memset(header + strlen(header), ' ', length - strlen(header));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &length, 8), 8);
	assert_int_equal(write(fd, header, length), length);
	assert_int_equal(write(fd, zeros, BYTES), BYTES);
	close(fd);
	*ret_data = (off_t)(8 + length);
}

static void make_models(struct world *world, const char *dtype, unsigned element_bytes)
{
	tree_init(&world->tree);
	assert_true(asprintf(&world->output, "%s/out", world->tree.path) > 0);
	for (int i = 0; i < 2; i++) {
		assert_true(asprintf(&world->paths[i], "%s/%d", world->tree.path, i) > 0);
		write_model(world->paths[i], dtype, element_bytes, &world->at);
	}
	world->at += LAST_ELEMENT;
	world->fd = open(world->paths[1], O_RDWR | O_CLOEXEC);
	assert_true(world->fd >= 0);
}

static void clear_models(struct world *world)
{
	close(world->fd);
	free(world->paths[0]);
	free(world->paths[1]);
	free(world->output);
	tree_clear(&world->tree);
}

/* Rewrites it for about as long as a block is searched. */
static void *rewrite_an_element(void *context)
{
	struct world *world = context;

	for (unsigned i = 0; !world->stop; i++) {
		if (pwrite(world->fd, &world->values[i % 2], 8, world->at) != 8)
			break;
		usleep(100);
	}
	return NULL;
}

/* Checks the allowed reports: that the input has changed, or its content at the read. */
static void check_runs(struct world *world, const char *found)
{
	const struct flmem_aggregate_request request = {
		.output = world->output,
		.inputs = (const char *const *)world->paths,
		.input_count = 2,
		.threads = 1,
	};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, rewrite_an_element, world), 0);
	for (int i = 0; i < RUNS; i++) {
		struct flmem_aggregate_result result = {0};
		struct flmem_error err = {0};
		int rc = flmem_aggregate(&request, &result, &err);

		flmem_aggregate_result_clear(&result);
		if (rc == 0)
			continue;
		assert_int_equal(rc, FLMEM_EUSAGE);
		if (!strstr(err.message, "changed while it was read") &&
		    !strstr(err.message, found))
			fail_msg("%s", err.message);
	}
	world->stop = true;
	pthread_join(thread, NULL);
}

static void unequal_elements_become_equal(void **state)
{
	struct world world = {.values = {0, UINT64_C(1) << 63}};

	(void)state;
	install_handler();
	make_models(&world, "I64", 8);
	check_runs(&world, "from element 65535 on");
	clear_models(&world);
}

static void a_nan_disappears(void **state)
{
	struct world world = {.values = {0, UINT64_C(0x7fc00000) << 32}};

	(void)state;
	install_handler();
	make_models(&world, "F32", 4);
	check_runs(&world, "has a NaN or an infinity: tensor 't', element 131071;");
	clear_models(&world);
}

/* Truncates sooner and later; the last block fails, after which no other one does. */
static void *truncate_last_block(void *context)
{
	struct world *world = context;
	off_t length = world->at - (off_t)LAST_ELEMENT + (off_t)(BYTES - BLOCK);

	usleep((useconds_t)(world->values[0] * 100));
	if (ftruncate(world->fd, length) != 0)
		return context;
	return NULL;
}

/* The caller must learn what has happened to the file, not that zeros were combined. */
static void a_file_that_is_truncated_is_named(void **state)
{
	unsigned named = 0, changed = 0;

	(void)state;
	install_handler();
	for (unsigned i = 0; i < RUNS; i++) {
		struct world world = {.values = {i % 50}};
		struct flmem_aggregate_result result = {0};
		struct flmem_error err = {0};
		pthread_t thread;
		void *failed;
		int rc;

		make_models(&world, "F32", 4);
		assert_int_equal(pthread_create(&thread, NULL, truncate_last_block, &world), 0);
		rc = flmem_aggregate(
			&(struct flmem_aggregate_request){
				.output = world.output,
				.inputs = (const char *const *)world.paths,
				.input_count = 2,
				.threads = 1,
				.chunk_bytes = BYTES, /* mapped at once */
			},
			&result, &err);
		pthread_join(thread, &failed);
		assert_null(failed);
		flmem_aggregate_result_clear(&result);
		named += rc == FLMEM_EFAILED &&
			 strstr(err.message, "was truncated while it was read");
		changed += rc == FLMEM_EUSAGE && strstr(err.message, "changed while it was read");
		clear_models(&world);
	}
	assert_true(named > changed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unequal_elements_become_equal),
		cmocka_unit_test(a_nan_disappears),
		cmocka_unit_test(a_file_that_is_truncated_is_named),
	};

	signal(SIGBUS, SIG_DFL); /* a sanitizer's handler would be the earlier one */
	flmem_aggregate_map_inputs();
	sigaction(SIGBUS, NULL, &handler);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
