/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises processes of NVFlare 2.7 to 2.9. They are Python modules with distinctive names,
 * except the external trainer, which only its environment identifies, and the simulator, which
 * forks.
 */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"
#include "frameworks/nvflare/nvflare_comm.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"
#include "frameworks/nvflare/troubleshooting/nvflare_troubleshooting.h"
#include "proc/command.h"
#include "proc/process.h"

#define APP	  "nvflare.private.fed.app."
#define SIMULATOR APP "simulator.simulator"
#define WORKER	  APP "simulator.simulator_worker"

/*
 * Microseconds after a request to stop, which is written first: 3 s, twice 1.5 s, then closing. The
 * processes have no handler for SIGTERM.
 */
#define EXIT_US UINT64_C(10000000)

/* Where the command line of a program names its site. */
enum site_place {
	SITE_NONE,
	SITE_OPTION,  /* after the option `site_key` */
	SITE_SETTING, /* in --set ... KEY=SITE */
};

struct module_row {
	const char *module;
	const char *part;
	enum flmem_role role;
	enum site_place site_place;
	const char *site_key;
};

static const struct module_row modules[] = {
	{APP "server.server_train", "server parent", FLMEM_ROLE_SERVER, SITE_NONE, NULL},
	{APP "server.runner_process", "server job", FLMEM_ROLE_SERVER_JOB, SITE_NONE, NULL},
	{APP "client.client_train", "client parent", FLMEM_ROLE_CLIENT, SITE_SETTING, "uid"},
	{APP "client.worker_process", "client job", FLMEM_ROLE_CLIENT_JOB, SITE_OPTION, "-c"},
	{APP "client.sub_worker_process", "sub worker", FLMEM_ROLE_CLIENT_JOB, SITE_NONE, NULL},
	{APP "relay.relay", "relay", FLMEM_ROLE_NONE, SITE_SETTING, "uid"},
	{WORKER, "simulator client", FLMEM_ROLE_SIMULATOR_CLIENT, SITE_OPTION, "--client"},
};

static bool is_simulator(const struct flmem_argv_env *command, const struct flmem_program *program)
{
	if (program->module)
		return strcmp(program->module, SIMULATOR) == 0;
	return program->script && strcmp(program->name, "nvflare") == 0 &&
	       program->arguments < command->count &&
	       strcmp(command->values[program->arguments], "simulator") == 0;
}

static bool runs_simulator(const struct flmem_argv_env *command)
{
	struct flmem_program program;

	flmem_program_parse(command, &program);
	return is_simulator(command, &program);
}

static bool runs_worker(const struct flmem_argv_env *command)
{
	struct flmem_program program;

	flmem_program_parse(command, &program);
	return program.module && strcmp(program.module, WORKER) == 0;
}

/*
 * Identifies a process of the simulator. Three share its command line: one that waits, a
 * multiprocessing manager, and the server, which alone starts the workers. Before the first worker
 * they look alike.
 */
static void identify_simulator(const struct flmem_subject *subject, struct flmem_identity *identity)
{
	const struct flmem_process *process = subject->process;

	if (flmem_relatives_has_child(subject->relatives, process->pid, runs_worker)) {
		identity->role = FLMEM_ROLE_SIMULATOR_SERVER;
		identity->part = "simulator server";
	} else if (flmem_relatives_has_child(subject->relatives, process->pid, runs_simulator)) {
		identity->part = "simulator launcher";
	} else if (flmem_relatives_is(subject->relatives, process->parent, runs_simulator)) {
		identity->part = "simulator manager, or a server without clients";
	} else {
		identity->part = "simulator";
	}
}

/* Sets the site by the directory of a trainer's job, which is <workspace>/<job>/app_<site>. */
static void set_site_from_directory(const char *path, struct flmem_identity *identity)
{
	static const char prefix[] = "app_";
	const char *name = flmem_text_basename(path);

	if (flmem_text_starts(name, prefix))
		flmem_identity_set_site(identity, name + strlen(prefix));
}

static void set_trainer_site(const struct flmem_subject *subject, const char *bootstrap,
			     struct flmem_identity *identity)
{
	char path[4096];
	char *slash;

	if (bootstrap) {
		snprintf(path, sizeof(path), "%s", bootstrap);
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
		set_site_from_directory(path, identity);
	} else if (flmem_process_readlink(subject->process, "cwd", path, sizeof(path)) == 0) {
		set_site_from_directory(path, identity);
	}
}

/*
 * Recognises an external trainer. Up to 2.8 the job marks it by the type of the client API, from
 * 2.9 on by a file. A shell that starts the trainer inherits these marks, but holds no model.
 */
static bool recognise_trainer(const struct flmem_subject *subject, struct flmem_identity *identity)
{
	const char *type, *bootstrap;

	if (!subject->environment || flmem_command_is_shell(subject->program.name))
		return false;
	type = flmem_argv_env_getenv(subject->environment, "CLIENT_API_TYPE");
	bootstrap = flmem_argv_env_getenv(subject->environment, "NVFLARE_CLIENT_API_BOOTSTRAP");
	if (!bootstrap && !(type && strcmp(type, "EX_PROCESS_API") == 0))
		return false;
	identity->role = FLMEM_ROLE_TRAINER;
	identity->part = "external trainer";
	set_trainer_site(subject, bootstrap, identity);
	return true;
}

static void set_site(const struct flmem_subject *subject, const struct module_row *row,
		     struct flmem_identity *identity)
{
	const char *site = NULL;

	if (row->site_place == SITE_OPTION)
		site = flmem_program_option(subject->command, &subject->program, row->site_key);
	else if (row->site_place == SITE_SETTING)
		site = flmem_program_setting(subject->command, &subject->program, "--set",
					     row->site_key);
	flmem_identity_set_site(identity, site);
}

static bool recognise_nvflare(const struct flmem_subject *subject, struct flmem_identity *identity)
{
	if (is_simulator(subject->command, &subject->program)) {
		identify_simulator(subject, identity);
		return true;
	}
	for (size_t i = 0; subject->program.module && i < FLMEM_ARRAY_SIZE(modules); i++) {
		const struct module_row *row = &modules[i];

		if (strcmp(subject->program.module, row->module) != 0)
			continue;
		identity->role = row->role;
		identity->part = row->part;
		set_site(subject, row, identity);
		return true;
	}
	return recognise_trainer(subject, identity);
}

/*
 * Texts in logs of releases 2.7 to 2.9, from the sources of 2.8.1: app_common/workflows,
 * app_common/ccwf and private/fed. FedAvg centres its line between two lines of dashes. A client
 * without its own workflow does not receive the round number, so its tasks are counted; with
 * NVFLARE_CLIENT_MEMORY_PROFILE it logs the number.
 */
static const struct flmem_round_marker nvflare_markers[] = {
	{FLMEM_ROUND_STARTED, "Round ", " started."},
	{FLMEM_ROUND_FINISHED, "Round ", " finished"}, /* sage: "in SECONDS seconds" */
	{FLMEM_ROUND_STARTED, "--- FL Round ", "/"},
	{FLMEM_ROUND_STARTED, "Starting new round ", " on clients"},
	{FLMEM_ROUND_STARTED, "started training round ", NULL},
	{FLMEM_ROUND_FINISHED, "finished training round ", NULL},
	{FLMEM_ROUND_FINISHED, "Finished round ", NULL},
	{FLMEM_ROUND_STARTED, " r=", " recv: "},
	{FLMEM_ROUND_COUNTED_START, "got task assignment: name=train,", NULL},
	{FLMEM_ROUND_COUNTED_END, "finished processing task", NULL},
	{FLMEM_ROUND_ALL_FINISHED, "Finished FedAvg.", NULL},
	{FLMEM_ROUND_ALL_FINISHED, "Server runner finished.", NULL},
	{0},
};

/* sub_start.sh sets MALLOC_ARENA_MAX if it is not set, for servers and clients alike. */
#define KIT_DOUBT "the start script of a kit sets variables, too: also pass its sub_start.sh"
#define JOB_DOUBT "the settings are in the job: also pass its folder"

/*
 * Names of sites and folders that nvflare provision and poc create: other programs have a "startup"
 * with a start.sh, too.
 */
static const char *const kit_marks[] = {"nvfl",	       "nvidia flare", "prod_0",      "site-1",
					"site-2",      "server1",      "fl_admin",    "/kit",
					"startup kit", "startup-kit",  "startup_kit", NULL};

#define KIT  .role = FLMEM_ROLE_NONE, .doubt = KIT_DOUBT
#define JOB  .role = FLMEM_ROLE_NONE, .doubt = JOB_DOUBT
#define VERB .of = "nvflare"

static const struct flmem_launch_program nvflare_programs[] = {
	{.word = "nvflare.private.fed.app.server.server_train", .role = FLMEM_ROLE_SERVER},
	{.word = "nvflare.private.fed.app.client.client_train", .role = FLMEM_ROLE_CLIENT},
	{.word = "nvflare.private.fed.app.simulator.simulator",
	 .role = FLMEM_ROLE_SIMULATOR_SERVER},
	{.before = "nvflare", .word = "simulator", .role = FLMEM_ROLE_SIMULATOR_SERVER},
	{.before = "nvflare.cli", .word = "simulator", .role = FLMEM_ROLE_SIMULATOR_SERVER},
	{.before = "nvflare",
	 .word = "$",
	 .role = FLMEM_ROLE_NONE,
	 .doubt = "what nvflare does is known only when the file runs"},
	{.word = "startup/start.sh", .marks = kit_marks, KIT},
	{.word = "startup/sub_start.sh", KIT},
	{.before = "poc", .word = "start", VERB, KIT},
	{.before = "job", .word = "create", VERB, JOB},
	{.before = "job", .word = "submit", VERB, JOB},
	{0},
};

static const char *const variables[] = {
	FLMEM_NVFLARE_GC_ROUNDS,    FLMEM_NVFLARE_CUDA_EMPTY_CACHE, FLMEM_NVFLARE_JEMALLOC_PRELOAD,
	FLMEM_NVFLARE_TENSOR_CHUNK, FLMEM_NVFLARE_NUMPY_CHUNK,	    FLMEM_NVFLARE_COMM_CHUNK,
	FLMEM_NVFLARE_COMM_WINDOW,  FLMEM_NVFLARE_COMM_ACK,	    FLMEM_NVFLARE_COMM_MESSAGE,
	FLMEM_NVFLARE_COMM_BLOB,    FLMEM_NVFLARE_COMM_RETRY,	    NULL};

/* Parts by which names of variables are recognised that resemble those of NVFlare. */
static const char *const variable_parts[] = {
	"GC_ROUND", "EMPTY_CACHE", "JEMALLOC", "DOWNLOAD_CHUNK", "STREAMING_", "MAX_M", NULL};

/*
 * The package, start scripts of a kit, and the usual name of the script that makes and runs a job.
 */
static const char *const variable_words[] = {
	"NVFLARE", "NVFlare", "nvflare", "startup/start.sh", "startup/sub_start.sh",
	"job.py",  NULL};

/* The package; in capitals as the folder of its repository, and in variables. */
static const char *const script_words[] = {"nvflare", "NVFlare", "NVFLARE", "job.py", NULL};

static const char *const nvflare_command_functions[] = {"nvflare.cli.main", "nvflare.cli.run",
							NULL};

static const char *const nvflare_simulator_calls[] = {"SimEnv(", "simulator_run(",
						      "SimulatorRunner(", NULL};

static const struct flmem_rule_table *const nvflare_rules[] = {
	&flmem_nvflare_server_rules,	&flmem_nvflare_client_rules,
	&flmem_nvflare_offload_rules,	&flmem_nvflare_interval_rules,
	&flmem_nvflare_python_rules,	&flmem_nvflare_call_rules,
	&flmem_nvflare_import_rules,	&flmem_nvflare_script_rules,
	&flmem_nvflare_elsewhere_rules, &flmem_nvflare_environ_rules,
	&flmem_nvflare_launch_rules,	&flmem_nvflare_launch_doubts,
	&flmem_nvflare_value_rules,	&flmem_nvflare_variable_rules,
	&flmem_nvflare_key_rules,	&flmem_nvflare_ignored_rules,
	&flmem_nvflare_launcher_rules,	&flmem_nvflare_collector_rules,
	&flmem_nvflare_cleanup_rules,	&flmem_nvflare_comm_rules,
	&flmem_nvflare_set_rules,	&flmem_nvflare_limit_rules,
	&flmem_nvflare_spec_rules,	NULL,
};

static const struct flmem_module_kinds module_kinds = {
	.script = &flmem_nvflare_python_file,
	.module = &flmem_nvflare_module_file,
};

extern const struct flmem_framework_ops flmem_framework_nvflare;

const struct flmem_framework_ops flmem_framework_nvflare = {
	.framework = FLMEM_FRAMEWORK_NVFLARE,
	.package = "nvflare",
	.recognise = recognise_nvflare,
	.markers = nvflare_markers,
	.files = flmem_nvflare_files,
	.module_kinds = &module_kinds,
	.jobs = &flmem_nvflare_jobs,
	.programs = nvflare_programs,
	.variables = variables,
	.variable_parts = variable_parts,
	.variable_words = variable_words,
	.script_words = script_words,
	.simulator_calls = nvflare_simulator_calls,
	.command_functions = nvflare_command_functions,
	.variable_prefix = "NVFLARE_",
	.settings = flmem_nvflare_settings,
	.setting_syntaxes = flmem_nvflare_setting_syntaxes,
	.start = &flmem_nvflare_start,
	.exit_us = EXIT_US,
	.offloads = flmem_role_is_server,
	.offload_unread = "read only for NVFlare servers",
	.own_gc_rounds = flmem_nvflare_own_gc_rounds,
	.rules = nvflare_rules,
	.strategies = &flmem_nvflare_strategies,
	.troubles = flmem_nvflare_troubles,
	.live_rules = &flmem_nvflare_live_rules,
	.leftover = &flmem_nvflare_leftover,
	.trend_rules = &flmem_nvflare_trend_rules,
	.heap_rules = &flmem_nvflare_heap_rules,
	.facts = &flmem_nvflare_facts,
	.facts_init = flmem_nvflare_facts_init,
};
