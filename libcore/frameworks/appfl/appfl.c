/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises APPFL's processes. APPFL installs no programs: jobs are scripts with customary names
 * that read a YAML file, whose outermost keys distinguish a server from a client. A name alone
 * proves nothing.
 */
#include <errno.h>
#include <string.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "base/text/yaml_keys.h"
#include "frameworks/appfl/appfl_rules.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"
#include "proc/process.h"

#define CONFIG_MAX ((size_t)256 << 10)
#define SCRIPT_MAX ((size_t)256 << 10)

enum script_kind {
	SCRIPT_OTHER,
	SCRIPT_SERVER,
	SCRIPT_CLIENT,
	SCRIPT_MPI, /* rank 0 is the server */
};

struct script_row {
	const char *start; /* start of the file name */
	enum script_kind kind;
};

static const struct script_row scripts[] = {
	{"run_server", SCRIPT_SERVER},
	{"run_client", SCRIPT_CLIENT},
	{"run_mpi", SCRIPT_MPI},
};

/*
 * Environment variables in which launchers pass the rank: Open MPI, MPICH and its derivatives,
 * PMIx, Slurm.
 */
static const char *const rank_variables[] = {
	"OMPI_COMM_WORLD_RANK",
	"PMI_RANK",
	"PMIX_RANK",
	"SLURM_PROCID",
};

struct appfl_config_keys {
	bool server_configs, client_id, comm_configs, data_configs;
	char site[FLMEM_SITE_MAX];
};

static void visit_key(void *context, const char *key, const char *value)
{
	struct appfl_config_keys *config = context;

	if (strcmp(key, "server_configs") == 0)
		config->server_configs = true;
	else if (strcmp(key, "comm_configs") == 0)
		config->comm_configs = true;
	else if (strcmp(key, "data_configs") == 0)
		config->data_configs = true;
	if (strcmp(key, "client_id") != 0)
		return;
	config->client_id = true;
	if (value && strlen(value) < sizeof(config->site))
		memcpy(config->site, value, strlen(value) + 1);
}

/* Reads at most `limit` bytes of a file as the process sees it. Returns 0 or a negative errno. */
static int read_process_file(const struct flmem_process *process, const char *path, size_t limit,
			     struct flmem_buf *buf)
{
	FLMEM_AUTO_CLOSE int fd = flmem_process_open_path(process, path);

	return fd < 0 ? fd : flmem_io_read_all(fd, limit, buf);
}

static int read_config(const struct flmem_subject *subject, const char *path,
		       struct appfl_config_keys *ret_config)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc = read_process_file(subject->process, path, CONFIG_MAX, &buf);

	if (!rc)
		flmem_yaml_top_keys(buf.data, buf.length, visit_key, ret_config);
	return rc;
}

static bool script_mentions_appfl(const struct flmem_subject *subject)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

	read_process_file(subject->process, subject->program.script, SCRIPT_MAX, &buf);
	return memmem(buf.data, buf.length, "appfl", strlen("appfl"));
}

static enum script_kind script_kind(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(scripts); i++)
		if (flmem_text_starts(name, scripts[i].start) && flmem_text_ends(name, ".py"))
			return scripts[i].kind;
	return SCRIPT_OTHER;
}

static void set_server(struct flmem_identity *identity)
{
	identity->role = FLMEM_ROLE_SERVER;
	identity->part = "server";
}

static void set_client(struct flmem_identity *identity, const char *site)
{
	identity->role = FLMEM_ROLE_CLIENT;
	identity->part = "client";
	flmem_identity_set_site(identity, site);
}

static void identify_by_rank(const struct flmem_subject *subject, struct flmem_identity *identity)
{
	const char *rank = NULL;

	identity->part = "MPI process";
	for (size_t i = 0; subject->environment && !rank && i < FLMEM_ARRAY_SIZE(rank_variables);
	     i++)
		rank = flmem_argv_env_getenv(subject->environment, rank_variables[i]);
	if (!rank)
		return;
	if (strcmp(rank, "0") == 0)
		set_server(identity);
	else
		set_client(identity, rank);
}

static bool identify_by_config(const struct appfl_config_keys *config, bool named,
			       struct flmem_identity *identity)
{
	if (config->server_configs)
		set_server(identity);
	else if (config->comm_configs && (config->client_id || (named && config->data_configs)))
		set_client(identity, config->site);
	else
		return false;
	return true;
}

static void identify_by_name(enum script_kind kind, struct flmem_identity *identity)
{
	if (kind == SCRIPT_SERVER)
		set_server(identity);
	else
		set_client(identity, NULL);
}

static bool recognise_appfl(const struct flmem_subject *subject, struct flmem_identity *identity)
{
	const struct flmem_program *program = &subject->program;
	enum script_kind kind = program->script ? script_kind(program->name) : SCRIPT_OTHER;
	const char *path = flmem_program_option(subject->command, program, "--config");
	struct appfl_config_keys config = {0};
	int rc;

	if (!program->script)
		return false;
	if (kind == SCRIPT_MPI) {
		if (!script_mentions_appfl(subject))
			return false;
		identify_by_rank(subject, identity);
		return true;
	}
	rc = path ? read_config(subject, path, &config) : 0;
	if (identify_by_config(&config, kind != SCRIPT_OTHER, identity))
		return true;
	if (kind == SCRIPT_OTHER)
		return false;
	/* Without permission to read the files, decide by the script's name and its option. */
	if (rc != -EACCES && rc != -EPERM && !script_mentions_appfl(subject))
		return false;
	identify_by_name(kind, identity);
	return true;
}

/*
 * Texts in logs of release 1.12: of comm/grpc/grpc_server_communicator.py, the communicators of
 * comm/mpi, ray and globus_compute (whose tasks have the name that the scripts give them), and
 * algorithm/trainer/vanilla_trainer.py. The server does not log round numbers, so a round lasts
 * until its first client sends again; clients write a table row for each round or epoch. Other
 * trainers log no such text.
 */
static const struct flmem_round_marker appfl_markers[] = {
	{FLMEM_ROUND_CLIENT, "Received UpdateGlobalModel request from client ", NULL},
	{FLMEM_ROUND_CLIENT, "Received UpdateGlobalModel request from batched clients: ", NULL},
	{FLMEM_ROUND_CLIENT, "Received UpdateGlobalModel request from ", " [MPI rank "},
	{FLMEM_ROUND_CLIENT, "Received results of task 'train' from ", NULL},
	{FLMEM_ROUND_CLIENT_CHUNK, "processing chunk [", "] from client "},
	{FLMEM_ROUND_TABLE_ROW, "appfl: ", NULL},
	{FLMEM_ROUND_ALL_FINISHED, "Terminating the server", NULL},
	{0},
};

#define LAUNCH_DOUBT "there are no rules for what starts APPFL"

/* Modules of the package that start processes, and scripts of users with customary names. */
static const struct flmem_launch_program appfl_launch_programs[] = {
	{.word = "appfl.run_grpc_server", .role = FLMEM_ROLE_SERVER, .doubt = LAUNCH_DOUBT},
	{.word = "appfl.run_grpc_client", .role = FLMEM_ROLE_CLIENT, .doubt = LAUNCH_DOUBT},
	{.word = "appfl.run_globus_compute_server",
	 .role = FLMEM_ROLE_SERVER,
	 .doubt = LAUNCH_DOUBT},
	{.word = "appfl.run_serial", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	{.word = "appfl.run_mpi", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	{.word = "appfl.run_mpi_async", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	{.word = "appfl.run_mpi_compass", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	{.word = "appfl.run_mpi_sync", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	{0},
};

/* APPFL in capitals is the folder of its repository. */
static const char *const appfl_words[] = {"appfl", "APPFL", NULL};

static const char *const config_words[] = {"server_configs:", "grpc_configs:", NULL};

static const struct flmem_rule_table *const appfl_rules[] = {
	&flmem_appfl_rules,
	&flmem_appfl_message_rules,
	&flmem_appfl_python_rules,
	NULL,
};

extern const struct flmem_framework_ops flmem_framework_appfl;

const struct flmem_framework_ops flmem_framework_appfl = {
	.framework = FLMEM_FRAMEWORK_APPFL,
	.package = "appfl",
	.recognise = recognise_appfl,
	.markers = appfl_markers,
	.files = flmem_appfl_files,
	.programs = appfl_launch_programs,
	.variable_words = appfl_words,
	.script_words = appfl_words,
	.config_words = config_words,
	.rules = appfl_rules,
	.strategies = &flmem_appfl_strategies,
	.heap_rules = &flmem_appfl_heap_rules,
};
