/* SPDX-License-Identifier: Apache-2.0 */
/* Tests corrections of files: what is written, and what is refused without loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>

#include <flmem/recommend.h>

#include "base/files/io.h"
#include "base/text/buf.h"
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

/*
 * Replaces the calls that give names, so that a test can act just before one: otherwise an action
 * of another program at that moment would depend on chance.
 */
static struct {
	const struct job *job;
	void (*before_link)(const struct job *job);
	void (*before_exchange)(const struct job *job);
	int exchange_error;
} meddler;

int linkat(int from, const char *name, int to, const char *other, int flags)
{
	if (meddler.before_link)
		meddler.before_link(meddler.job);
	return (int)syscall(SYS_linkat, from, name, to, other, flags);
}

int renameat2(int from, const char *name, int to, const char *other, unsigned flags)
{
	void (*act)(const struct job *) = meddler.before_exchange;

	meddler.before_exchange = NULL;
	if (act)
		act(meddler.job);
	if (meddler.exchange_error && (flags & RENAME_EXCHANGE)) {
		errno = meddler.exchange_error;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from, name, to, other, flags);
}

static void job_init(struct job *job)
{
	const char *path = job->tree.path;

	*job = (struct job){0};
	memset(&meddler, 0, sizeof(meddler));
	meddler.job = job;
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

/* Checks that the directory of the configuration has only the files that the test made. */
static void assert_entries(const struct job *job, int expected)
{
	int fd = openat(job->tree.fd, "app/config", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fdopendir(fd);
	int found = 0;

	assert_non_null(directory);
	while (readdir(directory))
		found++;
	closedir(directory);
	assert_int_equal(found - 2, expected);
}

static void assert_refused(struct job *job, int code, const char *why)
{
	struct flmem_error err = {0};
	char *backup = NULL;

	assert_int_equal(flmem_correction_write(&job->corrections.rows[0], &backup, &err), code);
	if (!strstr(err.message, why))
		fail_msg("'%s' does not contain '%s'", err.message, why);
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

static void one_of_several_hard_links_is_left(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	assert_int_equal(syscall(SYS_linkat, job.tree.fd, SERVER, job.tree.fd, "other", 0), 0);
	assert_refused(&job, FLMEM_EUSAGE, "2 names (hard links)");
	assert_text(&job, SERVER, TEXT);
	assert_text(&job, "other", TEXT);
	assert_entries(&job, 1);
	job_clear(&job);
}

/* The path leads to the same text in another directory when it is written. */
static void a_directory_that_was_exchanged_is_left(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	tree_puts(&job.tree, "theirs/config_fed_server.json", TEXT);
	assert_int_equal(renameat(job.tree.fd, "app/config", job.tree.fd, "aside"), 0);
	assert_int_equal(symlinkat("../theirs", job.tree.fd, "app/config"), 0);
	assert_refused(&job, FLMEM_EUSAGE, "has changed");
	assert_text(&job, "theirs/config_fed_server.json", TEXT);
	assert_text(&job, "aside/config_fed_server.json", TEXT);
	assert_int_equal(faccessat(job.tree.fd, "aside/config_fed_server.json.orig", F_OK, 0), -1);
	assert_int_equal(unlinkat(job.tree.fd, "app/config", 0), 0);
	job_clear(&job);
}

/* The file is the same, but in a directory whose owner may do anything with a backup. */
static void a_file_that_was_moved_to_another_directory_is_left(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	assert_int_equal(mkdirat(job.tree.fd, "theirs", 0755), 0);
	assert_int_equal(
		renameat(job.tree.fd, SERVER, job.tree.fd, "theirs/config_fed_server.json"), 0);
	assert_int_equal(unlinkat(job.tree.fd, "app/config", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("../theirs", job.tree.fd, "app/config"), 0);
	assert_refused(&job, FLMEM_EUSAGE, "has changed");
	assert_text(&job, "theirs/config_fed_server.json", TEXT);
	assert_int_equal(unlinkat(job.tree.fd, "app/config", 0), 0);
	job_clear(&job);
}

/* Another file has the same text, but not the owner and permissions that were seen. */
static void a_file_that_was_exchanged_is_left(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	tree_puts(&job.tree, "other", TEXT);
	assert_int_equal(renameat(job.tree.fd, "other", job.tree.fd, SERVER), 0);
	assert_refused(&job, FLMEM_EUSAGE, "has changed");
	assert_text(&job, SERVER, TEXT);
	assert_entries(&job, 1);
	job_clear(&job);
}

static void put_another(const struct job *job)
{
	tree_puts(&job->tree, "another", "{\"from\": \"an editor\"}");
	assert_int_equal(renameat(job->tree.fd, "another", job->tree.fd, SERVER), 0);
}

static void write_into(const struct job *job)
{
	tree_puts(&job->tree, SERVER, "{\"from\": \"a script\"}");
}

static void remove_it(const struct job *job)
{
	assert_int_equal(unlinkat(job->tree.fd, SERVER, 0), 0);
}

static void what_another_writes_at_the_last_moment_stays(void **state)
{
	static const struct {
		void (*act)(const struct job *job);
		const char *text;
	} rows[] = {
		{put_another, "{\"from\": \"an editor\"}"},
		{write_into, "{\"from\": \"a script\"}"},
		{remove_it, NULL},
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		size_t row = i / 2;
		struct job job;

		job_init(&job);
		if (i % 2)
			meddler.before_link = rows[row].act;
		else
			meddler.before_exchange = rows[row].act;
		if (rows[row].text || !(i % 2))
			assert_refused(&job, FLMEM_EUSAGE, "has changed");
		else
			assert_refused(&job, FLMEM_EFAILED, "cannot create the backup");
		if (rows[row].text)
			assert_text(&job, SERVER, rows[row].text);
		assert_entries(&job, rows[row].text ? 1 : 0);
		job_clear(&job);
	}
}

static void file_systems_without_exchange_are_served(void **state)
{
	struct job job;
	char *backup = NULL;

	(void)state;
	job_init(&job);
	meddler.exchange_error = EINVAL;
	assert_int_equal(flmem_correction_write(&job.corrections.rows[0], &backup, NULL), 0);
	assert_text(&job, SERVER, CORRECTED);
	assert_text(&job, SERVER ".orig", TEXT);
	assert_entries(&job, 2);
	free(backup);
	job_clear(&job);
	job_init(&job);
	meddler.exchange_error = EINVAL;
	meddler.before_exchange = put_another;
	assert_refused(&job, FLMEM_EUSAGE, "has changed");
	assert_entries(&job, 1);
	job_clear(&job);
	job_init(&job);
	meddler.exchange_error = EIO;
	assert_refused(&job, FLMEM_EFAILED, "cannot replace");
	assert_text(&job, SERVER, TEXT);
	assert_entries(&job, 1);
	job_clear(&job);
}

static void a_device_or_a_pipe_is_never_opened(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	assert_int_equal(unlinkat(job.tree.fd, SERVER, 0), 0);
	assert_int_equal(mkfifoat(job.tree.fd, SERVER, 0666), 0);
	assert_refused(&job, FLMEM_EUSAGE, "is not a regular file");
	job_clear(&job);
}

static void attributes_are_kept_and_set_id_bits_are_not(void **state)
{
	struct stat status;
	struct job job;
	char *backup = NULL, value[16] = "";
	char path[128];

	(void)state;
	job_init(&job);
	snprintf(path, sizeof(path), "%s/" SERVER, job.tree.path);
	assert_int_equal(fchmodat(job.tree.fd, SERVER, 06755, 0), 0);
	if (setxattr(path, "user.flmem", "kept", 4, 0) < 0) {
		print_message("SKIP: no extended attributes in /tmp\n");
		job_clear(&job);
		skip();
	}
	assert_int_equal(flmem_correction_write(&job.corrections.rows[0], &backup, NULL), 0);
	assert_text(&job, SERVER, CORRECTED);
	assert_int_equal(fstatat(job.tree.fd, SERVER, &status, 0), 0);
	assert_int_equal(status.st_mode & 07777, 0755);
	assert_int_equal(getxattr(path, "user.flmem", value, sizeof(value)), 4);
	assert_string_equal(value, "kept");
	free(backup);
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
		cmocka_unit_test(one_of_several_hard_links_is_left),
		cmocka_unit_test(a_directory_that_was_exchanged_is_left),
		cmocka_unit_test(a_file_that_was_moved_to_another_directory_is_left),
		cmocka_unit_test(a_file_that_was_exchanged_is_left),
		cmocka_unit_test(what_another_writes_at_the_last_moment_stays),
		cmocka_unit_test(file_systems_without_exchange_are_served),
		cmocka_unit_test(a_device_or_a_pipe_is_never_opened),
		cmocka_unit_test(attributes_are_kept_and_set_id_bits_are_not),
		cmocka_unit_test(one_correction_may_call_for_another),
	};

	return cmocka_run_group_tests_name("correct", tests, NULL, NULL);
}
