/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises Flower's processes: console scripts, which Linux runs as "python
 * /path/to/flower-superlink ...", and Ray actors, which rename themselves.
 */
#include <string.h>

#include "base/text/text.h"
#include "frameworks/flower/flower_rules.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"

struct program_row {
	const char *name;
	enum flmem_role role;
	const char *part;
};

/* The last three are the names of releases up to 1.12. */
static const struct program_row flower_programs[] = {
	{"flower-superlink", FLMEM_ROLE_SERVER, "SuperLink"},
	{"flower-supernode", FLMEM_ROLE_CLIENT, "SuperNode"},
	{"flower-superexec", FLMEM_ROLE_NONE, "SuperExec"},
	{"flwr-serverapp", FLMEM_ROLE_SERVER_JOB, "ServerApp"},
	{"flwr-clientapp", FLMEM_ROLE_CLIENT_JOB, "ClientApp"},
	{"flwr-agentapp", FLMEM_ROLE_NONE, "AgentApp"},
	{"flwr-model", FLMEM_ROLE_NONE, "model worker"},
	{"flwr-connector", FLMEM_ROLE_NONE, "connector worker"},
	{"flwr-simulation", FLMEM_ROLE_SIMULATOR_SERVER, "simulation"},
	{"flower-server-app", FLMEM_ROLE_SERVER_JOB, "ServerApp"},
	{"flower-client-app", FLMEM_ROLE_CLIENT_JOB, "ClientApp"},
	{"flower-simulation", FLMEM_ROLE_SIMULATOR_SERVER, "simulation"},
};

static bool recognise_flower(const struct flmem_subject *subject, struct flmem_identity *identity)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(flower_programs); i++) {
		if (strcmp(subject->program.name, flower_programs[i].name) != 0)
			continue;
		identity->role = flower_programs[i].role;
		identity->part = flower_programs[i].part;
		return true;
	}
	/* Ray writes the class and method of the actor over the command line. */
	if (!flmem_text_starts(subject->program.name, "ray::ClientAppActor"))
		return false;
	identity->role = FLMEM_ROLE_SIMULATOR_CLIENT;
	identity->part = "simulation actor";
	return true;
}

/*
 * Texts in logs of releases 1.36 and 1.42: of serverapp/strategy/strategy.py, server/server.py and
 * supernode/start_client_internal.py. Rounds count from 1. The strategies of serverapp/ print no
 * summary.
 */
static const struct flmem_round_marker flower_markers[] = {
	{FLMEM_ROUND_STARTED, "[ROUND ", "/"},
	{FLMEM_ROUND_STARTED, "[ROUND ", "]"},
	{FLMEM_ROUND_STARTED, ", ROUND ", "]"},
	{FLMEM_ROUND_ALL_FINISHED, "[SUMMARY]", NULL},
	{FLMEM_ROUND_ALL_FINISHED, "Strategy execution finished in ", NULL},
	{0},
};

#define LAUNCH_DOUBT "there are no rules for what starts Flower"

static const struct flmem_launch_program flower_launch_programs[] = {
	{.word = "flower-superlink", .role = FLMEM_ROLE_SERVER, .doubt = LAUNCH_DOUBT},
	{.word = "flower-supernode", .role = FLMEM_ROLE_CLIENT, .doubt = LAUNCH_DOUBT},
	{.word = "flower-simulation", .role = FLMEM_ROLE_SIMULATOR_SERVER, .doubt = LAUNCH_DOUBT},
	{.word = "flower-superexec", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	{.word = "flwr-serverapp", .role = FLMEM_ROLE_SERVER, .doubt = LAUNCH_DOUBT},
	{.word = "flwr-clientapp", .role = FLMEM_ROLE_CLIENT, .doubt = LAUNCH_DOUBT},
	{.word = "flwr-simulation", .role = FLMEM_ROLE_SIMULATOR_SERVER, .doubt = LAUNCH_DOUBT},
	{.before = "flwr", .word = "run", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	/* Images, which start the program that their name says. */
	{.word = "flwr/superlink", .role = FLMEM_ROLE_SERVER, .doubt = LAUNCH_DOUBT},
	{.word = "flwr/supernode", .role = FLMEM_ROLE_CLIENT, .doubt = LAUNCH_DOUBT},
	{.word = "flwr/superexec", .role = FLMEM_ROLE_NONE, .doubt = LAUNCH_DOUBT},
	{.word = "flwr/serverapp", .role = FLMEM_ROLE_SERVER, .doubt = LAUNCH_DOUBT},
	{.word = "flwr/clientapp", .role = FLMEM_ROLE_CLIENT, .doubt = LAUNCH_DOUBT},
	{0},
};

static const char *const flower_words[] = {"flwr", "flower-", NULL};

/* Functions of flwr/cli of release 1.42, and of console scripts up to 1.12. */
static const char *const flower_command_functions[] = {"flwr.cli.app.app",
						       "flwr.cli.run.run",
						       "flwr.cli.run.run.run",
						       "flwr.server.app.run_superlink",
						       "flwr.server.run_superlink",
						       "flwr.server.run_server_app",
						       "flwr.server.server_app.run_server_app",
						       "flwr.client.run_supernode",
						       "flwr.client.run_client_app",
						       "flwr.client.supernode.run_supernode",
						       "flwr.client.supernode.app.run_supernode",
						       "flwr.superexec.app.run_superexec",
						       "flwr.superexec.run_superexec",
						       "flwr.simulation.run_simulation_from_cli",
						       NULL};

static const char *const flower_simulator_calls[] = {"run_simulation(", "start_simulation(", NULL};

static const struct flmem_rule_table *const flower_rules[] = {
	&flmem_flower_rules,
	NULL,
};

extern const struct flmem_framework_ops flmem_framework_flower;

const struct flmem_framework_ops flmem_framework_flower = {
	.framework = FLMEM_FRAMEWORK_FLOWER,
	.package = "flwr",
	.recognise = recognise_flower,
	.markers = flower_markers,
	.files = flmem_flower_files,
	.programs = flower_launch_programs,
	.variable_words = flower_words,
	.script_words = flower_words,
	.simulator_calls = flower_simulator_calls,
	.command_functions = flower_command_functions,
	.rules = flower_rules,
	.live_rules = &flmem_flower_live_rules,
	.heap_rules = &flmem_flower_heap_rules,
	.strategies = &flmem_flower_strategies,
};
