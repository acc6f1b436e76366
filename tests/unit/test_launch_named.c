/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that commands which only name a program start none: those that end it, search for it or
 * fetch it.
 */
#include "launch_rows.h"

#include "base/cleanup.h"

#define FLOWER "FLWR-LAUNCH-CANNOT-TELL"
#define MODULE "nvflare.private.fed.app.client.client_train"

static const struct row script_rows[] = {
	{UNSET, "sudo -n pkill -f " MODULE "\nkillall -q x\n", 0, NULL},
	{UNSET, "if ! pgrep -f " MODULE "; then\n  " CLIENT "fi\n", 1, NULL},
	{UNSET, "pkill -f " MODULE "; " CLIENT, 1, NULL},
	{UNSET, "pids=$(pgrep -f " MODULE ")\nkill $pids\n", 0, NULL},
	{UNSET, "pids=\"$(pgrep -f " MODULE ")\"\n", 0, NULL},
	{UNSET, "kill $(pgrep -f '" MODULE "')\nkill `pgrep -f " MODULE "`\n", 0, NULL},
	{UNSET, "pkill -f \"nvflare simulator job\"\n", 0, NULL},
	{UNCLEAR, "# nvflare\npkill -f \"python3 client.py\"\n", 0, NULL},
	{UNSET, "ps aux | grep '" MODULE "' | awk '{print $2}' | xargs kill\n", 0, NULL},
	{UNSET, "ssh node1 pkill -f " MODULE "\n", 0, NULL},
	{UNSET, "strace -p $(pgrep -f " MODULE ") -o log\n", 0, NULL},
	{UNSET, "taskset -c $(grep -c x /proc/cpuinfo) nvflare simulator j\n", 1, NULL},
	{UNSET, "flmem detect --name " MODULE "\nsed -i s/a/b/ startup/sub_start.sh\n", 0, NULL},
	{FLOWER, "# flwr\npython3 -m docformatter -i src/flwr\npython -m poetry build\n", 0, NULL},
	{FLOWER, "# flwr\npython3 -m mine.train\n", 1, NULL},
	{UNCLEAR, "sed -i s/a/b/ /kit/startup/sub_start.sh\n", 0, NULL},
	{FLOWER, "P=flower-superlink\n$P --insecure\n", 1, NULL},
	{FLOWER, "IMAGE=flwr/superlink:1.42.0\ndocker run \"$IMAGE\" --insecure\n", 1, NULL},
	{FLOWER, "P=flower-superlink\npkill $P\ndocker stop $P\n", 0, NULL},
	{UNSET, "NVF=/opt/bin/nvflare\n\"$NVF\" simulator j\n", 1, NULL},
	{UNSET, "NVF=nvflare\nsudo ${NVF} simulator j\n$NVF --version\n", 1, NULL},
	{UNSET, "NVF=other\n$NVF simulator j\n# nvflare\n", 0, NULL},
	{UNSET, "rm -rf ws && nvflare simulator j\n", 1, NULL},
	{UNSET, "[ -d j ] && nvflare simulator j\n", 1, NULL},
	{UNSET, "command nvflare simulator j\n", 1, NULL},
	{UNSET, "docker exec x nvflare simulator j\n", 1, NULL},
	{UNSET, "echo starting nvflare simulator j\nprintf nvflare simulator j >&2\n", 0, NULL},
	{UNSET, "echo nvflare simulator j && nvflare simulator j\n", 1, NULL},
	{UNSET, "[ \"$(nvflare simulator j)\" ]\n", 1, NULL},
	{UNSET, "echo nvflare simulator j | bash\n", 1, NULL},
	{UNSET, "echo nvflare simulator j || exit 1\n", 0, NULL},
	{FLOWER, "which flower-superlink || type flower-superlink\ncommand -v flower-superlink\n",
	 0, NULL},
	{FLOWER, "docker pull flwr/superlink:1.42.0\ndocker build -t flwr/supernode:x .\n", 0,
	 NULL},
	{FLOWER, "docker pull flwr/superlink:1\ndocker run flwr/superlink:1\n", 1, NULL},
	{FLOWER, "systemctl stop flower-superlink\nkubectl logs flower-superlink\n", 0, NULL},
	{FLOWER, "systemctl start flower-superlink\n", 1, NULL},
	{FLOWER, "cp venv/bin/flower-superlink /x; chmod +x flower-superlink\n", 0, NULL},
};

#define POD                                                                                     \
	"spec:\n  containers:\n  - image: x\n    env: [{name: MALLOC_ARENA_MAX, value: '2'}]\n" \
	"    command: [python3, -m, " MODULE                                                    \
	"]\n    livenessProbe:\n      exec:\n        command: "

static const struct file_row named_rows[] = {
	{"a.service",
	 {UNSET,
	  "[Service]\nEnvironment=MALLOC_ARENA_MAX=2\nExecStart=" CLIENT
	  "ExecStop=/usr/bin/pkill -f " MODULE "\n",
	  0, NULL}},
	{"Dockerfile",
	 {UNSET, "FROM x\nHEALTHCHECK CMD pgrep -f " MODULE "\nRUN rm -f flower-superlink\n", 0,
	  NULL}},
	{"a.yaml", {UNSET, POD "[pgrep, -f, " MODULE "]\n", 0, NULL}},
	{"a.yaml", {UNSET, POD "[sh, -c, 'pgrep -f " MODULE "']\n", 0, NULL}},
	{"a.yaml", {UNSET, POD "[python3, -m, " MODULE "]\n", 1, NULL}},
	{"a.yaml",
	 {FLOWER, "metadata:\n  name: flower-superlink\n  labels: {app: flower-superlink}\n", 0,
	  NULL}},
	{"a.yaml", {FLOWER, "s:\n  depends_on: [flower-superlink]\n", 0, NULL}},
	{"a.yaml", {FLOWER, "x:\n  program: flower-superlink\n", 1, NULL}},
	{"a.yaml", {FLOWER, "x:\n  name: flower-superlink --insecure\n", 1, NULL}},
	{"a.py",
	 {FLOWER, "if 'flower-superlink' in names or x == 'flwr run .':\n  pass\n", 0, NULL}},
	{"a.nomad",
	 {UNCLEAR, "config {\n command = \"nvflare\"\n args = [\"simulator\", \"j\"]\n}\n", 1,
	  NULL}},
};

static void named_programs_are_not_started(void **state)
{
	bool right = scripts_are_right(script_rows, FLMEM_ARRAY_SIZE(script_rows));

	(void)state;
	assert_true(files_are_right(named_rows, FLMEM_ARRAY_SIZE(named_rows)) && right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(named_programs_are_not_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
