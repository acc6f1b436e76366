/* SPDX-License-Identifier: Apache-2.0 */
/* NVFlare's start commands, and the start script of its kits. */
#include "frameworks/start.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "frameworks/nvflare/nvflare_rules.h"

#define SERVER "nvflare.private.fed.app.server.server_train"
#define CLIENT "nvflare.private.fed.app.client.client_train"

static bool command(const struct flmem_start_request *request,
		    struct flmem_start_command *ret_command)
{
	bool client = request->role != FLMEM_ROLE_SERVER;
	char *site = ret_command->values[0], *org = ret_command->values[1];
	const char *const words[] = {"python3",
				     "-u",
				     "-m",
				     client ? CLIENT : SERVER,
				     "-m",
				     request->workspace,
				     "-s",
				     client ? "fed_client.json" : "fed_server.json",
				     "--set",
				     "secure_train=true",
				     org,
				     "config_folder=config",
				     client ? site : NULL,
				     NULL};

	if (request->role == FLMEM_ROLE_TRAINER)
		return false;
	snprintf(site, FLMEM_START_VALUE_MAX, "uid=%s", request->site);
	snprintf(org, FLMEM_START_VALUE_MAX, "org=%s", request->org);
	memcpy(ret_command->words, words, sizeof(words));
	return true;
}

#define RUN(module, file, site)                                                    \
	"run() {\n"                                                                \
	"	exec python3 -u -m " module " -m \"$workspace\" \\\n"              \
	"		-s " file " --set secure_train=true " site "\"org=$org\" " \
	"config_folder=config\n}\n"

static const char *script_run(enum flmem_role role)
{
	return role == FLMEM_ROLE_SERVER ? RUN(SERVER, "fed_server.json", "")
					 : RUN(CLIENT, "fed_client.json", "\"uid=$site\" ");
}

static const char head[] =
	"#	--verify	checks the startup kits first\n"
	"#	--once		runs the command once, without keeping it alive\n"
	"set -u\n"
	"\n"
	"startup=$(cd \"$(dirname \"$0\")\" && pwd) || exit 1\n"
	"kit=$(dirname \"$startup\")\n"
	"verify=false\n"
	"once=false\n"
	"for argument in \"$@\"; do\n"
	"	case $argument in\n"
	"	--verify) verify=true ;;\n"
	"	--once) once=true ;;\n"
	"	*)\n"
	"		echo \"usage: $0 [--verify] [--once]\" >&2\n"
	"		exit 2\n"
	"		;;\n"
	"	esac\n"
	"done\n"
	"\n"
	"# The workspace is the kit, unless the environment or a container's volume names "
	"another.\n"
	"workspace=${NVFL_WORKSPACE:-}\n"
	"if [ -z \"$workspace\" ] && [ -d /user_config ]; then\n"
	"	workspace=/vault/workspace\n"
	"fi\n"
	"workspace=${workspace:-$kit}\n"
	"mkdir -p \"$workspace\" || exit 1\n"
	"workspace=$(cd \"$workspace\" && pwd) || exit 1\n"
	"if [ \"$workspace\" != \"$kit\" ]; then\n"
	"	mkdir -p \"$workspace/kit\" && cp -R \"$kit/.\" \"$workspace/kit\" || exit 1\n"
	"	for name in startup local; do\n"
	"		[ -e \"$workspace/$name\" ] || ln -s \"kit/$name\" \"$workspace/$name\"\n"
	"	done\n"
	"fi\n"
	"\n";

static const char middle[] =
	"\n"
	"if $verify; then\n"
	"	(cd \"$kit\" && python3 -m nvflare.tool.verify_startup_kits) || exit 1\n"
	"fi\n"
	"\n";

static const char tail[] =
	"\n"
	"if $once; then\n"
	"	run\n"
	"fi\n"
	"\n"
	"forget() {\n"
	"	rm -f \"$workspace/pid.fl\" \"$workspace/shutdown.fl\" \"$workspace/restart.fl\" "
	"\\\n"
	"		\"$workspace/daemon_pid.fl\"\n"
	"}\n"
	"\n"
	"# announce FILE PID: readers never see half a number; a link is not followed.\n"
	"announce() {\n"
	"	rm -f \"$workspace/$1.$$\"\n"
	"	(set -C && echo \"$2\" >\"$workspace/$1.$$\") &&\n"
	"		mv \"$workspace/$1.$$\" \"$workspace/$1\"\n"
	"}\n"
	"\n"
	"is_alive() {\n"
	"	[ -n \"$child\" ] && kill -0 \"$child\" 2>/dev/null\n"
	"}\n"
	"\n"
	"start() {\n"
	"	now=$(date +%s)\n"
	"	if [ $((now - last)) -lt 300 ]; then\n"
	"		quick=$((quick + 1))\n"
	"	else\n"
	"		quick=0\n"
	"	fi\n"
	"	if [ \"$quick\" -ge 5 ]; then\n"
	"		echo \"System is in trouble and unable to start the task!!!!!\" >&2\n"
	"		forget\n"
	"		exit 1\n"
	"	fi\n"
	"	last=$now\n"
	"	rm -f \"$workspace/restart.fl\"\n"
	"	run &\n"
	"	child=$!\n"
	"	announce pid.fl \"$child\"\n"
	"}\n"
	"\n"
	"# wait_for SECONDS: succeeds when the command has ended by then.\n"
	"wait_for() {\n"
	"	left=$1\n"
	"	while is_alive; do\n"
	"		[ \"$left\" -gt 0 ] || return 1\n"
	"		left=$((left - 1))\n"
	"		sleep 1\n"
	"	done\n"
	"}\n"
	"\n"
	"# NVFlare writes a request first and then ends in order by itself; it has no SIGTERM "
	"handler.\n"
	"stop() {\n"
	"	wait_for 10 && return\n"
	"	kill -TERM \"$child\" 2>/dev/null\n"
	"	wait_for 5 && return\n"
	"	kill -KILL \"$child\" 2>/dev/null\n"
	"}\n"
	"\n"
	"other=$(cat \"$workspace/daemon_pid.fl\" 2>/dev/null)\n"
	"if [ -n \"$other\" ] && kill -0 \"$other\" 2>/dev/null; then\n"
	"	echo \"process $other supervises $workspace already\" >&2\n"
	"	exit 1\n"
	"fi\n"
	"announce daemon_pid.fl $$ || exit 1\n"
	"rm -f \"$workspace/shutdown.fl\"\n"
	"child=\n"
	"last=-400\n"
	"quick=0\n"
	"trap 'is_alive && kill -TERM \"$child\"; forget; exit 143' TERM INT HUP\n"
	"\n"
	"while :; do\n"
	"	if [ -e \"$workspace/shutdown.fl\" ]; then\n"
	"		is_alive && stop\n"
	"		break\n"
	"	elif ! is_alive; then\n"
	"		start\n"
	"	elif [ -e \"$workspace/restart.fl\" ]; then\n"
	"		stop\n"
	"		start\n"
	"	fi\n"
	"	sleep 1\n"
	"done\n"
	"forget\n";

const struct flmem_start_ops flmem_nvflare_start = {
	.command = command,
	.jemalloc_variable = "NVFLARE_ENABLE_JEMALLOC_PRELOAD",
	.script_kit = "an NVFlare",
	.script_head = head,
	.script_middle = middle,
	.script_tail = tail,
	.script_run = script_run,
};
