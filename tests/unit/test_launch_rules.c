/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rules about what starts NVFlare: files that must trigger them, and near misses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "findings.h"

#include "tree.h"

#define SERVER	 "python3 -u -m nvflare.private.fed.app.server.server_train -m ws\n"
#define CLIENT	 "python3 -u -m nvflare.private.fed.app.client.client_train -m ws\n"
#define JEMALLOC "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 "
#define DECAY	 "MALLOC_CONF=dirty_decay_ms:5000,muzzy_decay_ms:5000 "
#define COMPOSE(env)                                                       \
	"services:\n  site-1:\n    image: fl\n    command: [python3, -m, " \
	"nvflare.private.fed.app.client.client_train]\n" env
#define POD(env)                                                              \
	"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: server\n" \
	"    args: ['python3 -m nvflare.private.fed.app.server.server_train']\n" env

struct row {
	const char *rule, *file, *text;
	size_t hits;
	const char *proposed; /* the proposed correction; NULL: any */
	const char *version;
};

#define RESOURCES(path, args) "{\"components\": [{\"path\": \"" path "\", \"args\": {" args "}}]}"
#define DOCKER_SERVER	      "nvflare.app_opt.job_launcher.docker_launcher.ServerDockerJobLauncher"
#define SLURM_CLIENT	      "nvflare.app_opt.job_launcher.slurm.ClientSlurmJobLauncher"
#define K8S_CLIENT	      "nvflare.app_opt.job_launcher.k8s_launcher.ClientK8sJobLauncher"
#define LOST		      "NVF-LAUNCHER-ENV-LOST"

static const struct row rows[] = {
	{LOST, "local/resources.json.default", RESOURCES(DOCKER_SERVER, ""), 1, NULL, NULL},
	{LOST, "local/resources.json", RESOURCES(DOCKER_SERVER, "\"default_job_env\": {\"A\": 1}"),
	 1, NULL, NULL},
	{LOST, "local/resources.json",
	 RESOURCES(DOCKER_SERVER, "\"default_job_env\": {\"MALLOC_ARENA_MAX\": \"4\"}"), 0, NULL,
	 NULL},
	{LOST, "local/resources.json",
	 RESOURCES(DOCKER_SERVER, "\"default_job_env\": {\"LD_PRELOAD\": \"/l.so\"}"), 0, NULL,
	 NULL},
	{LOST, "local/resources.json",
	 RESOURCES("nvflare.app_common.job_launcher.x.ServerProcessJobLauncher", ""), 0, NULL,
	 NULL},
	{LOST, "local/resources.json", RESOURCES(DOCKER_SERVER, ""), 0, NULL, "2.7"},
	{LOST, "local/resources.json", RESOURCES(SLURM_CLIENT, ""), 1, NULL, NULL},
	{LOST, "local/resources.json", RESOURCES(SLURM_CLIENT, "\"setup\": \"module load x\""), 1,
	 NULL, NULL},
	{LOST, "local/resources.json",
	 RESOURCES(SLURM_CLIENT, "\"setup\": \"export MALLOC_ARENA_MAX=2\""), 0, NULL, NULL},
	{LOST, "local/resources.json", RESOURCES(SLURM_CLIENT, "\"setup\": \"source /etc/fl.sh\""),
	 0, NULL, NULL},
	{LOST, "local/resources.json",
	 RESOURCES(SLURM_CLIENT, "\"sandbox\": \"none\", \"setup\": \"export MALLOC_ARENA_MAX=2\""),
	 0, NULL, NULL},
	{LOST, "local/resources.json",
	 RESOURCES(SLURM_CLIENT,
		   "\"sandbox\": \"pyxis\", \"setup\": \"export MALLOC_ARENA_MAX=2\""),
	 1, NULL, NULL},
	{LOST, "local/resources.json",
	 RESOURCES(SLURM_CLIENT,
		   "\"sandbox\": \"pyxis\", \"forward_env\": [\"A\", \"MALLOC_ARENA_MAX\"], "
		   "\"setup\": \"export MALLOC_ARENA_MAX=2\""),
	 0, NULL, NULL},
	{LOST, "docker.yaml", "runtime: docker\njob_launcher:\n  default_job_env: {}\n", 1, NULL,
	 NULL},
	{LOST, "slurm.yml", "runtime: slurm\njob_launcher:\n  sandbox: none\n", 1, NULL, NULL},
	{LOST, "slurm.yaml",
	 "runtime: slurm\njob_launcher:\n  setup: |\n    export MALLOC_ARENA_MAX=2\n", 0, NULL,
	 NULL},
	{LOST, "local/resources.json", RESOURCES(K8S_CLIENT, ""), 1, NULL, NULL},
	{LOST, "local/resources.json",
	 RESOURCES(K8S_CLIENT, "\"default_job_env\": {\"MALLOC_ARENA_MAX\": \"2\"}"), 1, NULL,
	 NULL},
	{LOST, "local/resources.json", RESOURCES(K8S_CLIENT, ""), 0, NULL, "2.7"},
	{LOST, "k8s.yaml", "runtime: k8s\njob_launcher:\n  pending_timeout: 30\n", 1, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", SERVER, 1, "4", NULL},
	{"NVF-ARENA-UNSET", "run.sh", CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "nvflare simulator job -n 2\n", 1, "4", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "nvflare simulators job\nnvflare poc simulator\n", 0, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "run.sh", "/opt/bin/nvflare simulator job\n", 1, "4", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "MALLOC_ARENA_MAX=4 " SERVER CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "MALLOC_ARENA_MAX=4 \\\n  " SERVER, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "docker.sh", "docker run image /bin/bash -c \"" CLIENT "\"\n", 1, "2",
	 NULL},
	{"NVF-ARENA-UNSET", "docker.sh",
	 "docker run -e MALLOC_ARENA_MAX=2 i bash -lc '" CLIENT "'\n", 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "sh -c 'MALLOC_ARENA_MAX=2 " CLIENT "'\n", 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "echo '" CLIENT "'\n", 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "MALLOC_ARENA_MAX=2\n" CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "MALLOC_ARENA_MAX=2 env | sort\n" CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "MALLOC_ARENA_MAX=2\nexport X MALLOC_ARENA_MAX\n" CLIENT, 0,
	 NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "export MALLOC_ARENA_MAX\nMALLOC_ARENA_MAX=2\n" CLIENT, 0,
	 NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "set -a\nMALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "set -o allexport\nMALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "run.sh", "declare -gx MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "declare MALLOC_ARENA_MAX=2\n" CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "set -e\nMALLOC_ARENA_MAX=2\n" CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "export GLIBC_TUNABLES=glibc.malloc.arena_max=2\n" CLIENT, 0,
	 NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "export GLIBC_TUNABLES=glibc.malloc.arena_max=0\n" CLIENT, 1,
	 "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "export GLIBC_TUNABLES=$T\n" CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export MALLOC_ARENA_MAX=2\nunset -v MALLOC_ARENA_MAX\n" CLIENT, 1, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export MALLOC_ARENA_MAX=2\nunset MALLOC_ARENA_MAX\nexport MALLOC_ARENA_MAX=2\n" CLIENT, 0,
	 NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export MALLOC_ARENA_MAX\nunset MALLOC_ARENA_MAX\nMALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export MALLOC_ARENA_MAX=2\n" CLIENT "unset MALLOC_ARENA_MAX\n", 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "export MALLOC_ARENA_MAX=4 && cd x\n" SERVER SERVER, 0, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "run.sh", "# " SERVER "echo 'nvflare simulator'x\n", 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "eval \"$(flmem env --role server)\"\n" SERVER, 0, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "run.sh", "flmem start --role server -- " SERVER, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", JEMALLOC SERVER, 0, NULL, NULL},
	{"NVF-ARENA-HIGH", "run.sh", "MALLOC_ARENA_MAX=9 " JEMALLOC SERVER, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", "python3 -m other.server_train\n", 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "Dockerfile",
	 "FROM python:3.12\nCMD [\"python3\", \"-m\", "
	 "\"nvflare.private.fed.app.client.client_train\"]\n",
	 1, "2", NULL},
	/* the program of an image gets ENV, not ARG */
	{"NVF-ARENA-UNSET", "Dockerfile", "FROM python:3.12\nARG MALLOC_ARENA_MAX=2\nCMD " CLIENT,
	 1, "2", NULL},
	{"NVF-ARENA-UNSET", "Dockerfile",
	 "FROM python:3.12\nARG MALLOC_ARENA_MAX=2\nENV MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX\n"
	 "CMD " CLIENT,
	 0, NULL, NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "Dockerfile",
	 "FROM python:3.12\nARG MALLOC_ARENA_MAX=2\nENV MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX\n"
	 "CMD " CLIENT,
	 1, NULL, NULL},
	{"NVF-ARENA-UNSET", "Dockerfile", "FROM python:3.12\nENV MALLOC_ARENA_MAX 2\nCMD " CLIENT,
	 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "Dockerfile", "FROM python:3.12-alpine\nCMD " CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "fl.service", "[Service]\nExecStart=/usr/bin/" SERVER, 1, "4", NULL},
	{"NVF-ARENA-UNSET", "fl.service",
	 "[Service]\nEnvironment=\"A=b\" \"MALLOC_ARENA_MAX=4\"\nExecStart=/usr/bin/" SERVER, 0,
	 NULL, NULL},
	{"NVF-ARENA-UNSET", "compose.yaml", COMPOSE(""), 1, "2", NULL},
	{"NVF-ARENA-UNSET", "compose.yaml", COMPOSE("    environment: {MALLOC_ARENA_MAX: 2}\n"), 0,
	 NULL, NULL},
	{"NVF-ARENA-UNSET", "compose.yaml", COMPOSE("    environment: [MALLOC_ARENA_MAX=2]\n"), 0,
	 NULL, NULL},
	{"NVF-ARENA-UNSET", "compose.yaml", COMPOSE("    env_file: [fl.env]\n"), 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "compose.yaml",
	 "x-env: &e {MALLOC_ARENA_MAX: 2}\n" COMPOSE("    environment: {<<: *e, A: 1}\n"), 0, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "compose.yaml",
	 "x-env: &e {A: 1}\n" COMPOSE("    environment: {<<: *e}\n"), 1, "2", NULL},
	{"NVF-ARENA-UNSET", "compose.yaml",
	 "x-a: &a {A: 1}\nx-b: &b {MALLOC_ARENA_MAX: 2}\n" COMPOSE(
		 "    environment: {<<: [*a, *b]}\n"),
	 0, NULL, NULL},
	{"NVF-ARENA-HIGH", "compose.yaml",
	 "x-env: &e {MALLOC_ARENA_MAX: 16}\n" COMPOSE(
		 "    environment: {MALLOC_ARENA_MAX: 2, <<: *e}\n"),
	 0, NULL, NULL},
	{"NVF-ARENA-HIGH", "compose.yaml",
	 "x-a: &a {MALLOC_ARENA_MAX: 16}\nx-b: &b {MALLOC_ARENA_MAX: 2}\n" COMPOSE(
		 "    environment: {<<: [*a, *b]}\n"),
	 1, NULL, NULL},
	{"NVF-ARENA-UNSET", "pod.yaml", POD(""), 1, "4", NULL},
	{"NVF-ARENA-UNSET", "pod.yaml",
	 POD("    env:\n    - {name: MALLOC_ARENA_MAX, value: \"4\"}\n"), 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "chart.yaml", "args: {{ .x }}\ncmd: " SERVER, 0, NULL, NULL},

	{"NVF-ARENA-CLIENT-4", "sub_start.sh",
	 "export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-4}\n" CLIENT, 1, "2", NULL},
	{"NVF-ARENA-CLIENT-4", "sub_start.sh",
	 "export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-4}\n" SERVER, 0, NULL, NULL},
	{"NVF-ARENA-CLIENT-4", "sub_start.sh",
	 "export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-2}\n" CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-CLIENT-4", "sub_start.sh", "export MALLOC_ARENA_MAX=${ARENAS}\n" CLIENT, 0,
	 NULL, NULL},

	{"NVF-ARENA-HIGH", "run.sh", "MALLOC_ARENA_MAX=16 " SERVER, 1, "4", NULL},
	{"NVF-ARENA-HIGH", "run.sh", "MALLOC_ARENA_MAX=5 " CLIENT, 1, "2", NULL},
	{"NVF-ARENA-HIGH", "run.sh", "MALLOC_ARENA_MAX=8 " SERVER "MALLOC_ARENA_MAX=4 " CLIENT, 0,
	 NULL, NULL},
	{"NVF-ARENA-HIGH", "run.sh", "MALLOC_ARENA_MAX=$N " SERVER, 0, NULL, NULL},

	{"NVF-ARENA-USELESS", "run.sh", JEMALLOC DECAY "MALLOC_ARENA_MAX=4 " SERVER, 1, NULL, NULL},
	{"NVF-ARENA-USELESS", "Dockerfile", "FROM alpine:3\nENV MALLOC_ARENA_MAX=2\nCMD " CLIENT, 1,
	 NULL, NULL},
	{"NVF-ARENA-USELESS", "run.sh", "MALLOC_ARENA_MAX=4 " SERVER, 0, NULL, NULL},

	{"NVF-MUSL-NO-TRIM", "Dockerfile", "FROM python:3.12-alpine\nCMD " SERVER, 0, NULL, NULL},
	/* a default value, which a variable gets where it has none */
	{"NVF-ARENA-UNSET", "run.sh",
	 ": \"${MALLOC_ARENA_MAX:=2}\"\nexport MALLOC_ARENA_MAX\n" CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh", ": ${MALLOC_ARENA_MAX:=2}\n" CLIENT, 1, "2", NULL},
	{"NVF-ARENA-HIGH", "run.sh", "export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:=16}\n" CLIENT, 1,
	 "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "echo ${MALLOC_ARENA_MAX:-2}\n" CLIENT, 1, "2", NULL},
	/* systemd-run starts services, which get no variables of the shell */
	{"NVF-ARENA-UNSET", "run.sh", "export MALLOC_ARENA_MAX=2\nsystemd-run --user " CLIENT, 1,
	 "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "systemd-run --setenv=MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "run.sh", "systemd-run -E MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export MALLOC_ARENA_MAX=2\nsystemd-run --user --scope " CLIENT, 0, NULL, NULL},
	/* units pass on the variables of their manager, or remove them */
	{"NVF-ARENA-UNSET", "fl.service",
	 "[Service]\nPassEnvironment=HOME MALLOC_ARENA_MAX\nExecStart=/usr/bin/" CLIENT, 0, NULL,
	 NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "fl.service",
	 "[Service]\nPassEnvironment=MALLOC_ARENA_MAX\nExecStart=/usr/bin/" CLIENT, 1, NULL, NULL},
	{"NVF-ARENA-UNSET", "fl.service",
	 "[Service]\nEnvironment=MALLOC_ARENA_MAX=2\nEnvironment=\nExecStart=" CLIENT, 1, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "fl.service",
	 "[Service]\nEnvironment=MALLOC_ARENA_MAX=2\nUnsetEnvironment=HOME MALLOC_ARENA_MAX\n"
	 "ExecStart=/usr/bin/" CLIENT,
	 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "python3 -m nvflare.cli simulator -n 2 job\n", 1, "4", NULL},
	{"NVF-ARENA-UNSET", "crontab", "@reboot " CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "fl.crontab", "MALLOC_ARENA_MAX=2\n0 3 * * * " CLIENT, 0, NULL, NULL},
	/* variables of another file, of the host, and for Apptainer */
	{"NVF-ARENA-UNSET", "run.sh", "env $(cat .env) " CLIENT, 0, NULL, NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "run.sh", "env $(cat .env) " CLIENT, 1, NULL, NULL},
	{"NVF-ARENA-UNSET", "compose.yaml", COMPOSE("    environment: [MALLOC_ARENA_MAX]\n"), 0,
	 NULL, NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "compose.yaml",
	 COMPOSE("    environment: [A, MALLOC_ARENA_MAX]\n"), 1, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export APPTAINERENV_MALLOC_ARENA_MAX=2\napptainer exec --cleanenv a.sif " CLIENT, 0, NULL,
	 NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export SINGULARITYENV_MALLOC_ARENA_MAX=2\nsingularity exec -e a.sif " CLIENT, 0, NULL,
	 NULL},
	{"NVF-ARENA-HIGH", "run.sh",
	 "export APPTAINERENV_MALLOC_ARENA_MAX=16\napptainer exec -e a.sif " CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export MALLOC_ARENA_MAX=2\nsingularity exec -e a.sif " CLIENT, 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh", "export MALLOC_ARENA_MAX=2\napptainer run -C a.sif " CLIENT,
	 1, "2", NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "export MALLOC_ARENA_MAX=2\napptainer exec a.sif bash -e -c '" CLIENT "'", 0, NULL, NULL},
	{"ENV-ARENA-IGNORED", "run.sh",
	 "apptainer exec --env A=1,MALLOC_ARENA_MAX=2,B=3 a.sif " CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-UNSET", "run.sh",
	 "apptainer exec --env A=1,MALLOC_ARENA_MAX=2,B=3 a.sif " CLIENT, 0, NULL, NULL},
	{"NVF-ARENA-HIGH", "run.sh", "apptainer exec --env=MALLOC_ARENA_MAX=16,B=3 a.sif " CLIENT,
	 1, "2", NULL},
	/* a tmux server that runs already has variables of its own */
	{"NVF-LAUNCH-CANNOT-TELL", "run.sh",
	 "export MALLOC_ARENA_MAX=2\ntmux new -d \"python3 -m "
	 "nvflare.private.fed.app.client.client_train\"\n",
	 1, NULL, NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "run.sh",
	 "tmux new -d \"MALLOC_ARENA_MAX=2 python3 -m "
	 "nvflare.private.fed.app.client.client_train\"\n",
	 0, NULL, NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "run.sh",
	 "export MALLOC_ARENA_MAX=2\nscreen -dm bash -c \"python3 -m "
	 "nvflare.private.fed.app.client.client_train\"\n",
	 0, NULL, NULL},
	/* commands under keys of other programs */
	{"NVF-LAUNCH-CANNOT-TELL", "play.yml", "- hosts: all\n  tasks:\n  - shell: " CLIENT, 1,
	 NULL, NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "flow.yaml", "spec:\n  script:\n    source: |\n      " CLIENT, 1,
	 NULL, NULL},
	{"NVF-LAUNCH-CANNOT-TELL", "notes.yaml", "notes: NVFlare is started by hand\n", 0, NULL,
	 NULL},

	{"NVF-JEMALLOC-DECAY", "run.sh", JEMALLOC SERVER, 1, NULL, NULL},
	{"NVF-JEMALLOC-DECAY", "run.sh", JEMALLOC "MALLOC_CONF=narenas:2 " SERVER, 1, NULL, NULL},
	{"NVF-JEMALLOC-DECAY", "run.sh", JEMALLOC "MALLOC_CONF=dirty_decay_ms:-1 " SERVER, 1, NULL,
	 NULL},
	{"NVF-JEMALLOC-DECAY", "run.sh",
	 JEMALLOC "MALLOC_CONF=dirty_decay:5000,muzzy_decay_ms:5000 " SERVER, 1, NULL, NULL},
	{"NVF-JEMALLOC-DECAY", "run.sh", JEMALLOC DECAY SERVER, 0, NULL, NULL},
	{"NVF-JEMALLOC-DECAY", "run.sh", "MALLOC_CONF=narenas:2 " SERVER, 0, NULL, NULL},

	{"ENV-ARENA-IGNORED", "run.sh", "MALLOC_ARENA_MAX=0 " SERVER, 1, "4", NULL},
	{"ENV-ARENA-IGNORED", "run.sh", "MALLOC_ARENA_MAX=abc " CLIENT, 1, "2", NULL},
	{"ENV-ARENA-IGNORED", "run.sh", "MALLOC_ARENA_MAX= " CLIENT, 1, "2", NULL},
	{"ENV-ARENA-IGNORED", "run.sh", "export MALLOC_ARENA_MAX=''\n" CLIENT, 1, "2", NULL},
	{"ENV-ARENA-IGNORED", "run.sh", "export MALLOC_ARENA_MAX=-1\n" CLIENT SERVER, 1, NULL,
	 NULL},
	{"ENV-ARENA-IGNORED", "run.sh",
	 "export MALLOC_ARENA_MAX=\"${MALLOC_ARENA_MAX:-none}\"\n" CLIENT, 1, "2", NULL},
	{"ENV-ARENA-IGNORED", "run.sh", "export MALLOC_ARENA_MAX=$N\n" CLIENT, 0, NULL, NULL},
	{"ENV-ARENA-IGNORED", "run.sh", "export MALLOC_ARENA_MAX=0x2\n" CLIENT, 0, NULL, NULL},
	{"ENV-ARENA-IGNORED", "run.sh", "export MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL, NULL},
	{"ENV-ARENA-IGNORED", "Dockerfile", "FROM python:3.12\nENV MALLOC_ARENA_MAX 0\nCMD " CLIENT,
	 1, "2", NULL},
	{"ENV-ARENA-IGNORED", "Dockerfile", "FROM alpine:3\nENV MALLOC_ARENA_MAX=0\nCMD " CLIENT, 0,
	 NULL, NULL},
	{"ENV-ARENA-IGNORED", "fl.service",
	 "[Service]\nEnvironment=MALLOC_ARENA_MAX=\nExecStart=/usr/bin/" SERVER, 1, "4", NULL},
	{"ENV-ARENA-IGNORED", "compose.yaml", COMPOSE("    environment: {MALLOC_ARENA_MAX: 0}\n"),
	 1, "2", NULL},
	{"ENV-ARENA-IGNORED", "compose.yaml", COMPOSE("    environment: ['MALLOC_ARENA_MAX=']\n"),
	 1, "2", NULL},
	/* Compose gives such a variable the value of its own environment; a pod may do so too. */
	{"ENV-ARENA-IGNORED", "compose.yaml", COMPOSE("    environment: {MALLOC_ARENA_MAX: }\n"), 0,
	 NULL, NULL},
	{"ENV-ARENA-IGNORED", "pod.yaml",
	 POD("    env: [{name: MALLOC_ARENA_MAX, valueFrom: {x: y}}]\n"), 0, NULL, NULL},
	{"ENV-ARENA-IGNORED", "pod.yaml", POD("    env: [{name: MALLOC_ARENA_MAX, value: ''}]\n"),
	 1, "4", NULL},

	{"NVF-ENV-GC-INVALID", "run.sh", "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two\n", 1, "1",
	 NULL},
	{"NVF-ENV-GC-INVALID", "run.sh", "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=\n", 1, "1",
	 "2.8.1"},
	{"NVF-ENV-GC-INVALID", "run.sh", "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=1.5\n", 1, "1",
	 NULL},
	{"NVF-ENV-GC-INVALID", "run.sh", "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two\n", 0, NULL,
	 "2.9"},
	{"NVF-ENV-GC-INVALID", "run.sh", "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=$N\n", 0, NULL,
	 NULL},
	{"NVF-ENV-GC-INVALID", "run.sh", "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=-1\n", 0, NULL,
	 NULL},

	{"NVF-ENV-DEAD-29", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=true\n", 1, NULL, "2.9"},
	{"NVF-ENV-DEAD-29", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=true\n", 0, NULL, "2.8"},
	{"NVF-ENV-DEAD-29", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=true\n", 1, NULL, NULL},

	{"NVF-ENV-CUDA-LITERAL", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=1\n", 1, "true", NULL},
	{"NVF-ENV-CUDA-LITERAL", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=True\n", 0, NULL, NULL},
	{"NVF-ENV-CUDA-LITERAL", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=1\n", 0, NULL, "2.9"},
	{"NVF-ENV-CUDA-LITERAL", "run.sh", "export MY_NVFLARE_CUDA_EMPTY_CACHE=1\n", 0, NULL, NULL},

	{"NVF-ENV-JEMALLOC-LITERAL", "run.sh", "export NVFLARE_ENABLE_JEMALLOC_PRELOAD=1\n", 1,
	 "true", NULL},
	{"NVF-ENV-JEMALLOC-LITERAL", "run.sh", "export NVFLARE_ENABLE_JEMALLOC_PRELOAD=true\n", 0,
	 NULL, NULL},
	{"NVF-ENV-JEMALLOC-LITERAL", "run.sh", "export NVFLARE_ENABLE_JEMALLOC_PRELOAD=\n", 0, NULL,
	 NULL},
	{"NVF-ENV-JEMALLOC-LITERAL", "sub_start.sh",
	 "if [ \"${NVFLARE_ENABLE_JEMALLOC_PRELOAD:-false}\" = \"true\" ]; then :; fi\n", 0, NULL,
	 NULL},
};

#define JOB(args)                                                                                \
	"{\"workflows\": [{\"path\": \"nvflare.app_common.workflows.fedavg.FedAvg\", \"args\": " \
	"{" args "}}]}"
#define TRAINERS(class, args)                                                                 \
	"{\"executors\": [{\"tasks\": [\"train\"], \"executor\": {\"path\": \"nvflare." class \
		"\", \"args\": {" args "}}}]}"
#define EXTERNAL(args)                                                                          \
	TRAINERS("app_common.executors.client_api_launcher_executor.ClientAPILauncherExecutor", \
		 args)
#define INSIDE(args)                                                                               \
	TRAINERS("app_common.executors.in_process_client_api_executor.InProcessClientAPIExecutor", \
		 args)
#define NEWER(args) TRAINERS("app_common.executors.client_api_executor.ClientAPIExecutor", args)
#define GC(n)	    "\"memory_gc_rounds\": " #n
#define PINS(n)	    "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=" #n "\n"
#define CLEANS	    JOB("\"memory_gc_rounds\": 5")
#define NEVER	    JOB("\"memory_gc_rounds\": 0")
#define OFFLOAD	    JOB("\"memory_gc_rounds\": 5, \"enable_tensor_disk_offload\": true")
#define ALPINE	    "FROM python:3.12-alpine\nCMD "
#define TMPFS	    "--tmpfs /tmp:size=2g "
#define MEMORY(path)                                                                       \
	"    volumeMounts: [{name: t, mountPath: " path "}, {name: u, mountPath: /tmp}]\n" \
	"  volumes: [{name: t, emptyDir: {medium: Memory}}, {name: u, emptyDir: {}}]\n"
#define SERVICE(more)                                                      \
	"services:\n  server:\n    image: fl\n    command: [python3, -m, " \
	"nvflare.private.fed.app.server.server_train]\n" more

/* Launch files that are checked beside a job. */
static const struct {
	struct row row;
	const char *job;
} job_rows[] = {
	{{"NVF-MUSL-NO-TRIM", "Dockerfile", ALPINE SERVER, 1, NULL, NULL}, CLEANS},
	{{"NVF-MUSL-NO-TRIM", "Dockerfile", ALPINE SERVER, 0, NULL, NULL}, NEVER},
	{{"NVF-MUSL-NO-TRIM", "Dockerfile", ALPINE CLIENT, 0, NULL, NULL}, CLEANS},
	{{"NVF-MUSL-NO-TRIM", "Dockerfile", ALPINE SERVER, 0, NULL, "2.7.1"}, CLEANS},
	{{"NVF-MUSL-NO-TRIM", "Dockerfile", "FROM python:3.12-slim\nCMD " SERVER, 0, NULL, NULL},
	 CLEANS},
	{{"NVF-MUSL-NO-TRIM", "compose.yaml", SERVICE("    hostname: alpine\n"), 0, NULL, NULL},
	 CLEANS},
	{{"NVF-MUSL-NO-TRIM", "Dockerfile", "FROM alpine:3\nCMD sleep 1\n", 0, NULL, NULL}, CLEANS},

	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(1) CLIENT, 1, NULL, NULL}, EXTERNAL(GC(5))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(0) CLIENT, 1, NULL, "2.8"}, EXTERNAL(GC(1))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(-5) CLIENT, 1, NULL, "2.8"}, EXTERNAL(GC(5))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(5) CLIENT, 0, NULL, NULL}, EXTERNAL(GC(5))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(1) CLIENT, 0, NULL, NULL}, EXTERNAL(GC(0))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(1) CLIENT, 0, NULL, NULL}, EXTERNAL("")},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(1) CLIENT, 0, NULL, NULL}, INSIDE(GC(5))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(1) CLIENT, 0, NULL, NULL}, NEWER(GC(5))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS(1) CLIENT, 0, NULL, "2.9"}, EXTERNAL(GC(5))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", PINS($N) CLIENT, 0, NULL, NULL}, EXTERNAL(GC(5))},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=0\n", 1, NULL, NULL},
	 EXTERNAL("\"cuda_empty_cache\": true")},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=true\n", 0, NULL,
	  NULL},
	 EXTERNAL("\"cuda_empty_cache\": true")},
	{{"NVF-ENV-OVERRIDES-JOB", "run.sh", "export NVFLARE_CUDA_EMPTY_CACHE=0\n", 0, NULL, NULL},
	 EXTERNAL("")},

	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run " TMPFS SERVER, 1, NULL, NULL}, OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run " TMPFS SERVER, 0, NULL, NULL}, CLEANS},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run " TMPFS CLIENT, 0, NULL, NULL}, OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run " SERVER, 0, NULL, NULL}, OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run " TMPFS SERVER, 0, NULL, "2.7.2"}, OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run --tmpfs=/tmpfiles " SERVER, 0, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run --tmpfs=/tmp/ " SERVER, 1, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run -e TMPDIR=/data " TMPFS SERVER, 0, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run --mount type=tmpfs,dst=/tmp " SERVER, 1, NULL,
	  NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "docker run --mount type=bind,src=/d,dst=/tmp " SERVER, 0,
	  NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "export TMPDIR=/dev/shm/fl\n" SERVER, 1, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "export TMPDIR=/dev/shmem\n" SERVER, 0, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "run.sh", "export TMPDIR=$SCRATCH\n" SERVER, 0, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "fl.service",
	  "[Service]\nTemporaryFileSystem=/tmp\nExecStart=/usr/bin/" SERVER, 1, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "compose.yaml", SERVICE("    tmpfs: /tmp\n"), 1, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "compose.yaml", SERVICE("    tmpfs: [/run, /tmp]\n"), 1, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "compose.yaml",
	  SERVICE("    volumes: [{type: tmpfs, target: /tmp}]\n"), 1, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "compose.yaml",
	  SERVICE("    tmpfs: /run\n    volumes: ['d:/tmp']\n"), 0, NULL, NULL},
	 OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "pod.yaml", POD(MEMORY("/tmp")), 1, NULL, NULL}, OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "pod.yaml", POD(MEMORY("/cache")), 0, NULL, NULL}, OFFLOAD},
	{{"NVF-OFFLOAD-TMPFS", "pod.yaml",
	  POD("    env: [{name: TMPDIR, value: /cache/x}]\n" MEMORY("/cache")), 1, NULL, NULL},
	 OFFLOAD},
};

/* The environment of a study reaches jobs, too. */
static void a_study_sets_what_a_launcher_drops(void **state)
{
	static const char studies[] = "format_version: 2\nstudies:\n  default:\n    ";
	static const struct {
		const char *launcher, *study;
		size_t hits;
	} cases[] = {
		{RESOURCES(DOCKER_SERVER, ""), "env: {A: 1} # MALLOC_ARENA_MAX", 1},
		{RESOURCES(DOCKER_SERVER, ""), "env: {MALLOC_ARENA_MAX: 0}", 1},
		{RESOURCES(K8S_CLIENT, ""), "env: {A: 1}", 1},
		{RESOURCES(K8S_CLIENT, ""), "env: {MALLOC_ARENA_MAX: 2}", 0},
		{RESOURCES(K8S_CLIENT, ""), "pod_template: pod.yaml", 0}, /* not read */
		{RESOURCES(K8S_CLIENT, ""), "pod_template: {kind: Pod}", 1},
		{RESOURCES(K8S_CLIENT, ""), "pod_template: [{name: LD_PRELOAD, value: a}]", 0},
		{RESOURCES(K8S_CLIENT, ""), "pod_template: [{name: LD_PRELOAD, value: ''}]", 1},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		char text[256];
		const char *path;
		struct tree tree;

		tree_init(&tree);
		path = tree.path;
		snprintf(text, sizeof(text), "%s%s\n", studies, cases[i].study);
		tree_puts(&tree, "local/study_runtime.yaml", text);
		tree_puts(&tree, "local/resources.json.default", cases[i].launcher);
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		assert_int_equal(flmem_recommendations_failures(&found), 0);
		assert_int_equal(findings_of(&found, LOST, &last), cases[i].hits);
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

static void check_row(size_t index, const struct row *row, const char *job)
{
	struct flmem_recommend_options options = {.framework_version = row->version};
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	const char *path;
	struct tree tree;
	size_t hits;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, row->file, row->text);
	if (job && flmem_text_starts(job, "from ")) {
		tree_puts(&tree, "job.py", job);
	} else if (job && strstr(job, "executors")) {
		tree_puts(&tree, "job/meta.json", "{\"deploy_map\": {\"app\": [\"site-1\"]}}");
		tree_puts(&tree, "job/app/config/config_fed_client.json", job);
	} else if (job) {
		tree_puts(&tree, "job/meta.json", "{\"deploy_map\": {\"app\": [\"server\"]}}");
		tree_puts(&tree, "job/app/config/config_fed_server.json", job);
	}
	assert_int_equal(flmem_recommend(&path, 1, &options, &found, NULL), 0);
	assert_int_equal(flmem_recommendations_failures(&found), 0);
	hits = findings_of(&found, row->rule, &last);
	if (hits != row->hits)
		fail_msg("row %zu: %s fired %zu times on:\n%s", index, row->rule, hits, row->text);
	if (row->proposed && (!last || strcmp(last->proposed, row->proposed) != 0))
		fail_msg("row %zu: %s proposes %s", index, row->rule, last ? last->proposed : "?");
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

/* A Python script that is checked beside the file which runs it may be a simulator. */
static void a_script_that_simulates_is_a_start(void **state)
{
	static const char
		env[] = "from nvflare.recipe import SimEnv\nr.execute(SimEnv(num_clients=2))\n",
		api[] = "from nvflare.job_config.api import FedJob\njob.simulator_run('/w')\n",
		runner[] = "from nvflare.private.fed.app.simulator.simulator_runner "
			   "import SimulatorRunner\nSimulatorRunner('job', 'w').run()\n",
		exports[] = "from nvflare.recipe import ProdEnv\nr.export('jobs')\n";
	static const struct {
		const char *file, *text, *script;
		size_t hits;
	} cases[] = {
		{"run.sh", "python3 job.py\n", env, 1},
		{"run.sh", "python3 job.py\n", api, 1},
		{"run.sh", "python3 job.py\n", runner, 1},
		{"run.sh", "python3 job.py\n", exports, 0},
		{"run.sh", "python3 other.py # nvflare\n", env, 0},
		{"run.sh", "export MALLOC_ARENA_MAX=4\npython3 job.py\n", env, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4 python3 job.py\n", env, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4\npython3 job.py\n", env, 1},
		{"run.sh", "export GLIBC_TUNABLES=glibc.malloc.arena_max=4\npython3 job.py\n", env,
		 0},
		{"run.sh", "export LD_PRELOAD=/lib/libjemalloc.so.2\npython3 job.py\n", env, 0},
		{"run.sh", ". ./env.sh\npython3 job.py\n", env, 0},
		{"run.sh", "flmem start --role server -- python3 job.py\n", env, 0},
		{"run.sh", "export MALLOC_ARENA_MAX=4\ndocker run fl python3 job.py\n", env, 1},
		{"Dockerfile", "FROM python:3.12\nCMD [\"python3\", \"job.py\"]\n", env, 1},
		{"Dockerfile", "FROM python:3.12-alpine\nCMD [\"python3\", \"job.py\"]\n", env, 0},
		{"Dockerfile", "FROM python:3.12\nENV MALLOC_ARENA_MAX=4\nCMD python3 job.py\n",
		 env, 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		const struct row row = {
			.rule = "NVF-ARENA-UNSET",
			.file = cases[i].file,
			.text = cases[i].text,
			.hits = cases[i].hits,
		};

		check_row(i, &row, cases[i].script);
	}
}

static void rules_fire_where_they_should_and_nowhere_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(i, &rows[i], NULL);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(job_rows); i++)
		check_row(i, &job_rows[i].row, job_rows[i].job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fire_where_they_should_and_nowhere_else),
		cmocka_unit_test(a_study_sets_what_a_launcher_drops),
		cmocka_unit_test(a_script_that_simulates_is_a_start),
	};

	return cmocka_run_group_tests_name("launch_rules", tests, NULL, NULL);
}
