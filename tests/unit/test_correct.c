/* SPDX-License-Identifier: Apache-2.0 */
/* Corrections on files: what is written, and what is refused with nothing lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/buf.h"
#include "base/io.h"
#include "tree.h"

#define SERVER "app/config/config_fed_server.json"
#define TEXT                                                                           \
	"{\"workflows\": [{\"path\": \"nvflare.app_common.workflows.fedavg.FedAvg\", " \
	"\"args\": {}}]}\n"
#define CORRECTED                                                                      \
	"{\"workflows\": [{\"path\": \"nvflare.app_common.workflows.fedavg.FedAvg\", " \
	"\"args\": {\"memory_gc_rounds\": 5}}]}\n"

struct job {
	struct tree tree;
	struct flmem_corrections corrections;
};

static void job_init(struct job *job)
{
	const char *path = job->tree.path;

	*job = (struct job){0};
	tree_init(&job->tree);
	tree_puts(&job->tree, "meta.json", "{}");
	tree_puts(&job->tree, SERVER, TEXT);
	assert_int_equal(flmem_recommend_correct(&path, 1, NULL, &job->corrections, NULL), 0);
	assert_int_equal(job->corrections.count, 1);
}

static void job_clear(struct job *job)
{
	flmem_corrections_clear(&job->corrections);
	tree_clear(&job->tree);
}

static void assert_text(const struct job *job, const char *path, const char *expected)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	assert_int_equal(flmem_io_read_file_at(job->tree.fd, path, 65536, &text), 0);
	assert_string_equal(text.data, expected);
}

static void assert_refused(struct job *job, int code, const char *why)
{
	struct flmem_error err = {0};
	char *backup = NULL;

	assert_int_equal(flmem_correction_write(&job->corrections.rows[0], &backup, &err), code);
	if (!strstr(err.message, why))
		fail_msg("'%s' does not tell '%s'", err.message, why);
	assert_null(backup);
	assert_int_equal(faccessat(job->tree.fd, SERVER ".orig", F_OK, 0), -1);
}

static void the_file_is_replaced_and_kept(void **state)
{
	struct stat status;
	struct job job;
	char *backup = NULL;

	(void)state;
	job_init(&job);
	assert_int_equal(fchmodat(job.tree.fd, SERVER, 0640, 0), 0);
	assert_string_equal(job.corrections.rows[0].after, CORRECTED);
	assert_int_equal(job.corrections.rows[0].changes, 1);
	tree_puts(&job.tree, SERVER ".orig", "an older backup");
	assert_int_equal(flmem_correction_write(&job.corrections.rows[0], &backup, NULL), 0);
	assert_text(&job, SERVER, CORRECTED);
	assert_text(&job, SERVER ".orig", "an older backup");
	assert_text(&job, SERVER ".orig.1", TEXT);
	assert_int_equal(fstatat(job.tree.fd, SERVER, &status, 0), 0);
	assert_int_equal(status.st_mode & 07777, 0640);
	free(backup);
	job_clear(&job);
}

static void a_file_that_changed_meanwhile_is_left(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	tree_puts(&job.tree, SERVER, "{}");
	assert_refused(&job, FLMEM_EUSAGE, "has changed");
	assert_text(&job, SERVER, "{}");
	assert_int_equal(unlinkat(job.tree.fd, SERVER, 0), 0);
	assert_refused(&job, FLMEM_EUSAGE, "cannot open");
	job_clear(&job);
}

static void a_read_only_file_is_left(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	assert_int_equal(fchmodat(job.tree.fd, SERVER, 0444, 0), 0);
	assert_refused(&job, FLMEM_EPERM, "read-only");
	assert_text(&job, SERVER, TEXT);
	job_clear(&job);
}

static void a_symbolic_link_is_left(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	assert_int_equal(renameat(job.tree.fd, SERVER, job.tree.fd, "target"), 0);
	assert_int_equal(symlinkat("../../target", job.tree.fd, SERVER), 0);
	assert_refused(&job, FLMEM_EUSAGE, "symbolic link");
	assert_text(&job, "target", TEXT);
	job_clear(&job);
}

static void one_correction_may_call_for_another(void **state)
{
	static const char client[] =
		"{\"executors\": [{\"executor\": {\"path\": \"nvflare.app_common.ccwf."
		"swarm_client_ctl.SwarmClientController\", \"args\": {\"memory_gc_rounds\": 5}}}, "
		"{\"executor\": {\"path\": \"nvflare.app_common.executors.client_api_executor."
		"ClientAPIExecutor\", \"args\": {}}}]}\n";
	struct tree tree;
	struct flmem_corrections corrections = {0};
	const char *path = tree.path;

	(void)state;
	tree_init(&tree);
	tree_puts(&tree, "meta.json", "{}");
	tree_puts(&tree, "app/config/config_fed_client.json", client);
	assert_int_equal(flmem_recommend_correct(&path, 1, NULL, &corrections, NULL), 0);
	assert_int_equal(corrections.count, 1);
	assert_int_equal(corrections.rows[0].changes, 2);
	assert_null(strstr(corrections.rows[0].after, "\"memory_gc_rounds\": 5"));
	flmem_corrections_clear(&corrections);
	tree_clear(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_file_is_replaced_and_kept),
		cmocka_unit_test(a_file_that_changed_meanwhile_is_left),
		cmocka_unit_test(a_read_only_file_is_left),
		cmocka_unit_test(a_symbolic_link_is_left),
		cmocka_unit_test(one_correction_may_call_for_another),
	};

	return cmocka_run_group_tests_name("correct", tests, NULL, NULL);
}
