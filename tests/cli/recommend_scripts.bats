#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2030,SC2031 # Python in quotes; bats' run sets output in each test
# `flmem recommend` on scripts that start jobs, and on what runs behind them.

load helpers

JOBS=$FLMEM_TESTS/fixtures/jobs

# Prints "RULE FILE:LINE" of every finding in $output, sorted as printed.
findings() {
	python -c '
import json, os, sys
for f in json.load(sys.stdin)["findings"]:
    print(f["rule"], "%s:%d" % (os.path.basename(f["file"]), f["line"]))' <<<"$output"
}

@test "a folder is read with what its hidden CI files and launchers run" {
	local job=$BATS_TEST_TMPDIR/job
	mkdir -p "$job/.circleci"
	printf 'jobs: {a: {steps: [{run: {command: "nvflare simulator j"}}]}}\n' >"$job/.circleci/config.yml"
	printf '#!/bin/sh\ntorchrun --nproc_per_node $N client.py\n' >"$job/run.sh"
	printf 'import nvflare\nSimEnv(2)\n' >"$job/client.py"
	printf 'import gc\nimport nvflare\ngc.collect = lambda: 0\n' >"$job/job.py"
	flmem recommend --json "$job"
	assert_status 0
	assert_schema recommend
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-LAUNCH-CANNOT-TELL config.yml:1
		NVF-CLEANUP-REPLACED job.py:3
		NVF-ARENA-UNSET run.sh:2
	END
}

@test "a script that runs no checked file and names no framework is none" {
	printf '#!/bin/sh\ntorchrun client.py\n' >"$BATS_TEST_TMPDIR/run.sh"
	flmem recommend "$BATS_TEST_TMPDIR/run.sh"
	assert_status 2
	printf 'import nvflare\n' >"$BATS_TEST_TMPDIR/client.py"
	flmem recommend "$BATS_TEST_TMPDIR/run.sh" "$BATS_TEST_TMPDIR/client.py"
	assert_status 0
	assert_output '2 files checked, error: 0, warning: 0, info: 0'
}

@test "what is installed beside a job is not searched, a named environment is" {
	local top=$BATS_TEST_TMPDIR/work
	local start=$'#!/bin/sh\nnvflare simulator j\n'
	mkdir -p "$top"/{tools/lib,conda/conda-meta,lib/site-packages/x,lib/dist-packages,conda-meta}
	: >"$top/tools/pyvenv.cfg"
	: >"$top/conda/conda-meta/history"
	printf '%s' "$start" | tee "$top"/{tools/lib,conda,lib/site-packages/x,lib/dist-packages}/run.sh >"$top/lib/own.sh"
	printf '%s' "$start" >"$top/conda-meta/mine.sh"
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-ARENA-UNSET mine.sh:2
		NVF-ARENA-UNSET own.sh:2
	END
	flmem recommend --json "$top/tools" # also a project whose environment is made in its folder
	diff <(findings) <(echo 'NVF-ARENA-UNSET run.sh:2') || fail "other findings"
}

@test "what a script imports through modules beside it is NVFlare's as if it imported it itself" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top/fl"
	printf 'from .parts import Fed as FedRecipe\nfrom . import api\n' >"$top/fl/__init__.py"
	printf 'from nvflare.app_opt.pt.recipes import FedAvgRecipe\nFed = FedAvgRecipe\n' >"$top/fl/parts.py"
	printf 'from nvflare.client import *\n' >"$top/fl/api.py"
	printf 'from fl import FedRecipe\nFedRecipe(name="x", cuda_empty_cache=True, server_memory_gc_rounds=1)\n' >"$top/job.py"
	printf 'from fl.api import send\nfrom fl import api as flare\nsend(1, False)\nflare.send(1, 0)\n' >"$top/client.py"
	printf 'from ..fl.parts import Fed\nFed(name="x", cuda_empty_cache=True, server_memory_gc_rounds=1)\n' >"$top/fl/other.py"
	printf 'from fl import helper\nhelper.send(1, False)\n' >"$top/none.py"
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-CLEAR-CACHE-FALSE client.py:3
		NVF-CLEAR-CACHE-FALSE client.py:4
		NVF-CUDA-NOOP other.py:2
		NVF-CUDA-NOOP job.py:2
	END
	flmem recommend --json "$top/client.py" # its modules are not named
	diff <(findings | sort) - <<-'END' || fail "other findings"
		NVF-CLEAR-CACHE-FALSE client.py:3
		NVF-CLEAR-CACHE-FALSE client.py:4
	END
	flmem recommend "$top/none.py"
	assert_status 2
	printf '{"cells":[{"cell_type":"code","source":["1"]},{"cell_type":"code","source":["from fl import api"]},{"cell_type":"code","source":["api.send(1, False)"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}' >"$top/book.ipynb"
	flmem recommend --json "$top/book.ipynb"
	diff <(findings) <(echo 'NVF-CLEAR-CACHE-FALSE book.ipynb:1') || fail "other findings"
}

@test "what the modules of a script change of its memory is found in them, once" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top/app/fl" "$top/other"
	printf 'import nvflare.client as flare\nfrom fl import util\n' | tee "$top/app/a.py" >"$top/app/b.py"
	: >"$top/app/fl/__init__.py"
	printf 'import gc\nfrom . import low\ngc.disable()\n' >"$top/app/fl/util.py"
	printf 'import os\nos.environ["MALLOC_ARENA_MAX"] = "2"\nos.environ[name] = "x"\n' >"$top/app/fl/low.py"
	printf 'import gc, subprocess\ngc.disable()\nsubprocess.run(command)\n' >"$top/app/unused.py"
	printf 'import torch\nimport tool\n' >"$top/other/train.py" # it uses no framework
	printf 'import gc\ngc.disable()\n' >"$top/other/tool.py"
	flmem recommend --json "$top"
	assert_status 0
	assert_schema recommend
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-ENVIRON-LATE low.py:2
		NVF-COLLECTOR-OFF util.py:3
	END
	(cd "$top/app" && flmem recommend --json a.py && assert_output '"fl/util.py"')
	flmem recommend --json "$top/app/a.py" "$top/app/b.py"
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-ENVIRON-LATE low.py:2
		NVF-COLLECTOR-OFF util.py:3
	END
	printf 'import os\nos.environ["TMPDIR"] = "/dev/shm"\n' >"$top/app/place.py"
	printf 'import place\nfrom nvflare.recipe import FedAvgRecipe\nFedAvgRecipe(name="x", num_rounds=9, server_memory_gc_rounds=1, client_memory_gc_rounds=1, enable_tensor_disk_offload=True, server_expected_format="pytorch")\n' >"$top/app/job.py"
	# the version decides what the job offloads
	flmem recommend --json --framework-version 2.9.0 "$top/app/job.py"
	diff <(findings) <(echo 'NVF-ENVIRON-CANNOT-TELL place.py:2') || fail "other findings"
	sed -i 's/gc.disable()/& # flmem: ignore NVF-COLLECTOR-OFF it is meant/' "$top/app/fl/util.py"
	flmem recommend --json "$top/app/a.py"
	diff <(findings) <(echo 'NVF-ENVIRON-LATE low.py:2') || fail "other findings"
}

@test "modules are found by import_module(), in packages and in folders that a script adds" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top/app/pack" "$top/app/lib" "$top/shared"
	cat >"$top/app/client.py" <<-'END'
		import nvflare.client as flare
		import importlib, os, sys
		sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
		sys.path.append('../shared')
		importlib.import_module("named")
		__import__('built')
		import pack.part, added, other
	END
	: >"$top/app/pack/part.py"
	printf 'import gc\ngc.disable()\n' |
		tee "$top"/app/{named,built}.py "$top"/app/pack/__init__.py "$top"/app/lib/added.py "$top"/shared/other.py \
			>"$top/shared/unused.py"
	flmem recommend --json "$top/app/client.py"
	assert_status 0
	diff <(findings | sort) - <<-'END' || fail "other findings"
		NVF-COLLECTOR-OFF __init__.py:2
		NVF-COLLECTOR-OFF added.py:2
		NVF-COLLECTOR-OFF built.py:2
		NVF-COLLECTOR-OFF named.py:2
		NVF-COLLECTOR-OFF other.py:2
	END
}

@test "a job that a module makes which is not checked is a doubt" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top/runs"
	printf 'from nvflare.app_opt.pt.recipes import FedAvgRecipe\njob = FedAvgRecipe(name="x")\n' >"$top/parts.py"
	printf 'class Mine(Base):\n    pass\n# nvflare\n' >"$top/none.py"
	printf 'from parts import job\nimport nvflare\nimport none\njob.run(env)\n' >"$top/runs/start.py"
	printf 'from parts import job\njob.run(env)\n' >"$top/runs/plain.py"
	flmem recommend --json "$top/runs/start.py"
	assert_status 0
	diff <(findings) <(echo 'NVF-PARTS-ELSEWHERE parts.py:2') || fail "other findings"
	flmem recommend --json "$top/runs"
	diff <(findings) <(echo 'NVF-PARTS-ELSEWHERE parts.py:2') || fail "other findings"
	flmem recommend --json "$top/runs/start.py" "$top/parts.py"
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-CLI-GC-OFF parts.py:2
		NVF-SRV-GC-OFF parts.py:2
	END
	flmem recommend --json "$top"
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-CLI-GC-OFF parts.py:2
		NVF-SRV-GC-OFF parts.py:2
	END
}

@test "_target_ of YAML that names a module beside it about NVFlare is a doubt" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top/conf/job" "$top/fl"
	printf 'from .base import Base\ndef make():\n    return Base()\n' >"$top/fl/jobs.py"
	printf 'from nvflare.app_opt.pt.recipes import FedAvgRecipe\nclass Base(FedAvgRecipe):\n    pass\n' >"$top/fl/base.py"
	printf 'import flwr\nclass Client(flwr.client.NumPyClient):\n    pass\n' >"$top/fl/client.py"
	printf 'calls: [x]\njob:\n  _target_: fl.jobs.make\n  opt: {"_target_": torch.optim.SGD, lr: 1}\n' >"$top/conf/job/a.yaml"
	printf '_target_: fl.client.Client\nmodel:\n  _target_: fl.absent.Net\n# _target_: fl.jobs.make\n' >"$top/conf/job/none.yaml"
	printf '_target_: "fl.base.Base.create"\n' >"$top/conf/b.yml"
	flmem recommend --json "$top/conf" # its modules are not named
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-IMPORTED-BY-NAME b.yml:1
		NVF-IMPORTED-BY-NAME a.yaml:3
		NVF-PARTS-ELSEWHERE base.py:2
	END
}

@test "modules of a script that are not regular files, too large or each other's are passed over" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top"
	mkfifo "$top/pipe.py"
	{ printf 'from nvflare.client import send\n'; head -c 70000 /dev/zero | tr '\0' '#'; } >"$top/large.py"
	printf 'from b import send\n' >"$top/a.py"
	printf 'from a import send\n# nvflare\n' >"$top/b.py"
	printf 'from nvflare.client import send\n(\n' >"$top/torn.py"
	printf 'import pipe\nfrom large import send\nfrom a import send\nfrom torn import send as s\nsend(1, False)\ns(1, False)\n' >"$top/client.py"
	flmem recommend --json "$top/client.py"
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-CLEAR-CACHE-FALSE client.py:6
		PYTHON-REFUSED torn.py:2
	END
}

@test "a file about two frameworks, or an app and commands, is checked for both" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top"
	cat >"$top/client.py" <<-'END'
		import nvflare.client as flare
		from flwr.app import ArrayRecord
		flare.send(1, clear_cache=False)
		ArrayRecord(state)
	END
	printf 'import nvflare\nimport appfl\ncfg.server_configs.use_model_chunking = False\n' >"$top/server.py"
	cat >"$top/pyproject.toml" <<-'END'
		[tool.flwr.app.components]
		serverapp = "a:app"
		[tool.flwr.federations.local]
		options.num-supernodes = 10
		[tool.poe.tasks]
		sim = "nvflare simulator job -n 2"
	END
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-CLEAR-CACHE-FALSE client.py:3
		FLWR-KEEP-INPUT client.py:4
		FLWR-SIM-RESOURCES pyproject.toml:4
		NVF-LAUNCH-CANNOT-TELL pyproject.toml:6
		APPFL-SET-IN-PYTHON server.py:3
	END
}

@test "a variable whose name resembles one that is read is a finding, unless a file uses it" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top"
	printf 'NVFLARE_SERVER_MEMORY_GC_ROUNDS=1\nMALLOC_ARENAS_MAX=4\n# MALLOC_ARENA_MX=4\n' >"$top/a.env"
	cat >"$top/b.yaml" <<-'END'
		services:
		  server:
		    command: nvflare simulator job
		    environment:
		      MALLOC_ARENA_MAX: 4
		      NVFLARE_ENABLE_JEMALOC_PRELOAD: "true"
	END
	cat >"$top/c.py" <<-'END'
		import os, nvflare
		os.environ["NVFLARE_EMPTY_CACHE"] = "true"
		if os.environ["NVFLARE_CUDA_EMPTY_CACHES"] == "x": pass
		subprocess.run("x", env={"MALLOC_ARENA_MX": "2"})
		os.environ["NVFLARE_ROLE_LABEL"] = "x"
	END
	cat >"$top/d.sh" <<-'END'
		#!/bin/sh
		NVFLARE_GC_ROUNDS=3 NVFLARE_JEMALLOC=1 NVFLARE_CUDA_EMPTY_CACHES=x
		export MALLOC_ARENA_MAX=4 NVFLARE_CLIENT_MEMORY_GC_ROUNDS=$NVFLARE_GC_ROUNDS
		nvflare simulator job
	END
	printf 'FROM x\nENV MALLOC_AREN_MAX 4\nCMD nvflare simulator job\n' >"$top/Dockerfile"
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings | grep UNKNOWN) - <<-'END' || fail "other findings"
		NVF-ENV-UNKNOWN Dockerfile:2
		NVF-ENV-UNKNOWN a.env:1
		NVF-ENV-UNKNOWN a.env:2
		NVF-ENV-UNKNOWN b.yaml:6
		NVF-ENV-UNKNOWN c.py:2
		NVF-ENV-UNKNOWN c.py:4
		NVF-ENV-UNKNOWN d.sh:2
	END
	[[ $output == *'NVFLARE_JEMALLOC'* && $output != *'"NVFLARE_GC_ROUNDS"'* ]] || fail "other names"
}

@test "the version that the files of a folder install is the one that findings are about" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top"
	printf 'from nvflare.recipe import FedTaskRecipe\nFedTaskRecipe(name="x", client_memory_gc_rounds=1)\n' >"$top/job.py"
	flmem recommend --json "$top"
	diff <(findings) /dev/null || fail "findings without a version"
	printf 'FROM x\n# nvflare==2.9.0\nRUN pip install "nvflare[PT] == 2.8.0"\n' >"$top/Dockerfile"
	flmem recommend --json "$top"
	diff <(findings) <(echo "NVF-EXECUTOR-TOO-NEW job.py:2") || fail "other findings"
	flmem recommend --json --framework-version 2.9 "$top"
	diff <(findings) /dev/null || fail "the option does not count"
	printf 'my-nvflare==2.7\nnvflare==2.8.0\n' >"$top/requirements.txt"
	flmem recommend --json "$top"
	diff <(findings) <(echo "NVF-EXECUTOR-TOO-NEW job.py:2") || fail "other findings"
	local pin
	rm "$top/Dockerfile"
	for pin in 'NVFlare==2.8.0 --hash=x' 'nvflare==2.8.*' 'nvflare[PT] ~= 2.8.0' 'nvflare = "2.8.0"' '- nvflare=2.8'; do
		echo "$pin" >"$top/requirements.txt"
		flmem recommend --json "$top"
		diff <(findings) <(echo "NVF-EXECUTOR-TOO-NEW job.py:2") || fail "other findings with $pin"
	done
	for pin in 'nvflare>=2.8.0' 'nvflare~=2.8' 'nvflare = "^2.8"' 'nvflare2==2.8.0' 'nvflare'; do
		echo "$pin" >"$top/requirements.txt"
		flmem recommend --json "$top"
		diff <(findings) /dev/null || fail "findings with $pin"
	done
	printf 'nvflare==2.9.0\n' >"$top/requirements.txt" # two versions
	printf 'RUN pip install nvflare==2.8.0\n' >"$top/Dockerfile"
	flmem recommend --json "$top"
	diff <(findings) /dev/null || fail "findings of one of two versions"
}

@test "what a script starts by other packages than subprocess and os is cannot tell" {
	local top=$BATS_TEST_TMPDIR/project
	mkdir -p "$top"
	printf 'import nvflare, pexpect\npexpect.run("nvflare simulator job -n 2")\n' >"$top/a.py"
	printf 'import nvflare, sh\nsh.nvflare("simulator", "job", _env={"MALLOC_ARENA_MAX": "4"})\n' >"$top/b.py"
	printf 'import nvflare\nfrom fabric import Connection\nConnection("h").run("nvflare simulator job")\n' >"$top/c.py"
	printf 'import docker # nvflare\nc = docker.from_env().containers\nc.run("x", "nvflare simulator j")\n' >"$top/d.py"
	printf 'import nox\ndef t(s):\n  s.run("nvflare", "simulator", "j")\n' >"$top/e.py"
	printf 'import nvflare, psutil\npsutil.Popen(["x"], env={"LD_PRELOAD": "y"})\n' >"$top/f.py"
	printf 'import nvflare, shutil, logging\nlogging.info("nvflare simulator j")\nshutil.run("x")\n' >"$top/g.py"
	printf 'import nvflare, runner\nrunner.go("nvflare simulator j")\n' >"$top/h.py"
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-ENVIRON-CANNOT-TELL a.py:2
		NVF-ENVIRON-CANNOT-TELL b.py:2
		NVF-ENVIRON-CANNOT-TELL b.py:2
		NVF-ENVIRON-CANNOT-TELL c.py:3
		NVF-ENVIRON-CANNOT-TELL d.py:3
		NVF-ENVIRON-CANNOT-TELL e.py:3
		NVF-ENVIRON-CANNOT-TELL f.py:2
		NVF-ENVIRON-CANNOT-TELL h.py:2
	END
}

@test "all cells of a notebook are searched, not the first one alone" {
	local top=$BATS_TEST_TMPDIR/books
	mkdir -p "$top"
	cells_of() { printf '{"cells":[%s],"metadata":{},"nbformat":4,"nbformat_minor":5}' "$(IFS=,; echo "$*")"; }
	book() {
		local name=$1 cells=() text
		shift
		for text in "$@"; do cells+=("{\"cell_type\":\"code\",\"source\":[\"$text\"]}"); done
		cells_of "${cells[@]}" >"$top/$name.ipynb"
	}
	book json "import nvflare" "c['memory_gc_rounds'] = 0" "json.dump(c, f)"
	book appfl "import appfl" "c = OmegaConf.from_dotlist(['a.use_model_chunking=False'])"
	book chunk "import nvflare" "c = {'np_download_chunk_size': 0}" "job.to(c, 'x')"
	book names "import nvflare, os" "os.environ['NVFLARE_CUDA_EMPTY_CACHES'] = 'true'"
	book pinned "1" "!pip install nvflare==2.8.0" "from nvflare.recipe import FedTaskRecipe" "FedTaskRecipe(name='x', client_memory_gc_rounds=1)"
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		APPFL-SET-IN-PYTHON appfl.ipynb:1
		NVF-CONFIG-CANNOT-TELL chunk.ipynb:1
		NVF-SETTING-ASSIGNED json.ipynb:1
		NVF-ENV-UNKNOWN names.ipynb:1
		NVF-EXECUTOR-TOO-NEW pinned.ipynb:1
	END
}

@test "a command for clients that is a variable may set variables" {
	local top=$BATS_TEST_TMPDIR/project recipe='FedAvgRecipe(name="x", num_rounds=9, server_memory_gc_rounds=1, client_memory_gc_rounds=1, command=c)'
	mkdir -p "$top"
	printf 'from nvflare.recipe import FedAvgRecipe\nc = "MALLOC_ARENA_MAX=2 python3"\n%s\n' "$recipe" >"$top/a.py"
	printf 'from nvflare.recipe import FedAvgRecipe\nc = "python3 -u"\n%s\n' "$recipe" >"$top/b.py"
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings) <(echo "NVF-ENVIRON-CANNOT-TELL a.py:2") || fail "other findings"
}

@test "code in Markdown and .pyw is checked, settings of APPFL in JSON and TOML are corrected" {
	local top=$BATS_TEST_TMPDIR/top
	local recipe=$'from nvflare.recipe import FedAvgRecipe\nFedAvgRecipe(num_rounds=9, client_memory_gc_rounds=1)\n'
	mkdir -p "$top"
	printf '%s' "$recipe" >"$top/job.pyw"
	printf 'A job:\n\n```python\n%s```\n' "$recipe" >"$top/README.md"
	printf 'executable = nvflare\narguments = simulator j\nqueue\n' >"$top/job.sub"
	printf 'server_configs:\n  aggregator: FedAvgAggregator\n  comm_configs:\n    grpc_configs:\n      use_model_chunking: true\n      model_chunk_size: 4096\n' >"$top/server.yaml"
	printf '{"client_id": "a", "comm_configs": {"grpc_configs": {"use_model_chunking": true, "model_chunk_size": 5}}}\n' >"$top/a.json"
	printf 'client_id = "b"\n[comm_configs.grpc_configs]\nuse_model_chunking = true\nmodel_chunk_size = 7\n' >"$top/b.toml"
	flmem recommend --json "$top"
	assert_schema recommend
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-SRV-GC-OFF README.md:5
		APPFL-CHUNK-SIZE-MISMATCH a.json:1
		APPFL-CHUNK-SIZE-MISMATCH b.toml:4
		NVF-SRV-GC-OFF job.pyw:2
		NVF-LAUNCH-CANNOT-TELL job.sub:1
	END
	flmem recommend --fix "$top"
	assert_stderr '2 proposed values in Python, which is not written'
	grep -q '"model_chunk_size": 4096}' "$top/a.json"
	grep -q '^model_chunk_size = 4096$' "$top/b.toml"
}

@test "of configurations that differ in their suffix the one is checked that NVFlare reads" {
	local job=$BATS_TEST_TMPDIR/job config
	cp -r "$JOBS/fedavg-tuned" "$job"
	config=$job/app/config/config_fed_server
	sed 's/"memory_gc_rounds": [0-9]*/"memory_gc_rounds": 0/' "$config.json" >"$config.json.default"
	flmem recommend "$job" --fail-on warning
	assert_status 1
	assert_output 'config_fed_server.json.default'
	assert_output 'NVF-CONFIG-IGNORED'
	assert_output 'it reads config_fed_server.json[)]'
	refute_output 'NVF-SRV-GC-OFF'
	mv "$config.json" "$config.yaml"
	mv "$config.json.default" "$config.conf"
	flmem recommend "$job"
	assert_output 'config_fed_server.yaml'
	assert_output 'it reads config_fed_server.conf'
	assert_output 'NVF-SRV-GC-OFF'
	flmem recommend "$config.yaml"
	assert_output 'NVF-CONFIG-IGNORED'
	mv "$config.yaml" "$config.json"
	flmem recommend "$config.conf"
	assert_output 'NVF-CONFIG-IGNORED'
	assert_output 'NVF-SRV-GC-OFF'
	rm "$config.json"
	flmem recommend "$job"
	refute_output 'NVF-CONFIG-IGNORED'
	mkdir "$job/local"
	echo '{"format_version": 2, "components": [{"path": "nvflare.app_opt.job_launcher.docker_launcher.ServerDockerJobLauncher", "args": {}}]}' \
		>"$job/local/resources.json.default"
	echo '{"format_version": 2, "components": []}' >"$job/local/resources.json"
	flmem recommend "$job/local"
	assert_output 'info: NVF-CONFIG-IGNORED'
	refute_output 'NVF-LAUNCHER-ENV-LOST'
	rm "$job/local/resources.json"
	flmem recommend "$job/local"
	assert_output 'NVF-LAUNCHER-ENV-LOST'
}

@test "configurations outside of a job name their own folder, none above it" {
	mkdir -p "$BATS_TEST_TMPDIR/mine/parts" "$BATS_TEST_TMPDIR/job/app/config"
	local folder
	for folder in mine mine/parts job/app/config; do
		echo '{"workflows": []}' >"$BATS_TEST_TMPDIR/$folder/config_fed_server.json"
	done
	flmem recommend "$BATS_TEST_TMPDIR/mine" "$BATS_TEST_TMPDIR/job"
	for folder in mine mine/parts job; do
		assert_stderr "$BATS_TEST_TMPDIR/$folder: the job has no meta file"
	done
	[[ $stderr != *"$BATS_TEST_TMPDIR: "* ]] || fail "$stderr"
}

@test "a part of a job is not called one without a meta file, from whichever folder it is named" {
	local job=$BATS_TEST_TMPDIR/job
	cp -r "$FLMEM_TESTS/fixtures/exported/2.8.1-fedavg-default" "$job"
	ln -s job/app/config "$BATS_TEST_TMPDIR/link"
	local place
	for place in "$job/app config" "$job/app ./config" "$job/app ." "$job/app/config ." \
		"$BATS_TEST_TMPDIR job/app" "$BATS_TEST_TMPDIR link"; do
		cd "${place% *}"
		flmem recommend "${place##* }"
		assert_status 0
		assert_output 'warning: NVF-SRV-GC-OFF'
		assert_stderr "warning: .*: part of the job '$job', whose meta file and other apps are not"
		[[ $stderr != *"no meta file"* ]] || fail "$stderr"
	done
	rm "$job/meta.json"
	cd "$job/app"
	flmem recommend config
	assert_status 8
	assert_stderr "recommend: \.\.: the job has no meta file"
}

@test "a link to a folder that is not searched is said not to be followed" {
	local here=$BATS_TEST_TMPDIR
	mkdir "$here/jobs" "$here/links"
	cp -r "$FLMEM_TESTS/fixtures/exported/2.8.1-fedavg-default" "$here/jobs/one"
	cp -r "$here/jobs/one" "$here/two"
	ln -s one "$here/jobs/same"
	flmem recommend "$here/jobs"
	assert_status 0
	[ -z "$stderr" ] || fail "$stderr"
	ln -s ../two "$here/jobs/two"
	flmem recommend "$here/jobs"
	assert_status 0
	assert_stderr "warning: $here/jobs/two: a symbolic link to a folder, which is not followed"
	ln -s ../two "$here/links/two"
	flmem recommend "$here/links"
	assert_status 2
	assert_stderr "$here/links/two: a symbolic link to a folder, which is not followed"
}
