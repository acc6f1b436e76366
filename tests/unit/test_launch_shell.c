/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which variables of a file reach the started processes, and what remains unknown. */
#include "launch_rows.h"

#include "base/cleanup.h"
#include "base/text/buf.h"

#define KIT_SERVICE(rest) \
	"services:\n  a:\n    image: fl\n    command: [bash, -c, ./startup/start.sh]\n" rest

static const struct row scripts[] = {
	/* the order of the lines counts */
	{UNSET, CLIENT SET, 1, "line 2 sets it where it does not reach"},
	{UNSET, SET CLIENT, 0, NULL},
	{UNSET, "# Ger\xe4t\n" CLIENT "echo \xff\n", 1, NULL}, /* Latin-1 */
	{UNSET, SET CLIENT "unset MALLOC_ARENA_MAX\n" CLIENT, 1, NULL},
	{UNSET, CLIENT "MALLOC_ARENA_MAX=2\nexport MALLOC_ARENA_MAX\n" CLIENT, 1, NULL},
	{UNSET, "MALLOC_ARENA_MAX=2\n" CLIENT "export MALLOC_ARENA_MAX\n", 1, NULL},
	{UNSET, "python3 -m nvflare.private.fed.app.client.client_train MALLOC_ARENA_MAX=2\n", 1,
	 NULL},
	{UNCLEAR, SET CLIENT "unset MALLOC_ARENA_MAX\n" CLIENT, 0, NULL},

	/* commands that run others */
	{UNSET, SET "env -i " CLIENT, 1, "line 1 sets it, and env -i drops it"},
	{UNSET, SET "env - PATH=$PATH " CLIENT, 1, NULL},
	{UNSET, "env -i MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, "MALLOC_ARENA_MAX=2 env -0i " CLIENT, 1, NULL},
	{UNSET, SET "env --ignore-environment " CLIENT, 1, NULL},
	{UNSET, SET "env A=1 " CLIENT, 0, NULL},
	{UNSET, SET "env sort -i x && " CLIENT, 0, NULL},
	{UNSET, SET "env -u MALLOC_ARENA_MAX " CLIENT, 1, NULL},
	{UNSET, SET "env --unset=MALLOC_ARENA_MAX " CLIENT, 1, NULL},
	{UNSET, SET "env -uMALLOC_ARENA_MAX " CLIENT CLIENT, 1, NULL},
	{UNSET, SET "env -u TMPDIR " CLIENT, 0, NULL},
	{UNSET, SET "env -u MALLOC_ARENA_MAX MALLOC_ARENA_MAX=4 " CLIENT, 0, NULL},
	{UNSET, SET "exec " CLIENT, 0, NULL},
	{UNSET, SET "exec -c " CLIENT, 1, "exec -c drops it"},
	{UNSET, SET "exec -a x -cl " CLIENT, 1, NULL},
	{UNSET, SET "exec python3 -c 'import nvflare.private.fed.app.client.client_train'\n", 0,
	 NULL},
	{UNSET, SET "setpriv --reset-env " CLIENT, 1, "setpriv --reset-env drops it"},
	{UNSET, SET "setpriv --reuid=1 " CLIENT, 0, NULL},
	{UNSET, SET "bwrap --clearenv --bind / / " CLIENT, 1, "bwrap --clearenv drops it"},
	{UNSET, "bwrap --clearenv --setenv MALLOC_ARENA_MAX 2 " CLIENT, 0, NULL},
	{UNSET, SET "bwrap --unsetenv MALLOC_ARENA_MAX " CLIENT, 1, NULL},
	{UNSET, SET "bwrap --unsetenv TMPDIR " CLIENT, 0, NULL},
	{IGNORED, "bwrap --setenv MALLOC_ARENA_MAX 0 " CLIENT, 1, NULL},
	{UNSET, SET "nerdctl run image " CLIENT, 1, "nerdctl drops it"},
	{UNSET, SET "pdsh -w h " CLIENT, 1, "pdsh drops it"},
	{UNSET, SET "clush -w h '" CLIENT "'\n", 1, "clush drops it"},

	/* a variable whose export ends */
	{UNSET, SET "export -n MALLOC_ARENA_MAX\n" CLIENT, 1, NULL},
	{UNSET, SET "export -n TMPDIR\n" CLIENT, 0, NULL},
	{UNSET, SET "export -n MALLOC_ARENA_MAX\n" SET CLIENT, 0, NULL},
	{UNSET, SET "declare +x MALLOC_ARENA_MAX\n" CLIENT, 1, NULL},
	{UNSET, SET "typeset +x MALLOC_ARENA_MAX\n" CLIENT, 1, NULL},
	{UNSET, SET CLIENT "declare +x MALLOC_ARENA_MAX\n", 0, NULL},
	{UNSET, "set -a\nset +a\nMALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "set -a\nMALLOC_ARENA_MAX=2\nset +a\n" CLIENT, 0, NULL},
	{UNSET, "set -o allexport\nset +o allexport\nMALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},

	/* commands that run in a separate shell */
	{UNSET, "echo x | " SET CLIENT, 1, "does not reach"},
	{UNSET, "echo x |\n" SET CLIENT, 1, NULL},
	{UNSET, "export MALLOC_ARENA_MAX=2 | cat\n" CLIENT, 1, NULL},
	{UNSET, "export MALLOC_ARENA_MAX=2 &\n" CLIENT, 1, NULL},
	{UNSET, "#!/bin/zsh\necho x | " SET CLIENT, 0, NULL},
	{UNSET, "export MALLOC_ARENA_MAX=2 2>&1\n" CLIENT, 0, NULL},
	{UNSET, "echo x | cat\n" SET CLIENT, 0, NULL},
	{UNSET, SET "echo x | " CLIENT, 0, NULL},
	{UNSET, "echo x | MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, SET "unset MALLOC_ARENA_MAX | cat\n" CLIENT, 0, NULL},
	{UNCLEAR, SET "MALLOC_ARENA_MAX+=x\n" CLIENT, 1, NULL},
	{IGNORED, SET "MALLOC_ARENA_MAX=0\n" CLIENT, 1, NULL},
	{IGNORED, SET "export -n MALLOC_ARENA_MAX\nMALLOC_ARENA_MAX=0\n" CLIENT, 0, NULL},
	{UNSET, "(export MALLOC_ARENA_MAX=2)\nMALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},

	/* libraries that are not allocators */
	{UNSET, "LD_PRELOAD= " CLIENT, 1, NULL},
	{UNSET, "LD_PRELOAD=libnss_wrapper.so " CLIENT, 1, NULL},
	{UNSET, "LD_PRELOAD=/l/libiomp5.so:/l/libtcmalloc.so.4 " CLIENT, 0, NULL},
	{UNSET, "LD_PRELOAD=/l/libmimalloc.so " CLIENT, 0, NULL},
	{UNSET, "LD_PRELOAD=$LIB " CLIENT, 0, NULL},
	{UNSET, SET "sudo " CLIENT, 1, "sudo drops it"},
	{UNSET, SET "sudo -u fl -H " CLIENT, 1, NULL},
	{UNSET, SET "sudo -E " CLIENT, 0, NULL},
	{UNCLEAR, SET "sudo -E " CLIENT, 1, "the policy"},
	{UNCLEAR, SET "sudo " CLIENT, 0, NULL},
	{UNSET, SET "sudo -nE -u fl " CLIENT, 0, NULL},
	{UNSET, SET "sudo -H -E " CLIENT, 0, NULL},
	{UNSET, SET "sudo -u fl -E " CLIENT, 0, NULL},
	{UNSET, SET "sudo HOME=/h -E " CLIENT, 0, NULL},
	{UNSET, SET "sudo nice -E " CLIENT, 1, "sudo drops it"},
	{UNSET, SET "sudo --preserve-env " CLIENT, 0, NULL},
	{UNSET, SET "sudo --preserve-env=PATH,MALLOC_ARENA_MAX " CLIENT, 0, NULL},
	{UNSET, SET "sudo --preserve-env=PATH " CLIENT, 1, NULL},
	{UNSET, "sudo MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, "sudo -E env MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, "export LD_PRELOAD=/l/libjemalloc.so.2\nsudo -E " CLIENT, 1, NULL},
	{UNSET, SET "su - fl -c '" CLIENT "'\n", 1, "su - drops it"},
	{UNSET, SET "su fl -c '" CLIENT "'\n", 0, NULL},
	{UNSET, "su - fl -c 'MALLOC_ARENA_MAX=2 " CLIENT "'\n", 0, NULL},
	{UNSET, SET "runuser -l fl -c '" CLIENT "'\n", 1, NULL},
	{UNSET, SET "ssh host " CLIENT, 1, "ssh drops it"},
	{UNSET, "ssh host MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, SET "ssh host 'cd ws; " CLIENT "'\n", 1, NULL},
	{UNSET, "ssh -p 22 host 'cd ws; export MALLOC_ARENA_MAX=2; " CLIENT "'\n", 0, NULL},
	{UNSET, "ssh host 'MALLOC_ARENA_MAX=2; " CLIENT "'\n", 1, NULL},
	{UNSET, SET "docker run image " CLIENT, 1, "docker drops it"},
	{UNSET, SET "docker run -e MALLOC_ARENA_MAX image " CLIENT, 0, NULL},
	{UNCLEAR, SET "docker run -e MALLOC_ARENA_MAX image " CLIENT, 1, NULL},
	{UNSET, SET "docker run -e MALLOC_ARENA_MAX=2 image bash -lc '" CLIENT "'\n", 0, NULL},
	{UNSET, SET "docker run image bash -lc '" CLIENT "'\n", 1, "docker drops it"},
	{UNSET, SET "ssh host '" CLIENT SERVER "'\n", 2, NULL},
	{UNSET, "docker run --env-file x image " CLIENT, 0, NULL},
	{UNCLEAR, "docker run --env-file x image " CLIENT, 1, "another file"},
	{UNSET, "tmux new -d '" CLIENT "'\n", 1, NULL},
	{UNSET, SET "tmux new -d '" CLIENT "'\n", 0, NULL},
	{UNSET, "sbatch --wrap=\"" CLIENT "\"\n", 1, NULL},
	{UNSET, SET "srun --export=NONE " CLIENT, 1, "srun --export drops it"},
	{UNSET, SET "srun --export=ALL " CLIENT, 0, NULL},
	{UNSET, "srun --export=ALL,MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, "#SBATCH --export=ALL,MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL},
	{UNSET, "#SBATCH -J fl --export MALLOC_ARENA_MAX=2 # one\nsrun " CLIENT SERVER, 0, NULL},
	{UNSET, "#SBATCH --export=ALL,MALLOC_ARENA_MAX=2\nunset MALLOC_ARENA_MAX\n" CLIENT, 1,
	 NULL},
	{UNSET, "#SBATCH --exporter=MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "#SBATCH -n 2 # --export=MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, " #SBATCH --export=MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "##SBATCH --export=MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "# MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "#PBS -l walltime=1 -v MALLOC_ARENA_MAX=2,A=1\n" CLIENT, 0, NULL},
	{UNSET, "#PBS -vMALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL},
	{UNSET, "#$ -cwd -v MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL},
	{UNSET, "#PBS --export=MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "#SBATCH --export=ALL,MALLOC_ARENA_MAX\n" CLIENT, 0, NULL},
	{UNSET, "#SBATCH --export\n" CLIENT, 1, NULL},
	/* schedulers remove quotes */
	{IGNORED, "#SBATCH --export=\"ALL,MALLOC_ARENA_MAX=2\"\n" CLIENT, 0, NULL},
	{IGNORED, "#SBATCH --export 'MALLOC_ARENA_MAX=2'\r\n" CLIENT, 0, NULL},
	{IGNORED, "#PBS -v A='1',MALLOC_ARENA_MAX='0'\n" CLIENT, 1, NULL},
	{UNSET, "#PBS -v 'A=1 2,MALLOC_ARENA_MAX=2'\n" CLIENT, 0, NULL},
	{UNSET, "#SBATCH --comment=\"# --export=MALLOC_ARENA_MAX=2\"\n" CLIENT, 1, NULL},
	{UNSET, "#SBATCH (;) --export=MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL},
	{UNSET, "#SBATCH --export \"\n" CLIENT "\"\n", 1, NULL},
	/* schedulers read directives until the first command, Grid Engine in the whole script */
	{UNSET, "cd ws\n#SBATCH --export=ALL,MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "cd ws\n#$ -v MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL},
	{UNSET, "bash -c '" CLIENT ";" SERVER "'\n", 2, NULL},
	{UNSET, "bash -c 'MALLOC_ARENA_MAX=2; " CLIENT "'\n", 1, NULL},

	{UNSET, "ssh host '\n" SET CLIENT "'\n", 0, NULL},
	{UNSET, SET "ssh host \"\n" CLIENT "\"\n", 1, "ssh drops it"},
	{UNSET, "bash -c '" SET CLIENT "'\n" CLIENT, 1, NULL},
	{UNSET, "sudo bash -c \"\n" SET CLIENT "\"\n", 0, NULL},
	{UNSET, "echo \"it's\nfine\n" SET CLIENT, 0, NULL},

	/* texts with variables, for commands that may run them */
	{UNCLEAR, "parallel 'MALLOC_ARENA_MAX=2 ./run {}' ::: 1\n" CLIENT, 1, "in quotes"},
	{UNCLEAR, "all-hosts 'cd a; MALLOC_ARENA_MAX=2 ./run'\n" CLIENT, 1, "in quotes"},
	{UNCLEAR, "all-hosts 'MALLOC_ARENA_MAX=2 ./run'\n" CLIENT, 0, NULL},
	{UNCLEAR, "all-hosts 'cd a; MALLOC_ARENA_MAX ./run'\n" CLIENT, 0, NULL},
	{UNCLEAR, "all-hosts 'MALLOC_ARENA_MAX;MALLOC_ARENA_MAX=2'\n" CLIENT, 0, NULL},
	{UNCLEAR, "echo 'set MALLOC_ARENA_MAX=2 first'\n" CLIENT, 0, NULL},
	{UNCLEAR, "logger 'set MALLOC_ARENA_MAX=2 first'\n" CLIENT, 0, NULL},

	/* heredocs */
	{UNSET, "cat >x.sh <<EOF\n" SET "EOF\n" CLIENT, 1, NULL},
	{UNSET, "cat >x.sh <<EOF\n" CLIENT "EOF\n", 0, NULL},
	{UNCLEAR, "cat >x.sh <<EOF\n" CLIENT "EOF\n", 1, "heredoc"},
	{UNCLEAR, "cat >x.sh <<'EOF'\nMALLOC_ARENA_MAX=$N\nEOF\n" SET CLIENT, 0, NULL},
	{UNSET, "bash <<EOF\n" CLIENT "EOF\n", 1, NULL},
	{UNSET, SET "bash <<-'X'\n\t" CLIENT "\tX\n", 0, NULL},
	{UNSET, SET "ssh host bash -s <<EOF\n" CLIENT "EOF\n", 1, "ssh drops it"},
	{UNSET, "ssh host <<EOF\nexport MALLOC_ARENA_MAX=2\n" CLIENT "EOF\n", 0, NULL},
	{UNSET, SET "cat << EOF | sh\n" CLIENT "EOF\n", 0, NULL},
	{UNSET, "cat <<EOF\nx\nEOF\n" SET CLIENT, 0, NULL},
	{UNSET, "grep x <<<\"$y\"\n" SET CLIENT, 0, NULL},
	{UNSET, "cat <<A <<B\nx\nA\n" SET "B\n" CLIENT, 1, NULL},
	{UNSET, "echo $((1<<2))\n" SET CLIENT, 0, NULL},

	/* subshells, groups, functions, conditions */
	{UNSET, "(" SET ")\n" CLIENT, 1, NULL},
	{UNSET, "( export MALLOC_ARENA_MAX=2; " CLIENT ")\n", 0, NULL},
	{UNSET, SET "(cd ws && " CLIENT ")\n", 0, NULL},
	{UNSET, "{ " SET "}\n" CLIENT, 0, NULL},
	{UNCLEAR, "{ " SET "}\n" CLIENT, 0, NULL},
	{UNSET, "x=$(" SET ")\n" CLIENT, 1, NULL},
	{UNSET, "N=$(nproc)\nA=$((N+1))\n" SET CLIENT, 0, NULL},
	{UNSET, "f() {\n" SET "}\nf\n" CLIENT, 0, NULL},
	{UNCLEAR, "f() {\n" SET "}\nf\n" CLIENT, 1, "in a function"},
	{UNCLEAR, "function f {\n" SET "}\n" CLIENT, 1, NULL},
	{UNCLEAR, "f() {\n" SET CLIENT "}\nf\n", 0, NULL},
	{UNSET, "f() {\n" CLIENT "}\n" SET "f\n", 0, NULL},
	{UNCLEAR, "f() {\n" CLIENT "}\n" SET "f\n", 1, NULL},
	{UNCLEAR, SET "f() {\n" CLIENT "}\nf\n", 0, NULL},
	{UNSET, "f() ( " SET ")\n" CLIENT, 0, NULL},
	{UNCLEAR, "if [ -f x ]; then\n" SET "fi\n" CLIENT, 1, "under a condition"},
	{UNCLEAR, "if [ -f x ]; then\n" SET CLIENT "fi\n", 0, NULL},
	{UNCLEAR, "if [ -f x ]; then\n" SET "else\n" CLIENT "fi\n", 1, NULL},
	{UNCLEAR, "if [ -z \"$MALLOC_ARENA_MAX\" ]; then\n" SET "fi\n" CLIENT, 0, NULL},
	{UNCLEAR, "[ -z \"$MALLOC_ARENA_MAX\" ] && " SET CLIENT, 0, NULL},
	{UNCLEAR, "[ -f x ] && " SET CLIENT, 1, NULL},
	{UNCLEAR, "cd x || " SET CLIENT, 1, NULL},
	{UNCLEAR, "cd x &&\n" SET CLIENT, 0, NULL},
	{UNCLEAR, "mkdir -p x && cd x && " SET CLIENT, 0, NULL},
	{UNSET, "cd x && " SET CLIENT, 0, NULL},
	{UNCLEAR, "cd x || " SET CLIENT, 1, NULL},
	{UNCLEAR, "grep -q x y && " SET CLIENT, 1, NULL},
	{"ENV-ARENA-IGNORED", "export MALLOC_ARENA_MAX=abc\n./site-1/startup/start.sh\n", 1, NULL},
	{"ENV-ARENA-IGNORED", "MALLOC_ARENA_MAX=0 python3 job.py -n 2\n", 1, NULL},
	{"ENV-ARENA-IGNORED",
	 "for i in 1 2; do\nMALLOC_ARENA_MAX=0 ./$i/startup/start.sh &\ndone\n", 1, NULL},
	{UNSET, "MALLOC_ARENA_MAX=2 python3 job.py\n" CLIENT, 1, NULL},
	/* scripts that start others */
	{UNCLEAR, "./site-1/startup/start.sh\n", 1, "the start script of a kit"},
	{UNCLEAR, "nvflare poc start\nnvflare poc stop\n", 1, "the start script of a kit"},
	{UNSET, "./site-1/startup/start.sh\nnvflare poc start\n", 0, NULL},
	{"NVF-ARENA-HIGH", "MALLOC_ARENA_MAX=64 ./site-1/startup/start.sh\n", 1,
	 "a server or client"},
	{UNCLEAR, "nvflare job create -j j \\\n -f config_fed_client.conf memory_gc_rounds=0\n", 1,
	 "pass its folder"},
	{UNCLEAR, "nvflare job submit -j j\n", 1, "pass its folder"},
	{UNCLEAR, "nvflare job list\n# nvflare job submit\n" SET CLIENT, 0, NULL},
	{UNCLEAR, "pip install nvflare\npython3 job.py\n", 1, "it runs Python"},
	{UNCLEAR, "pip install nvflare\nsrun python3 -u jobs/a.py\nexec ./b.py\nX=1 ./c.py\n", 3,
	 NULL},
	{UNCLEAR, "uv pip install nvflare\nuv run a.py\ntorchrun --nnodes 1 b.py\n$PYTHON c.py\n",
	 3, NULL},
	{UNCLEAR, "# nvflare\nrun() { python3 \"$1\"; }\nrun a.py\n", 1, NULL},
	{UNCLEAR, "bash -c 'python3 job.py'\n", 1, NULL},
	{UNCLEAR, "pip install nvflare\npython3 -m jobs.fedavg\npython3 -m venv x\n", 1, NULL},
	{UNCLEAR, "# nvflare\npython3 -m torch.distributed.run --nnodes 1 a.py\n", 1, NULL},
	{UNCLEAR, "# nvflare\npython3 -c 'FedAvgRecipe()'\npython3 -c 'import nvflare'\n", 1, NULL},
	{UNCLEAR, "python3 - <<E\nfrom nvflare.recipe import FedAvgRecipe\nE\n", 1, NULL},
	{UNCLEAR, "# nvflare\nssh a <<E\ncd b\npython3 a.py\nE\n", 1, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "flower-superlink --insecure\nflwr run .\n", 2, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "flwr new\n" SET CLIENT, 0, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "flower-superexec x\nflwr-serverapp --token t\n", 2, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "docker run flwr/superlink:1.42.0 --insecure\n", 1, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "docker pull my/flwr-superlink\n", 0, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "pip install flwr\npython3 server.py\n", 1, NULL},
	{UNCLEAR, "pip install flwr\npython3 server.py\n", 0, NULL},
	{"APPFL-LAUNCH-CANNOT-TELL", "python3 -m appfl.run_grpc_server --config s.yaml\n", 1, NULL},
	{"APPFL-LAUNCH-CANNOT-TELL", "# appfl\nmpirun -n 3 python3 run.py\n", 1, NULL},
	{"APPFL-LAUNCH-CANNOT-TELL", "# appfl\npip install x\n", 0, NULL},
	{"APPFL-LAUNCH-CANNOT-TELL", "cd APPFL/examples\npython3 grpc/run_server.py\n", 1, NULL},
	{"APPFL-LAUNCH-CANNOT-TELL", "# APPFL\npip install x\n", 0, NULL},
	{UNCLEAR, "cd NVFlare/examples\npython3 run_fl.py\n", 1, NULL},
	{UNCLEAR, "cd $NVFLARE_HOME\npython3 run_fl.py\n", 1, NULL},
	{"ENV-ARENA-IGNORED", "MALLOC_ARENA_MAX=0 python3 -m appfl.run_grpc_client\n", 1, NULL},
	/* Python files that are arguments, and folders that are entered before */
	{UNCLEAR, "# nvflare\nls jobs/*.py | xargs -n1 python3\n", 1, NULL},
	{UNCLEAR, "# nvflare\nls | xargs -n1 python3 -m pip install\n", 0, NULL},
	{UNCLEAR, "cd /opt/site-1/startup/ && ./start.sh\n", 1, "the start script of a kit"},
	{UNCLEAR, "pushd ../site-1/startup\nbash start.sh\n", 1, "the start script of a kit"},
	{UNCLEAR, "cd startup/../other && ./start.sh\n", 0, NULL},
	{UNCLEAR, "# NVIDIA FLARE\ncd /opt/hospital/startup\nbash start.sh\n", 1, NULL},
	{UNCLEAR, "cd ws/project/prod_00/server/startup && ./start.sh\n", 1, NULL},
	{UNCLEAR, "ssh site-1 'cd /opt/fl/startup && ./start.sh'\n", 1, NULL},
	/* programs that are not NVFlare's, with such a folder or such verbs */
	{UNCLEAR, "cd web/startup && ./start.sh\n", 0, NULL},
	{UNCLEAR, "cd startup && python3 manage.py migrate\n./start.sh\n", 0, NULL},
	{"ENV-ARENA-IGNORED", "cd web/startup && MALLOC_ARENA_MAX=0 ./start.sh\n", 0, NULL},
	{UNCLEAR, "echo poc start\n./poc start\n", 0, NULL},
	{UNCLEAR, "pip install nvflare\nray job submit -- ls\n./poc start\n", 0, NULL},
	{UNCLEAR, "uv run nvflare poc start\n/opt/v/bin/nvflare job submit -j j\n", 2, NULL},
	{UNCLEAR, "python3 -m nvflare.cli poc start\n", 1, NULL},
	{"ENV-ARENA-IGNORED", "MALLOC_ARENA_MAX=0 flower-superlink\n", 1, NULL},
	{UNSET, "flower-superlink\n", 0, NULL},
	{UNCLEAR, "# nvflare\ncp a.py b.py\npython3 setup.py install\npython3 -m pip list\n", 0,
	 NULL},
	{UNCLEAR, SET "python3 -m nvflare.private.fed.app.client.client_train -m a.py\n", 0, NULL},
	{"ENV-ARENA-IGNORED", "parallel 'MALLOC_ARENA_MAX=0 ./{}/startup/start.sh' ::: a b\n", 1,
	 NULL},
	{UNCLEAR, "ssh a 'cd k && MALLOC_ARENA_MAX=0 ./startup/start.sh'\n", 1, NULL},
	{UNCLEAR, "echo \"now MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX\"\n" SET CLIENT, 0, NULL},
	{UNCLEAR, SET "ssh a 'MALLOC_ARENA_MAX=2 " CLIENT "'\n", 0, NULL},
	{"ENV-ARENA-IGNORED", "MALLOC_ARENA_MAX=2 python3 job.py\n", 0, NULL},
	{UNSET, SET "apptainer exec --cleanenv x.sif " CLIENT, 1, "--cleanenv drops it"},
	{UNSET, SET "apptainer exec --cleanenv --env MALLOC_ARENA_MAX=2 x.sif " CLIENT, 0, NULL},
	{UNSET, SET "apptainer exec x.sif " CLIENT, 0, NULL},
	{UNCLEAR, "cd x && export MALLOC_ARENA_MAX=2 && " CLIENT, 0, NULL},
	{UNCLEAR, "case $1 in\na) " SET ";;\nb) " CLIENT ";;\nesac\n", 1, NULL},
	{UNCLEAR, "case $1 in\na) " SET CLIENT ";;\nesac\n", 0, NULL},
	{UNCLEAR, "for x in 1 2; do\n" SET "done\n" CLIENT, 1, NULL},
	{UNCLEAR, SET "while true; do\n" CLIENT "done\n", 0, NULL},
	{UNCLEAR, SET "if x; then unset MALLOC_ARENA_MAX; fi\n" CLIENT, 1, "it ends"},
	{UNSET, SET "if x; then unset MALLOC_ARENA_MAX; fi\n" CLIENT, 0, NULL},

	/* values and variables that come from elsewhere */
	{UNCLEAR, "export MALLOC_ARENA_MAX=$N\n" CLIENT, 1, "the value is known only"},
	{UNCLEAR, "MALLOC_ARENA_MAX=$N " CLIENT, 1, NULL},
	{UNCLEAR, "MALLOC_ARENA_MAX=$N\n" SET CLIENT, 0, NULL},
	{UNCLEAR, "export NVFLARE_CLIENT_MEMORY_GC_ROUNDS=$N\n", 1, NULL},
	{UNCLEAR, SET "export TMPDIR=$SCRATCH\n" CLIENT, 0, NULL},
	{UNSET, "source ./env.sh\n" CLIENT, 0, NULL},
	{UNCLEAR, "source ./env.sh\n" CLIENT, 1, "another file"},
	{UNCLEAR, ". /etc/fl.conf\n" CLIENT, 1, NULL},
	{UNSET, "source venv/bin/activate\n" CLIENT, 1, NULL},
	{UNCLEAR, ". venv/bin/activate\n" SET CLIENT, 0, NULL},
	{UNCLEAR, "export $(cat .env)\n" CLIENT, 1, NULL},
	{UNCLEAR, "eval \"$(cat .env)\"\n" CLIENT, 1, NULL},
	{UNCLEAR, "eval \"$(flmem env --role client)\"\n" CLIENT, 0, NULL},
};

static const struct file_row files[] = {
	{"fl.service", {UNSET, "[Service]\nEnvironmentFile=/etc/fl\nExecStart=" CLIENT, 0, NULL}},
	{"fl.service", {UNCLEAR, "[Service]\nEnvironmentFile=/etc/fl\nExecStart=" CLIENT, 1, NULL}},
	{"fl.service",
	 {UNSET, "[Service]\nEnvironment=MALLOC_ARENA_MAX=2\nExecStart=/bin/env -i " CLIENT, 1,
	  NULL}},
	{"fl.service",
	 {UNSET, "[Service]\nExecStart=" CLIENT "Environment=MALLOC_ARENA_MAX=2\n", 0, NULL}},
	{"Dockerfile", {UNSET, "FROM a\nRUN export MALLOC_ARENA_MAX=2\nCMD " CLIENT, 1, NULL}},
	{"Dockerfile",
	 {UNSET, "FROM a\nRUN cd x && MALLOC_ARENA_MAX=2 make\nCMD " CLIENT, 1, NULL}},
	{"Dockerfile",
	 {UNSET, "FROM a AS b\nENV MALLOC_ARENA_MAX=2\nFROM c\nCMD " CLIENT, 1, NULL}},
	{"Dockerfile",
	 {UNSET, "FROM a AS b\nENV MALLOC_ARENA_MAX=2\nFROM b\nCMD " CLIENT, 0, NULL}},
	{"Dockerfile", {UNSET, "FROM alpine AS b\nRUN x\nFROM debian\nCMD " CLIENT, 1, NULL}},
	{"Dockerfile", {UNSET, "FROM alpine AS b\nFROM b\nCMD " CLIENT, 0, NULL}},
	{"compose.yaml",
	 {UNCLEAR,
	  "services:\n  a:\n    env_file: [fl.env]\n    command: [python3, -m, "
	  "nvflare.private.fed.app.client.client_train]\n",
	  1, "another file"}},
	{"compose.yaml",
	 {UNCLEAR,
	  "services:\n  a:\n    environment: {MALLOC_ARENA_MAX: }\n    command: [python3, -m, "
	  "nvflare.private.fed.app.client.client_train]\n",
	  1, "the value is known only"}},
	{"compose.yaml", {UNCLEAR, KIT_SERVICE(""), 1, "the start script of a kit"}},
	{"compose.yaml", {UNSET, KIT_SERVICE(""), 0, NULL}},
	{"compose.yaml",
	 {"ENV-ARENA-IGNORED", KIT_SERVICE("    environment: {MALLOC_ARENA_MAX: \"0\"}\n"), 1,
	  NULL}},
	{"compose.yaml",
	 {UNCLEAR, "services:\n  a:\n    image: nvflare\n    command: [python3, job.py]\n", 1,
	  "it runs Python"}},
	{"compose.yaml",
	 {"ENV-ARENA-IGNORED",
	  "services:\n  a:\n    command: python3 job.py\n    environment: "
	  "[MALLOC_ARENA_MAX=abc]\n",
	  1, NULL}},
	{"pod.yaml",
	 {UNCLEAR, "spec:\n  containers:\n  - args: ['/ws/startup/sub_start.sh']\n", 1, NULL}},
	{"Dockerfile", {UNCLEAR, "FROM a\nCMD [\"/ws/startup/start.sh\"]\n", 1, NULL}},
	{"Dockerfile",
	 {UNCLEAR,
	  "FROM a\nRUN pip install nvflare && python3 x.py\nCOPY a.py b.py\n"
	  "CMD [\"python3\", \"a.py\"]\n",
	  1, "it runs Python"}},
	{"fl.service", {UNCLEAR, "[Service]\nExecStart=/o/startup/start.sh\n", 1, NULL}},
	{"Makefile",
	 {UNCLEAR, "all:\n\tMALLOC_ARENA_MAX=0 nvflare simulator job\n", 1, "are not read"}},
	{"GNUmakefile", {UNSET, "all:\n\tnvflare simulator job\n", 0, NULL}},
	{"rules.mk", {UNCLEAR, "all:\n\tpip install nvflare\n\tpython3 x.py\n", 1, NULL}},
	{"justfile", {UNCLEAR, "all:\n    nvflare poc start\n", 1, NULL}},
	{"compose.yaml",
	 {"ENV-ARENA-IGNORED",
	  "services:\n  a:\n    image: nvflare\n    environment: {MALLOC_ARENA_MAX: '0'}\n", 1,
	  NULL}},
	{"compose.yaml",
	 {"FLWR-LAUNCH-CANNOT-TELL", "services:\n  a:\n    image: flwr/supernode:1.42.0\n", 1,
	  NULL}},
	{"compose.yaml",
	 {"ENV-ARENA-IGNORED",
	  "services:\n  a:\n    image: flwr/serverapp\n    environment: [MALLOC_ARENA_MAX=0]\n", 1,
	  NULL}},
	{"compose.yaml", {"FLWR-LAUNCH-CANNOT-TELL", "services:\n  a:\n    image: x/y\n", 0, NULL}},
	{"compose.yaml",
	 {UNSET, "services:\n  a:\n    command: [nvflare, simulator, job]\n", 1, NULL}},
	{"pod.yaml", {UNSET, "spec:\n  containers:\n  - command: [nvflare, job, list]\n", 0, NULL}},
	{"Dockerfile", {UNCLEAR, "FROM a\nWORKDIR /kit/startup\nCMD [\"./start.sh\"]\n", 1, NULL}},
	{"Dockerfile", {UNCLEAR, "FROM node\nWORKDIR /startup\nCMD [\"./start.sh\"]\n", 0, NULL}},
	{"Makefile", {UNCLEAR, "all:\n\tcd startup && ./start.sh\n", 0, NULL}},
	{"ci.yml", {UNCLEAR, "a:\n  script: [cd startup && ./start.sh]\n", 0, NULL}},
	{"fl.service",
	 {UNCLEAR, "[Service]\nWorkingDirectory=/kit/startup\nExecStart=/bin/sh start.sh\n", 1,
	  NULL}},
	{"app.service",
	 {UNCLEAR, "[Service]\nWorkingDirectory=/k/startup\nExecStart=/bin/sh start.sh\n", 0,
	  NULL}},
	{"fl.conf", {UNSET, "[program:a]\ncommand=nvflare simulator job\n", 1, NULL}},
	{"run.pbs", {UNSET, "#PBS -l select=1\nnvflare simulator job\n", 1, NULL}},
	{"run.pbs", {UNSET, "#PBS -v MALLOC_ARENA_MAX=2\nnvflare simulator job\n", 0, NULL}},
	{"Procfile", {UNSET, "fl: nvflare simulator job\n", 1, NULL}},
	{"fl.conf", {UNCLEAR, "; nvflare\n[program:a]\ncommand=python3 job.py\n", 1, NULL}},
	{"fl.service", {UNSET, "[Service]\nExecStart=-nvflare simulator job\n", 1, NULL}},
	{"run.sh", {UNSET, "command=nvflare simulator job\n", 0, NULL}},
	/* a service in an image of Alpine says nothing about another service */
	{"compose.yaml",
	 {UNSET,
	  "services:\n  a:\n    image: fl\n    command: nvflare simulator x\n"
	  "  b:\n    image: alpine\n    command: nvflare simulator x\n",
	  1, NULL}},
	{"compose.yaml",
	 {"NVF-ARENA-USELESS",
	  "services:\n  a:\n    image: alpine\n    command: nvflare simulator x\n"
	  "    environment: [MALLOC_ARENA_MAX=4]\n"
	  "  b:\n    image: fl\n    command: nvflare simulator x\n"
	  "    environment: [MALLOC_ARENA_MAX=4]\n",
	  1, NULL}},
	{"ci.yml",
	 {UNCLEAR,
	  "env: {MALLOC_ARENA_MAX: 4}\njobs:\n  a:\n    steps:\n"
	  "    - run: nvflare simulator job\n",
	  1, "a workflow runs it"}},
	{"ci.yml",
	 {UNSET,
	  "env: {MALLOC_ARENA_MAX: 4}\njobs:\n  a:\n    steps:\n"
	  "    - run: nvflare simulator job\n",
	  0, NULL}},
	{"ci.yml",
	 {UNCLEAR, "a:\n  script: [pip install nvflare, python3 -m pip list]\n", 0, NULL}},
	{"fl.conf",
	 {UNSET,
	  "[program:a]\nenvironment=A=\"1\",MALLOC_ARENA_MAX=\"4\"\ncommand=nvflare simulator j\n",
	  0, NULL}},
	{"fl.conf",
	 {"ENV-ARENA-IGNORED",
	  "[program:a]\ncommand=nvflare simulator j\nenvironment=MALLOC_ARENA_MAX=0\n", 1, NULL}},
	{"logging.ini", {UNCLEAR, "[nvflare]\nargs=('x.py',)\n", 0, NULL}},
	{"values.yaml",
	 {"ENV-ARENA-IGNORED", "image: nvflare\nMALLOC_ARENA_MAX: \"{{ .Values.n }}\"\n", 0, NULL}},
	{"values.yaml",
	 {UNCLEAR, "image: nvflare\nMALLOC_ARENA_MAX: \"{{ .Values.n }}\"\n", 2, NULL}},
	{"superlink.Dockerfile",
	 {"ENV-ARENA-IGNORED", "FROM flwr/superlink:1.42.0\nENV MALLOC_ARENA_MAX=0\n", 1, NULL}},
	{"run.ksh", {UNSET, "nvflare simulator job\n", 1, NULL}},
	{"fl.def", {UNSET, "From: a\n%runscript\n  exec nvflare simulator job\n", 1, NULL}},
	{"fl.container",
	 {UNSET, "[Container]\nEnvironment=MALLOC_ARENA_MAX=4\nExec=nvflare simulator j\n", 0,
	  NULL}},
	{"fl.container", {UNSET, "[Container]\nExec=nvflare simulator j\n", 1, NULL}},
	{"run.sh.in", {UNCLEAR, "@SHELL@\nnvflare simulator job\n", 1, "are not read"}},
	{".gitlab-ci.yml", {UNCLEAR, "a: {script: [nvflare simulator job]}\n", 1, "a workflow"}},
	{".other.yml", {UNCLEAR, "a: {script: [nvflare simulator job]}\n", 0, NULL}},
	{"compose.yaml",
	 {UNCLEAR, "services:\n  a:\n    working_dir: /kit/startup\n    command: ./start.sh\n", 1,
	  "the start script of a kit"}},
	{"compose.yaml",
	 {UNCLEAR, "services:\n  a:\n    working_dir: /k/startup\n    command: ./start.sh\n", 0,
	  NULL}},
	{"compose.yaml",
	 {UNCLEAR, "services:\n  a:\n    working_dir: /k/other\n    command: ./start.sh startup\n",
	  0, NULL}},
	/* kinds of files that flmem does not read */
	{"run.fish", {UNCLEAR, "set -x A 1\nnvflare simulator job\n", 1, "are not read"}},
	{"Jenkinsfile", {UNCLEAR, "sh 'nvflare simulator job'\n", 1, "are not read"}},
	{"run.sh.j2", {UNCLEAR, "{% if x %}\nnvflare simulator job\n{% endif %}\n", 1, NULL}},
	{"deploy.yaml",
	 {UNCLEAR, "command: [nvflare, simulator, job]\n  env: {{ .Values.env }}\n{{- end }}\n", 1,
	  "are not read"}},
	{"deploy.yaml", {UNCLEAR, "command: [x]\n  env: {{ .Values.env }}\n{{- end }}\n", 0, NULL}},
	{"ci.yml",
	 {UNCLEAR, "run: |\n  pip install nvflare\n  python3 ${{ matrix.job }}.py\n", 1, NULL}},
	/* scripts without a suffix */
	{"runfl", {UNSET, "#!/bin/bash -e\n" CLIENT, 1, NULL}},
	{"runfl", {UNSET, "#!/usr/bin/env bash\n" SET CLIENT, 0, NULL}},
	{"runjob",
	 {"NVF-ENVIRON-LATE",
	  "#!/usr/bin/env python3\nimport nvflare, os\n"
	  "os.environ['MALLOC_ARENA_MAX'] = '2'\n",
	  1, NULL}},
	{"runfl", {UNSET, "#!/usr/bin/perl\n" CLIENT, 0, NULL}},
	{"map.yaml",
	 {UNCLEAR, "kind: ConfigMap\ndata:\n  NVFLARE_CLIENT_MEMORY_GC_ROUNDS: '1'\n", 1,
	  "which program gets"}},
	{"values.yaml",
	 {"NVF-ENV-GC-INVALID", "env:\n- name: NVFLARE_CLIENT_MEMORY_GC_ROUNDS\n  value: two\n", 1,
	  NULL}},
	{"fl.env", {"NVF-ENV-GC-INVALID", "NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two\n", 1, NULL}},
	{".env", {"NVF-ENV-GC-INVALID", "NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two\n", 1, NULL}},
	{"run.zsh", {UNSET, CLIENT, 1, NULL}},
	{"Makefile", {UNCLEAR, "all: x.c\n\tcc x.c\n", 0, NULL}},
	{"compose.yaml",
	 {UNSET,
	  "services:\n  a:\n    command: [sh, -c, 'MALLOC_ARENA_MAX=2; python3 -m "
	  "nvflare.private.fed.app.client.client_train']\n",
	  1, NULL}},
};

/* The settings of a file that is checked beside the script are found in that file. */
static void a_file_that_is_checked_leaves_no_doubt(void **state)
{
	static const char *const others[] = {"job.py", "other.py"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		struct tree tree;
		const char *path;

		tree_init(&tree);
		path = tree.path;
		tree_puts(&tree, "run.sh", "python3 -u ./job.py\n");
		tree_puts(&tree, others[i], "import nvflare\n");
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		assert_int_equal(findings_of(&found, UNCLEAR, &last), i);
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

/* A finding shows the directive alone, and not the text after it, which may contain a token. */
static void what_a_directive_sets_is_shown_alone(void **state)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	const char *path;

	(void)state;
	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, "run.sh", "#!/bin/sh\n#PBS -l a -v MALLOC_ARENA_MAX=0 -J a\nT=1\n" CLIENT);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	assert_int_equal(findings_of(&found, IGNORED, &last), 1);
	assert_string_equal(last->current, "MALLOC_ARENA_MAX=0");
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

static void variables_reach_what_they_are_set_for(void **state)
{
	bool right = scripts_are_right(scripts, FLMEM_ARRAY_SIZE(scripts));

	(void)state;
	right &= files_are_right(files, FLMEM_ARRAY_SIZE(files));
	assert_true(right);
}

/* The text is from NVFlare 2.9.0, lighter/templates/master_template.yml: sub_start_sh */
static void the_start_script_of_nvflare_leaves_nothing_open(void **state)
{
	static const struct row row = {
		UNCLEAR,
		"if [ \"${NVFLARE_ENABLE_JEMALLOC_PRELOAD:-false}\" = \"true\" ]; then\n"
		"  for JEMALLOC in /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 \\\n"
		"                  /usr/local/lib/libjemalloc.so; do\n"
		"      if [ -f \"$JEMALLOC\" ]; then\n"
		"          export MALLOC_CONF=\"${MALLOC_CONF:-dirty_decay_ms:5000}\"\n"
		"          break\n      fi\n  done\nfi\n"
		"export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-4}\n"
		"start_python() {\n  exec " SERVER "}\n"
		"start_fl() {\n  if [[ $(( $SECONDS - $lst )) -lt 300 ]]; then\n"
		"    ((restart_count++))\n  fi\n  start_python &\n}\nstart_fl\n",
		0, NULL};

	(void)state;
	assert_true(row_is_right("sub_start.sh", &row));
}

/* Reports whether a script is judged as expected with that line many times in front of a start. */
static bool many_are_right(const char *line, size_t times, size_t hits, const char *says)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	bool right;

	while (times--)
		flmem_buf_puts(&text, line);
	flmem_buf_puts(&text, CLIENT);
	assert_non_null(text.data);
	right = row_is_right("run.sh", &(struct row){UNCLEAR, text.data, hits, says});
	return right;
}

static void what_there_is_no_room_for_is_said(void **state)
{
	static const char cut[] = "not all of the file was read";

	(void)state;
	assert_true(many_are_right("bash <<A\n", 20000, 1, cut));
	assert_true(many_are_right("bash <<A\n", 3, 0, NULL));
	assert_true(many_are_right(SET, 200, 1, cut));
	assert_true(many_are_right(SET, 20, 0, NULL));
	assert_true(many_are_right(CLIENT, 200, 1, cut));
	assert_true(many_are_right("if x; then y; fi\n", 200, 1, cut));
	assert_true(many_are_right("if x; then y; fi\n", 20, 0, NULL));
	assert_true(many_are_right("cat <<A <<B <<C <<D <<E\nA\nB\nC\nD\nE\n", 1, 1, cut));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_directive_sets_is_shown_alone),
		cmocka_unit_test(variables_reach_what_they_are_set_for),
		cmocka_unit_test(a_file_that_is_checked_leaves_no_doubt),
		cmocka_unit_test(the_start_script_of_nvflare_leaves_nothing_open),
		cmocka_unit_test(what_there_is_no_room_for_is_said),
	};

	return cmocka_run_group_tests_name("launch_shell", tests, NULL, NULL);
}
