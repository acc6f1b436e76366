/* SPDX-License-Identifier: Apache-2.0 */
/* NVFlare's start commands, and the start script of its kits. */
#include "frameworks/start_ops.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

#define SERVER "nvflare.private.fed.app.server.server_train"
#define CLIENT "nvflare.private.fed.app.client.client_train"

static bool make_start_command(const struct flmem_start_request *request,
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

static const char nvflare_start_head[] =
	"#	--verify	checks the signatures of the kit first\n"
	"#	--once		runs the command once, without keeping it alive\n"
	"#	--kit DIR	the kit, if this script is not in its startup folder\n"
	"set -u\n"
	"\n"
	"startup=$(cd \"$(dirname \"$0\")\" && pwd) || exit 1\n"
	"kit=$(dirname \"$startup\")\n"
	"verify=false\n"
	"once=false\n"
	"while [ $# -gt 0 ]; do\n"
	"	case $1 in\n"
	"	--verify) verify=true ;;\n"
	"	--once) once=true ;;\n"
	"	--kit)\n"
	"		shift\n"
	"		kit=$(cd \"${1:-/nowhere}\" && pwd) || exit 2\n"
	"		;;\n"
	"	*)\n"
	"		echo \"usage: $0 [--verify] [--once] [--kit DIR]\" >&2\n"
	"		exit 2\n"
	"		;;\n"
	"	esac\n"
	"	shift\n"
	"done\n"
	"\n"
	"# The workspace is the kit, unless the environment names another, or the kit is a "
	"container's\n"
	"# volume.\n"
	"workspace=${NVFL_WORKSPACE:-}\n"
	"if [ -z \"$workspace\" ]; then\n"
	"	case $kit in\n"
	"	/user_config) workspace=/vault/workspace ;;\n"
	"	/user_config/*) workspace=/vault/workspace/$(basename \"$kit\") ;;\n"
	"	*) workspace=$kit ;;\n"
	"	esac\n"
	"fi\n"
	"mkdir -p \"$workspace\" || exit 1\n"
	"workspace=$(cd \"$workspace\" && pwd) || exit 1\n"
	"if [ \"$workspace\" = / ]; then\n"
	"	echo \"the workspace must not be /\" >&2\n"
	"	exit 1\n"
	"fi\n"
	"\n"
	"# words_of PID: its command line, one word a line.\n"
	"words_of() {\n"
	"	tr '\\0' '\\n' <\"/proc/$1/cmdline\" 2>/dev/null\n"
	"}\n"
	"\n"
	"# is_running FILE: sets other to the number in the file, of a process that runs.\n"
	"is_running() {\n"
	"	[ -f \"$workspace/$1\" ] || return 1\n"
	"	other=$(cat \"$workspace/$1\" 2>/dev/null)\n"
	"	case $other in\n"
	"	'' | *[!0-9]* | \"$$\") return 1 ;;\n"
	"	esac\n"
	"	kill -0 \"$other\" 2>/dev/null\n"
	"}\n"
	"\n"
	"# A lock decides who supervises the workspace. NVFlare's script takes none: it is a shell "
	"whose\n"
	"# number is in the file, and that number may belong to another process by now.\n"
	"is_supervised() {\n"
	"	is_running daemon_pid.fl || return 1\n"
	"	name=$(words_of \"$other\" | head -n 1)\n"
	"	name=${name##*/}\n"
	"	case ${name#-} in\n"
	"	sh | ash | dash | bash | zsh | ksh | ksh93 | mksh | busybox) return 0 ;;\n"
	"	esac\n"
	"	return 1\n"
	"}\n"
	"\n"
	"exec 9<\"$workspace\" || exit 1\n"
	"if { command -v flock >/dev/null && ! flock -n 9; } || is_supervised; then\n"
	"	other=$(cat \"$workspace/daemon_pid.fl\" 2>/dev/null)\n"
	"	echo \"process ${other:-of another script} supervises $workspace already\" >&2\n"
	"	exit 1\n"
	"fi\n"
	"if is_running pid.fl && words_of \"$other\" | grep -qxF -e \"$workspace\"; then\n"
	"	echo \"process $other of an earlier script still runs in $workspace; end it "
	"first\" >&2\n"
	"	exit 1\n"
	"fi\n"
	"\n"
	"# Another workspace gets a copy of the kit as it is now.\n"
	"copy=$kit\n"
	"if [ \"$workspace\" != \"$kit\" ]; then\n"
	"	copy=$workspace/kit\n"
	"	rm -rf \"$copy\" || exit 1\n"
	"	cp -aT \"$kit\" \"$copy\" || exit 1\n"
	"	chmod 700 \"$workspace\" \"$copy\" || exit 1\n"
	"	for name in startup local; do\n"
	"		[ ! -L \"$workspace/$name\" ] || rm -f \"$workspace/$name\"\n"
	"		if [ -e \"$workspace/$name\" ]; then\n"
	"			echo \"$workspace/$name is in the way of a link to the kit\" >&2\n"
	"			exit 1\n"
	"		fi\n"
	"		ln -s \"$copy/$name\" \"$workspace/$name\" || exit 1\n"
	"	done\n"
	"fi\n"
	"\n"
	"if $verify && ! python3 -m nvflare.tool.verify_startup_kits \\\n"
	"	-f \"$copy\" -c \"$copy/startup/rootCA.pem\"; then\n"
	"	echo \"verification of $copy failed\" >&2\n"
	"	exit 1\n"
	"fi\n"
	"\n"
	"mkdir -p \"$workspace/transfer\"\n"
	"export PYTHONPATH=\"/local/custom${PYTHONPATH:+:$PYTHONPATH}\"\n"
	"\n";

static const char middle[] = "\n";

static const char nvflare_start_names[] =
	"# certified NAME FALLBACK: a name in the kit's certificate.\n"
	"certified() {\n"
	"	for certificate in \"$kit/startup/client.crt\" \"$kit/startup/server.crt\"; do\n"
	"		[ -f \"$certificate\" ] || continue\n"
	"		python3 -c 'import sys\n"
	"from cryptography import x509\n"
	"with open(sys.argv[1], \"rb\") as file:\n"
	"    subject = x509.load_pem_x509_certificate(file.read()).subject\n"
	"oid = getattr(x509.oid.NameOID, sys.argv[2])\n"
	"print(subject.get_attributes_for_oid(oid)[0].value)' \"$certificate\" \"$1\" && return\n"
	"	done\n"
	"	echo \"$2\"\n"
	"}\n"
	"\n";

static const char nvflare_start_tail[] =
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
	"	stays=false\n"
	"	rm -f \"$workspace/restart.fl\" || stays=true\n"
	"	run 9<&- &\n"
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
	"		sleep 1 9<&-\n"
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
	"announce daemon_pid.fl $$ || exit 1\n"
	"rm -f \"$workspace/shutdown.fl\"\n"
	"stays=false\n"
	"child=\n"
	"last=-400\n"
	"quick=0\n"
	"trap 'is_alive && kill -TERM \"$child\"; forget; exit 143' TERM INT HUP\n"
	"\n"
	"while :; do\n"
	"	if [ -f \"$workspace/shutdown.fl\" ]; then\n"
	"		is_alive && stop\n"
	"		break\n"
	"	elif ! is_alive; then\n"
	"		start\n"
	"	elif [ -f \"$workspace/restart.fl\" ] && ! $stays; then\n"
	"		stop\n"
	"		start\n"
	"	fi\n"
	"	sleep 1 9<&-\n"
	"done\n"
	"forget\n";

const struct flmem_start_ops flmem_nvflare_start = {
	.command = make_start_command,
	.jemalloc_variable = "NVFLARE_ENABLE_JEMALLOC_PRELOAD",
	.script_kit = "an NVFlare",
	.script_head = nvflare_start_head,
	.script_middle = middle,
	.script_tail = nvflare_start_tail,
	.script_names = nvflare_start_names,
	.script_site = "$(certified COMMON_NAME \"$(basename \"$kit\")\")",
	.script_org = "$(certified ORGANIZATION_NAME '')",
	.script_run = script_run,
};
