/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/buf.h"
#include "frameworks/framework.h"
#include "frameworks/start_ops.h"
#include "proc/process.h"

#include "tree.h"

#define WORDS_MAX 24
#define NVFLARE	  "nvflare.private.fed.app."

static void write_words(const struct tree *tree, int pid, const char *file,
			const char *const *words)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	char path[64];

	for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
		flmem_buf_append(&buf, words[i], strlen(words[i]) + 1);
	snprintf(path, sizeof(path), "proc/%d/%s", pid, file);
	tree_write(tree, path, buf.data, buf.length);
}

/* Adds a process whose root is the tree's "root" directory. */
static void add_process(const struct tree *tree, int pid, int parent, const char *const *command,
			const char *const *environment)
{
	char path[64];

	tree_process(tree, pid, parent);
	write_words(tree, pid, "cmdline", command);
	if (environment)
		write_words(tree, pid, "environ", environment);
	snprintf(path, sizeof(path), "proc/%d/root", pid);
	assert_int_equal(symlinkat("../../root", tree->fd, path), 0);
}

static void set_directory(const struct tree *tree, int pid, const char *directory)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/cwd", pid);
	unlinkat(tree->fd, path, 0);
	assert_int_equal(symlinkat(directory, tree->fd, path), 0);
}

static struct flmem_identity identify(const struct tree *tree, int pid)
{
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env command = {0}, environment = {0};
	FLMEM_AUTO_RELATIVES struct flmem_relatives relatives = {.proc_dirfd = proc};
	struct flmem_subject subject = {
		.process = &process, .command = &command, .relatives = &relatives};
	struct flmem_identity identity;

	assert_int_equal(flmem_process_open_at(proc, pid, &process, NULL), 0);
	assert_int_equal(flmem_argv_env_read_argv(&process, &command, NULL), 0);
	if (flmem_argv_env_read_env(&process, &environment, NULL) == 0)
		subject.environment = &environment;
	flmem_identify(&subject, &identity);
	return identity;
}

struct expectation {
	enum flmem_framework framework;
	enum flmem_role role;
	const char *site;
	const char *command[WORDS_MAX];
};

static void assert_identity(const struct tree *tree, int pid, const struct expectation *expected)
{
	struct flmem_identity identity = identify(tree, pid);

	assert_int_equal(identity.framework, expected->framework);
	assert_int_equal(identity.role, expected->role);
	assert_string_equal(identity.site, expected->site);
	assert_int_equal(identity.part != NULL, identity.framework != FLMEM_FRAMEWORK_NONE);
}

static void assert_rows(const struct tree *tree, const struct expectation *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int pid = 100 + (int)i;

		add_process(tree, pid, 1, rows[i].command, NULL);
		assert_identity(tree, pid, &rows[i]);
	}
}

static const struct expectation nvflare_rows[] = {
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_SERVER,
	 "",
	 {"python3", "-u", "-m", NVFLARE "server.server_train", "-m", "/ws", "-s",
	  "fed_server.json", "--set", "secure_train=true", "org=o", "config_folder=config"}},
	/* 2.8: the job's secrets are options, 2.9: they are not on the command line */
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_SERVER_JOB,
	 "",
	 {"/usr/bin/python3",
	  "-u",
	  "-m",
	  NVFLARE "server.runner_process",
	  "-m",
	  "/ws",
	  "-s",
	  "fed_server.json",
	  "-r",
	  "/ws/job/app_server",
	  "-n",
	  "job",
	  "-p",
	  "tcp://h:1",
	  "-u",
	  "grpc://h:2",
	  "--host",
	  "h",
	  "--port",
	  "8002"}},
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_CLIENT,
	 "hospital 1",
	 {"python3", "-u", "-m", NVFLARE "client.client_train", "-m", "/ws", "-s",
	  "fed_client.json", "--set", "secure_train=true", "uid=hospital 1", "org=o"}},
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_CLIENT_JOB,
	 "site-1",
	 {"/opt/venv/bin/python3.11",
	  "-X",
	  "faulthandler",
	  "-um",
	  NVFLARE "client.worker_process",
	  "-m",
	  "/ws",
	  "-w",
	  "/ws/startup",
	  "-t",
	  "tok",
	  "-ts",
	  "sig",
	  "-d",
	  "ssid",
	  "-n",
	  "job",
	  "-c",
	  "site-1",
	  "-p",
	  "tcp://h:1"}},
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_CLIENT_JOB,
	 "",
	 {"python3", "-u", "-m", NVFLARE "client.sub_worker_process", "-m", "/ws", "--ports",
	  "1-2-3"}},
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_NONE,
	 "relay-1",
	 {"python3", "-m", NVFLARE "relay.relay", "-m", "/ws", "--set", "uid=relay-1"}},
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_SIMULATOR_CLIENT,
	 "site-2",
	 {"python", "-m", NVFLARE "simulator.simulator_worker", "-o", "/ws/site-2",
	  "--logging_config", "concise", "--client", "site-2", "--token", "t", "--port", "1",
	  "--parent_pid", "2"}},
	{FLMEM_FRAMEWORK_NVFLARE,
	 FLMEM_ROLE_SERVER,
	 "",
	 {"python3", "/usr/local/bin/memray", "run", "-o", "x.bin", "-m",
	  NVFLARE "server.server_train", "-m", "/ws"}},
};

static void nvflare_is_told_by_its_modules(void **state)
{
	assert_rows(*state, nvflare_rows, FLMEM_ARRAY_SIZE(nvflare_rows));
}

static void what_merely_mentions_a_framework_is_none_of_it(void **state)
{
	static const struct expectation rows[] = {
		{0, 0, "", {"bash", "-c", "python3 -m " NVFLARE "server.server_train -m /ws"}},
		{0, 0, "", {"timeout", "5", "python3", "-m", NVFLARE "server.server_train"}},
		{0, 0, "", {"python3", "train.py", "-m", NVFLARE "server.server_train"}},
		{0,
		 0,
		 "",
		 {"python3", "-m", "torch.distributed.run", "-m",
		  NVFLARE "client.sub_worker_process"}},
		{0, 0, "", {"python3", "-c", "import x", "-m", NVFLARE "server.server_train"}},
		{0, 0, "", {"python3", "-m", NVFLARE "server.server_train2"}},
		{0, 0, "", {"python3", "-m"}},
		{0, 0, "", {"python3", "-W"}},
		{0, 0, "", {"python3"}},
		{0, 0, "", {"python3", "-"}},
		{0, 0, "", {"python3", "--"}},
		{0, 0, "", {""}},
		{0, 0, "", {NULL}},
		{0, 0, "", {"vim", "flower-superlink"}},
		{0, 0, "", {"python3", "/x/flower-superlink.py"}},
		{0, 0, "", {"python3", "run_server.py", "--config", "nothing.yaml"}},
		{0, 0, "", {"nvflare", "poc", "start"}},
		{0, 0, "", {"python3", "/usr/bin/nvflare", "job", "simulator"}},
	};

	assert_rows(*state, rows, FLMEM_ARRAY_SIZE(rows));
}

static void flower_is_told_by_its_programs(void **state)
{
	static const struct expectation rows[] = {
		{FLMEM_FRAMEWORK_FLOWER,
		 FLMEM_ROLE_SERVER,
		 "",
		 {"/usr/bin/python3", "/usr/bin/flower-superlink", "--insecure"}},
		{FLMEM_FRAMEWORK_FLOWER,
		 FLMEM_ROLE_CLIENT,
		 "",
		 {"/venv/bin/python", "-s", "/venv/bin/flower-supernode", "--superlink", "h:9092"}},
		{FLMEM_FRAMEWORK_FLOWER,
		 FLMEM_ROLE_SERVER_JOB,
		 "",
		 {"python3", "flwr-serverapp", "--token", "x"}},
		{FLMEM_FRAMEWORK_FLOWER, FLMEM_ROLE_CLIENT_JOB, "", {"/opt/flwr-clientapp"}},
		{FLMEM_FRAMEWORK_FLOWER, FLMEM_ROLE_NONE, "", {"flower-superexec"}},
		{FLMEM_FRAMEWORK_FLOWER, FLMEM_ROLE_NONE, "", {"/v/bin/flwr-agentapp"}},
		{FLMEM_FRAMEWORK_FLOWER, FLMEM_ROLE_NONE, "", {"python3", "/v/bin/flwr-model"}},
		{FLMEM_FRAMEWORK_FLOWER, FLMEM_ROLE_NONE, "", {"flwr-connector", "--x"}},
		{FLMEM_FRAMEWORK_FLOWER,
		 FLMEM_ROLE_SIMULATOR_SERVER,
		 "",
		 {"python3.12", "/usr/bin/flwr-simulation", "--app", "."}},
		{FLMEM_FRAMEWORK_FLOWER,
		 FLMEM_ROLE_SIMULATOR_CLIENT,
		 "",
		 {"ray::ClientAppActor.run"}},
	};

	assert_rows(*state, rows, FLMEM_ARRAY_SIZE(rows));
}

static void trainers_are_told_by_their_environment(void **state)
{
	static const char *const command[] = {"python3", "-u", "custom/client.py", NULL};
	static const char *const shell[] = {"/bin/bash", "custom/run.sh", NULL};
	static const char *const ranks[] = {"/usr/bin/python3", "-m", "torch.distributed.run",
					    "custom/client.py", NULL};
	static const char *const up_to_28[] = {"PATH=/bin", "CLIENT_API_TYPE=EX_PROCESS_API", NULL};
	static const char *const in_process[] = {"CLIENT_API_TYPE=IN_PROCESS_API", NULL};
	static const char *const from_29[] = {
		"NVFLARE_CLIENT_API_BOOTSTRAP=/ws/job/app_site-9/client_api_bootstrap_1.json",
		NULL};
	static const struct expectation trainer = {
		FLMEM_FRAMEWORK_NVFLARE, FLMEM_ROLE_TRAINER, "site 7", {NULL}};
	static const struct expectation trainer_29 = {
		FLMEM_FRAMEWORK_NVFLARE, FLMEM_ROLE_TRAINER, "site-9", {NULL}};
	static const struct expectation none = {0, 0, "", {NULL}};

	add_process(*state, 10, 1, command, up_to_28);
	set_directory(*state, 10, "/ws/job/app_site 7");
	assert_identity(*state, 10, &trainer);
	add_process(*state, 11, 1, ranks, from_29);
	assert_identity(*state, 11, &trainer_29);
	add_process(*state, 12, 1, shell, up_to_28);
	assert_identity(*state, 12, &none);
	add_process(*state, 13, 1, command, in_process);
	assert_identity(*state, 13, &none);
	add_process(*state, 14, 1, command, NULL);
	assert_identity(*state, 14, &none);
}

static void the_three_simulator_processes_are_told_apart(void **state)
{
	static const char *const forms[][8] = {
		{"python3", "-m", NVFLARE "simulator.simulator", "job", "-w", "ws", NULL},
		{"/usr/bin/python3", "/usr/local/bin/nvflare", "simulator", "job", "-w", "ws",
		 NULL},
	};
	static const char *const worker[] = {
		"python3", "-m", NVFLARE "simulator.simulator_worker", "--client", "site-1", NULL};
	static const struct expectation server = {
		FLMEM_FRAMEWORK_NVFLARE, FLMEM_ROLE_SIMULATOR_SERVER, "", {NULL}};
	static const struct expectation helper = {
		FLMEM_FRAMEWORK_NVFLARE, FLMEM_ROLE_NONE, "", {NULL}};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(forms); i++) {
		int base = 100 * ((int)i + 1);

		add_process(*state, base, 1, forms[i], NULL);
		add_process(*state, base + 1, base, forms[i], NULL);
		add_process(*state, base + 2, base, forms[i], NULL);
		assert_identity(*state, base + 2, &helper);
		add_process(*state, base + 3, base + 2, worker, NULL);
		assert_identity(*state, base, &helper);
		assert_string_equal(identify(*state, base).part, "simulator launcher");
		assert_identity(*state, base + 1, &helper);
		assert_identity(*state, base + 2, &server);
	}
}

#define SERVER_YAML                                                               \
	"client_configs:\n  train_configs:\n    trainer: VanillaTrainer\n"        \
	"server_configs:\n  num_clients: 2\n  comm_configs:\n    grpc_configs:\n" \
	"      server_uri: localhost:50051\n"
#define GRPC_YAML "comm_configs:\n  grpc_configs:\n    server_uri: localhost:50051\n"
#define CLIENT_YAML                                                             \
	"client_id: \"Client1\"\ntrain_configs:\n  device: cpu\n"               \
	"data_configs:\n  dataset_path: x.py\ncomm_configs:\n  grpc_configs:\n" \
	"    server_uri: localhost:50051\n"

static void appfl_is_told_by_its_configuration(void **state)
{
	const struct tree *tree = *state;
	static const struct expectation rows[] = {
		{FLMEM_FRAMEWORK_APPFL,
		 FLMEM_ROLE_SERVER,
		 "",
		 {"python", "grpc/run_server.py", "--config", "../configs/server.yaml"}},
		{FLMEM_FRAMEWORK_APPFL,
		 FLMEM_ROLE_SERVER,
		 "",
		 {"python", "my_own.py", "--config=/work/configs/server.yaml"}},
		{FLMEM_FRAMEWORK_APPFL,
		 FLMEM_ROLE_CLIENT,
		 "Client1",
		 {"python", "run_client_memray.py", "--config", "../configs/client.yaml"}},
		{FLMEM_FRAMEWORK_APPFL, FLMEM_ROLE_SERVER, "", {"python", "grpc/run_server.py"}},
		{0, 0, "", {"python", "other/run_server.py"}},
		{0, 0, "", {"python", "other/run_client.py", "--config", "../configs/odd.yaml"}},
		{0, 0, "", {"python", "x.py", "--config", "../configs/odd.yaml"}},
		{FLMEM_FRAMEWORK_APPFL,
		 FLMEM_ROLE_CLIENT,
		 "two",
		 {"python", "x.py", "--config", "../configs/bare.yaml"}},
		{FLMEM_FRAMEWORK_APPFL,
		 FLMEM_ROLE_CLIENT,
		 "",
		 {"python", "run_client.py", "--config", "../configs/data.yaml"}},
		{0, 0, "", {"python", "x.py", "--config", "../configs/data.yaml"}},
		{0, 0, "", {"python", "x.py", "--config"}},
		{0, 0, "", {"python", "x.py", "--config", "../../../../../etc/passwd"}},
	};

	tree_puts(tree, "root/work/configs/server.yaml", SERVER_YAML);
	tree_puts(tree, "root/work/configs/client.yaml", CLIENT_YAML);
	tree_puts(tree, "root/work/configs/odd.yaml", "client_id: 7\nother: 1\n");
	tree_puts(tree, "root/work/configs/bare.yaml", "client_id: two\n" GRPC_YAML);
	tree_puts(tree, "root/work/configs/data.yaml", "data_configs:\n  a: 1\n" GRPC_YAML);
	tree_puts(tree, "root/work/examples/grpc/run_server.py",
		  "from appfl.agent import ServerAgent\n");
	tree_puts(tree, "root/work/examples/other/run_server.py", "import flask\n");
	tree_puts(tree, "root/work/examples/other/run_client.py", "import flask\n");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		int pid = 300 + (int)i;

		add_process(tree, pid, 1, rows[i].command, NULL);
		set_directory(tree, pid, "/work/examples");
		assert_identity(tree, pid, &rows[i]);
	}
}

static void mpi_ranks_of_appfl_are_told_by_their_environment(void **state)
{
	static const char *const command[] = {"python", "run_mpi_sync.py", NULL};
	static const char *const first[] = {"OMPI_COMM_WORLD_RANK=0", "SLURM_PROCID=4", NULL};
	static const char *const third[] = {"SLURM_PROCID=2", NULL};
	static const char *const none[] = {"RANK=0", NULL};
	static const struct expectation server = {
		FLMEM_FRAMEWORK_APPFL, FLMEM_ROLE_SERVER, "", {NULL}};
	static const struct expectation client = {
		FLMEM_FRAMEWORK_APPFL, FLMEM_ROLE_CLIENT, "2", {NULL}};
	static const struct expectation unknown = {
		FLMEM_FRAMEWORK_APPFL, FLMEM_ROLE_NONE, "", {NULL}};

	tree_puts(*state, "root/work/run_mpi_sync.py", "import appfl\n");
	add_process(*state, 10, 1, command, first);
	set_directory(*state, 10, "/work");
	assert_identity(*state, 10, &server);
	add_process(*state, 11, 1, command, third);
	set_directory(*state, 11, "/work");
	assert_identity(*state, 11, &client);
	add_process(*state, 12, 1, command, none);
	set_directory(*state, 12, "/work");
	assert_identity(*state, 12, &unknown);
}

static void long_site_names_are_cut(void **state)
{
	char name[1000] = "";
	const char *const command[] = {"python3", "-m", NVFLARE "client.worker_process",
				       "-c",	  name, NULL};

	memset(name, 's', sizeof(name) - 1);
	add_process(*state, 10, 1, command, NULL);
	assert_int_equal(strlen(identify(*state, 10).site), FLMEM_SITE_MAX - 1);
}

/* A framework without its own start script gets another one's. */
static void every_framework_has_a_start_script(void **state)
{
	(void)state;
	assert_null(flmem_start_of(FLMEM_FRAMEWORK_NONE));
	assert_non_null(flmem_start_script_of(FLMEM_FRAMEWORK_NONE));
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++) {
		const struct flmem_start_ops *own = flmem_start_of((*f)->framework);

		assert_ptr_equal(own, (*f)->start);
		assert_ptr_equal(flmem_start_script_of((*f)->framework),
				 own ? own : flmem_start_script_of(FLMEM_FRAMEWORK_NONE));
	}
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, tree_setup, tree_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_framework_has_a_start_script),
		CASE(nvflare_is_told_by_its_modules),
		CASE(what_merely_mentions_a_framework_is_none_of_it),
		CASE(flower_is_told_by_its_programs),
		CASE(trainers_are_told_by_their_environment),
		CASE(the_three_simulator_processes_are_told_apart),
		CASE(appfl_is_told_by_its_configuration),
		CASE(mpi_ranks_of_appfl_are_told_by_their_environment),
		CASE(long_site_names_are_cut),
	};

	return cmocka_run_group_tests_name("frameworks", tests, NULL, NULL);
}
