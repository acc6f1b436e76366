/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests Python that starts frameworks without rules about their start. It gets the report of a
 * shell script with the same command, or "cannot tell".
 */
#include "launch_rows.h"

#include "base/cleanup.h"

#define FLOWER	"FLWR-LAUNCH-CANNOT-TELL"
#define APPFL	"APPFL-LAUNCH-CANNOT-TELL"
#define ENVIRON "NVF-ENVIRON-CANNOT-TELL"
#define OS	"import os, subprocess, shlex, asyncio\n"

#define LINES(lines)                                                                       \
	"{\"cells\": [{\"cell_type\": \"code\", \"source\": [" lines "]}], \"metadata\": " \
	"{}, \"nbformat\": 4, \"nbformat_minor\": 5}"
#define CODE(code) \
	"import nvflare, subprocess, sys\nsubprocess.run([sys.executable, '-c', " code "])\n"
#define NOTEBOOK(code)                                                                      \
	"{\"cells\": [{\"cell_type\": \"code\", \"source\": \"" code "\"}], \"metadata\": " \
	"{}, \"nbformat\": 4, \"nbformat_minor\": 5}"

static const struct file_row call_rows[] = {
	{"a.py", {FLOWER, OS "subprocess.run(['flower-superlink', '--insecure'])\n", 1, NULL}},
	{"a.py", {FLOWER, OS "subprocess.Popen('flower-supernode -x', shell=True)\n", 1, NULL}},
	{"a.py", {FLOWER, OS "subprocess.call(shlex.split('flwr run . local'))\n", 1, NULL}},
	{"a.py", {FLOWER, OS "subprocess.check_call(args=['flwr', 'run', '.'])\n", 1, NULL}},
	{"a.py", {FLOWER, OS "os.system('cd app && flwr run .')\n", 1, NULL}},
	{"a.py", {FLOWER, OS "os.popen('flower-superlink &')\n", 1, NULL}},
	{"a.py",
	 {FLOWER, OS "os.execvp('flower-superlink', ['flower-superlink', '-x'])\n", 1, NULL}},
	{"a.py",
	 {FLOWER, OS "os.execlpe('flower-superlink', 'flower-superlink', os.environ)\n", 1, NULL}},
	{"a.py",
	 {FLOWER, OS "os.spawnvp(os.P_NOWAIT, 'flwr-serverapp', ['flwr-serverapp'])\n", 1, NULL}},
	{"a.py",
	 {FLOWER,
	  OS "async def f():\n  await asyncio.create_subprocess_exec('flower-superlink', '-x')\n"
	     "  await asyncio.create_subprocess_shell('flwr run .')\n",
	  2, NULL}},
	{"a.py",
	 {FLOWER, OS "command = ['flower-superlink', '--insecure']\nsubprocess.run(command)\n", 1,
	  NULL}},
	{"a.py", {FLOWER, "import fabricate as f\nf.launch('flwr run .')\n", 1, NULL}},
	{"a.py",
	 {FLOWER, "import docker\ndocker.from_env().containers.run('flwr/superlink:1.42.0')\n", 1,
	  NULL}},
	{"a.py",
	 {FLOWER, "from sh import flwr\nimport subprocess\nsubprocess.run(command)\n", 1,
	  "only when the script runs"}},
	{"a.py",
	 {FLOWER, "import flwr\n" OS "subprocess.run([program, 'run', '.'])\n", 1,
	  "only when the script runs"}},
	{"a.py",
	 {FLOWER, "import flwr\n" OS "subprocess.run(['mpiexec', 'python3', 'train.py'])\n", 1,
	  "where its file is named"}},
	{"a.py",
	 {APPFL, OS "subprocess.run([sys.executable, '-m', 'appfl.run_grpc_server'])\n", 1, NULL}},
	{"a.py", {APPFL, "import appfl\n" OS "os.system(line)\n", 1, "only when the script runs"}},
	/* a start beside a job of another framework */
	{"a.py", {FLOWER, "import nvflare\n" OS "os.system('flwr run .')\n", 1, NULL}},
	{"a.py", {ENVIRON, "import nvflare\n" OS "os.system('flwr run .')\n", 0, NULL}},
	{"a.py", {ENVIRON, "import nvflare\n" OS "os.system(line)\n", 1, NULL}},
	{"a.py", {FLOWER, "import nvflare, flwr\n" OS "os.system(line)\n", 0, NULL}},
	/* the values of variables of Python */
	{"a.py",
	 {IGNORED, OS "subprocess.run(['flower-superlink'], env={'MALLOC_ARENA_MAX': '0'})\n", 1,
	  NULL}},
	{"a.py",
	 {IGNORED,
	  OS "subprocess.run(['flower-superlink'], env={**os.environ, 'MALLOC_ARENA_MAX': 'x'})\n",
	  1, NULL}},
	{"a.py",
	 {IGNORED,
	  OS "subprocess.run(['flower-superlink'], env=dict(os.environ, MALLOC_ARENA_MAX=''))\n", 1,
	  NULL}},
	{"a.py",
	 {IGNORED, OS "os.environ['MALLOC_ARENA_MAX'] = '0'\nos.system('flwr run .')\n", 1, NULL}},
	{"a.py",
	 {IGNORED, OS "os.environ.update(MALLOC_ARENA_MAX='0')\nos.system('flwr run .')\n", 1,
	  NULL}},
	{"a.py",
	 {IGNORED, OS "os.environ.setdefault('MALLOC_ARENA_MAX', '0')\nos.system('flwr run .')\n",
	  1, NULL}},
	{"a.py",
	 {IGNORED,
	  OS "os.environ['MALLOC_ARENA_MAX'] = '2'\nos.environ['MALLOC_ARENA_MAX'] = n\n"
	     "subprocess.run(['flwr', 'run'], env={'MALLOC_ARENA_MAX': n})\n",
	  0, NULL}},
	/* commands in notebooks */
	{"a.ipynb", {FLOWER, NOTEBOOK("!flwr run ."), 1, NULL}},
	{"a.ipynb", {IGNORED, NOTEBOOK("%env MALLOC_ARENA_MAX=0\\n!flwr run ."), 1, NULL}},
	{"a.ipynb", {IGNORED, NOTEBOOK("%env MALLOC_ARENA_MAX 2\\n!flwr run ."), 0, NULL}},
	{"a.ipynb",
	 {FLOWER, NOTEBOOK("%%writefile app/Dockerfile\\nFROM flwr/superlink:1.42.0"), 1, NULL}},
	{"a.ipynb",
	 {FLOWER, NOTEBOOK("%%file compose.yml \\ns:\\n  image: flwr/superlink:1.42.0"), 1, NULL}},
	{"a.ipynb", {FLOWER, NOTEBOOK("%%writefile a.txt\\nFROM flwr/superlink:1.42.0"), 0, NULL}},
	/* near misses */
	{"a.py",
	 {FLOWER, OS "subprocess.run(['git', 'clone', 'https://github.com/flwrlabs'])\n", 0, NULL}},
	{"a.py",
	 {FLOWER, "import flwr\n" OS "subprocess.run(['nvidia-smi'])\nos.environ['A'] = 'b'\n", 0,
	  NULL}},
	{"a.py",
	 {FLOWER,
	  "import shutil\n'''flwr run starts it'''\nprint('flwr run .')\n"
	  "shutil.which('flower-superlink')\nraise RuntimeError('flwr run . failed')\n",
	  0, NULL}},
	{"a.py",
	 {FLOWER, "import flwr\nPROJECT = 'flower-simulation-tutorial'\nx = 'flwr running'\n", 0,
	  NULL}},
	{"README.md", {FLOWER, "Start it:\n\n```sh\nflwr run .\n```\n", 0, NULL}},
};

/* Commands of which a part is not a literal, folders, and functions of console scripts. */
static const struct file_row verb_rows[] = {
	{"a.py", {ENVIRON, "import nvflare\n" OS "os.system('nvflare ' + verb)\n", 1, "only when"}},
	{"a.py",
	 {ENVIRON, "import nvflare\n" OS "os.system(f'nvflare {verb} job')\n", 1, "only when"}},
	{"a.py",
	 {ENVIRON, "import nvflare\n" OS "subprocess.run(['nvflare', *args])\n", 1, "only when"}},
	{"a.py",
	 {ENVIRON, "import nvflare\n" OS "subprocess.run(['nvflare', '--version'])\n", 0, NULL}},
	{"a.py", {FLOWER, OS "import flwr\nsubprocess.run(['flwr', verb, '.'])\n", 1, "only when"}},
	{"a.py", {FLOWER, OS "import flwr\nsubprocess.run(['flwr', f'{verb}'])\n", 0, NULL}},
	{"a.py", {FLOWER, OS "import flwr\nsubprocess.run(['flwr', 'new', name])\n", 0, NULL}},
	{"a.py", {FLOWER, OS "os.system('flwr ' + 'run ' + path)\n", 1, NULL}},
	{"a.py", {FLOWER, "from flwr.cli import flower_superlink as f\nf()\n", 1, NULL}},
	{"a.py", {FLOWER, "from mine import flower_superlink as f\nf('flwr')\n", 0, NULL}},
	{"a.py",
	 {ENVIRON, OS "subprocess.run(['bash', '/kit/site-1/startup/start.sh'])\n", 1, NULL}},
	{"a.py",
	 {ENVIRON, OS "subprocess.run('./start.sh', cwd='/kit/site-1/startup')\n", 1, NULL}},
	{"a.py",
	 {ENVIRON, OS "os.chdir('/kit/site-1/startup')\nos.system('./start.sh')\n", 1, NULL}},
	{"a.py",
	 {ENVIRON, OS "os.system('./start.sh')\nos.chdir('/kit/site-1/startup')\n", 0, NULL}},
	{"a.py", {ENVIRON, OS "subprocess.run([sys.executable, 'job.py'])\n", 1, "is named"}},
	{"a.py",
	 {FLOWER, "import sh\nsh.flower_superlink('--insecure')\nsh.flwr('run', '.')\n", 2, NULL}},
	{"a.py",
	 {"FLWR-PASSED-ON",
	  "import flwr as fl, multiprocessing as m\nm.Process(target=fl.server.start_server)\n", 1,
	  NULL}},
	/* values that come from elsewhere */
	{"a.py",
	 {IGNORED,
	  OS "env = os.environ.copy()\nenv['MALLOC_ARENA_MAX'] = '0'\nos.system('flwr run .')\n", 1,
	  NULL}},
	{"a.py",
	 {IGNORED,
	  OS
	  "env['MALLOC_ARENA_MAX'] == '0'\nenv['MALLOC_ARENA_MAX'] = n\nos.system('flwr run .')\n",
	  0, NULL}},
	{"a.py",
	 {IGNORED,
	  "import flwr, ray\nray.init(runtime_env={'env_vars': {'MALLOC_ARENA_MAX': '0'}})\n", 1,
	  NULL}},
	/* commands that only name a program start none */
	{"a.py", {FLOWER, OS "os.system('pkill -f flower-superlink')\n", 0, NULL}},
	{"a.py",
	 {FLOWER, OS "os.system('pkill -f flower-superlink; flower-superlink')\n", 1, NULL}},
	{"a.py",
	 {ENVIRON, "import nvflare\n" OS "subprocess.run(['pgrep', '-f', 'nvflare simulator'])\n",
	  0, NULL}},
	{"a.py",
	 {ENVIRON, "import nvflare\n" OS "os.system('echo nvflare simulator j')\n", 0, NULL}},
	{"a.py",
	 {ENVIRON, "import nvflare\n" OS "os.system('echo nvflare simulator j | bash')\n", 1,
	  NULL}},
	{"a.py",
	 {ENVIRON, "import nvflare\n" OS "os.system('pkill -f x; nvflare simulator j')\n", 1,
	  NULL}},
};

static void starts_by_python_are_reported(void **state)
{
	(void)state;
	assert_true(files_are_right(call_rows, FLMEM_ARRAY_SIZE(call_rows)));
	assert_true(files_are_right(verb_rows, FLMEM_ARRAY_SIZE(verb_rows)));
}

#define LATE "NVF-ENVIRON-LATE"
#define PUTS "os.environ['MALLOC_ARENA_MAX'] = '2'\n"
#define RUN  "subprocess.run(['nvflare', 'simulator', 'j'])\n"
#undef OS
#define OS "import nvflare, os, subprocess\n"

/* A script starts programs with the variables that were set before. */
static const struct file_row late_rows[] = {
	{"a.py", {LATE, OS PUTS RUN, 0, NULL}},
	{"a.py", {ENVIRON, OS PUTS RUN, 1, NULL}},
	{"a.py", {LATE, OS PUTS "subprocess.Popen(['flower-superlink'])\n", 0, NULL}},
	{"a.py",
	 {LATE, OS PUTS "subprocess.run(['nvflare', 'simulator'], env={**os.environ, 'A': 'b'})\n",
	  0, NULL}},
	{"a.py",
	 {LATE, OS PUTS "nvflare.client.init()\n" RUN, 1, "what the script starts after it"}},
	{"a.py", {LATE, OS RUN PUTS, 1, NULL}},
	{"a.py", {LATE, OS PUTS "subprocess.run(['nvidia-smi'])\n", 1, NULL}},
	{"a.py",
	 {LATE, OS PUTS "subprocess.run(['nvflare', 'simulator'], env={'A': 'b'})\n", 1, NULL}},
	{"a.ipynb", {LATE, NOTEBOOK("%env MALLOC_ARENA_MAX=2\\n!nvflare simulator j"), 0, NULL}},
	{"a.ipynb",
	 {LATE, NOTEBOOK("%set_env MALLOC_ARENA_MAX=2\\n!nvflare simulator j"), 0, NULL}},
	{"a.ipynb", {ENVIRON, NOTEBOOK("%env MALLOC_ARENA_MAX=2\\n!nvflare simulator j"), 1, NULL}},
	{"a.ipynb", {LATE, NOTEBOOK("import nvflare\\n%env MALLOC_ARENA_MAX=2"), 1, NULL}},
	{"a.ipynb", {ENVIRON, NOTEBOOK("%time !nvflare simulator j"), 1, NULL}},
	{"a.ipynb", {ENVIRON, NOTEBOOK("%timeit -n 1 -r1 !nvflare simulator j"), 1, NULL}},
	{"a.ipynb", {ENVIRON, NOTEBOOK("%%time\\n%%bash\\nnvflare simulator j"), 1, NULL}},
	{"a.ipynb", {ENVIRON, LINES("\"\\n\", \"%%bash\\n\", \"nvflare simulator j\""), 1, NULL}},
	{"a.ipynb", {ENVIRON, NOTEBOOK("!python3 -c 'from nvflare import x; FedJob()'"), 1, NULL}},
	{"a.py", {ENVIRON, CODE("'from nvflare.recipe import SimEnv; r(SimEnv())'"), 1, NULL}},
	{"a.py", {ENVIRON, "code = 'r(SimEnv())'\n" CODE("code"), 1, NULL}},
	{"a.py",
	 {ENVIRON,
	  "import nvflare, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'])\n",
	  0, NULL}},
	{"a.ipynb",
	 {LATE,
	  NOTEBOOK("from nvflare.recipe import SimEnv\\n%env MALLOC_ARENA_MAX=2\\nSimEnv(2)\\n"
		   "!nvflare simulator j"),
	  1, "what the script starts after it"}},
};

static void what_children_get_is_not_late(void **state)
{
	(void)state;
	assert_true(files_are_right(late_rows, FLMEM_ARRAY_SIZE(late_rows)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_by_python_are_reported),
		cmocka_unit_test(what_children_get_is_not_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
