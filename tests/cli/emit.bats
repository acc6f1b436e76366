#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem start --emit`: what is written is valid, runs, and starts the role with its settings.

# What stands in single quotes is for another shell; every test has its own VICTIMS.
# shellcheck disable=SC2016,SC2030,SC2031
load helpers

PYTHON=/usr/bin/python3
JEMALLOC=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2

setup() {
	unset MALLOC_ARENA_MAX MALLOC_CONF LD_PRELOAD NVFLARE_ENABLE_JEMALLOC_PRELOAD
	cd "$BATS_TEST_TMPDIR" || return
}

emit() {
	"$FLMEM" start --no-gpu "$@"
}

assert_yaml() {
	"$PYTHON" -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"
	"$PYTHON" -c 'import sys, yaml; d = yaml.safe_load(open(sys.argv[1])); exec(sys.argv[2])' "$1" "$2"
}

@test "scripts are clean under shellcheck" {
	requires shellcheck
	local role
	for role in server client; do
		emit --role "$role" --emit sub_start >sub_start.sh
		shellcheck sub_start.sh
		emit --role "$role" --emit sub_start --site "it's" --org 'a $b' -- python3 "x y" >sub_start.sh
		shellcheck sub_start.sh
		emit --role "$role" --emit slurm >slurm.sh
		shellcheck slurm.sh
		emit --role "$role" --emit pbs --jemalloc >pbs.sh
		shellcheck pbs.sh
		emit --role "$role" --emit snippet >snippet.sh
		shellcheck -s sh snippet.sh
	done
}

@test "the snippet sets the role's arenas, and lets a value stand" {
	local shell value
	emit --role client --emit snippet >block.sh
	for shell in dash bash; do
		[ "$($shell -c '. ./block.sh; echo "$MALLOC_ARENA_MAX,$LD_PRELOAD,$MALLOC_CONF"')" = 2,, ]
		[ "$(MALLOC_ARENA_MAX=3 $shell -c '. ./block.sh; echo $MALLOC_ARENA_MAX')" = 3 ]
		for value in 0 abc -1 ''; do
			[ "$(MALLOC_ARENA_MAX=$value $shell -uc '. ./block.sh; echo $MALLOC_ARENA_MAX')" = 2 ]
		done
	done
	emit --role server --emit snippet >block.sh
	[ "$(sh -c '. ./block.sh; echo $MALLOC_ARENA_MAX')" = 4 ]
	emit --role server --parallelism high --emit snippet >block.sh
	[ "$(sh -c '. ./block.sh; echo $MALLOC_ARENA_MAX')" = 8 ]
}

@test "the snippet preloads jemalloc when opted in, with every known path" {
	requires "$JEMALLOC"
	emit --role client --emit snippet >block.sh
	local path shell
	for path in "$JEMALLOC" /usr/lib64/libjemalloc.so.2 /usr/local/lib/libjemalloc.so \
		/usr/lib/aarch64-linux-gnu/libjemalloc.so.2; do
		grep -qF "$path" block.sh
	done
	for shell in dash bash; do
		run_command env NVFLARE_ENABLE_JEMALLOC_PRELOAD=true $shell -c ". ./block.sh
			echo \$MALLOC_CONF; grep -c libjemalloc.so.2 /proc/self/maps"
		assert_output '^dirty_decay_ms:5000,muzzy_decay_ms:5000'
		[ "${lines[1]}" -gt 0 ]
		run_command env NVFLARE_ENABLE_JEMALLOC_PRELOAD=true MALLOC_CONF=narenas:1 LD_PRELOAD=libm.so.6 \
			$shell -c '. ./block.sh; echo $MALLOC_CONF,$LD_PRELOAD'
		[ "$output" = "narenas:1,libm.so.6:$JEMALLOC" ]
	done
}

# Makes a kit with a fake python3 that records how it was started.
make_kit() {
	mkdir -p site-9/startup site-9/local bin
	cat >bin/python3 <<-'END'
		#!/bin/sh
		echo "$$ $MALLOC_ARENA_MAX $*" >>"$RECORD"
		exec sleep 600
	END
	chmod +x bin/python3
	export RECORD=$PWD/record
	: >record
	emit --role client --emit sub_start --org o --output site-9/startup/sub_start.sh
}

@test "the start script writes through no link that waits for it" {
	make_kit
	echo theirs >target
	local shell
	for shell in dash bash; do
		: >record
		# The name contains the script's process id, which can be guessed.
		PATH=$PWD/bin:$PATH sh -c 'ln -s "$PWD/target" "site-9/daemon_pid.fl.$$"
			ln -s "$PWD/nowhere" "site-9/pid.fl.$$"
			exec "$1" site-9/startup/sub_start.sh' sh $shell >log 2>&1 3>&- </dev/null &
		local script=$!
		VICTIMS+=("$script")
		wait_until 60 test -s record
		wait_until 60 test -s site-9/pid.fl
		VICTIMS+=("$(cat site-9/pid.fl)")
		[ "$(cat target)" = theirs ]
		[ ! -e nowhere ]
		[ ! -L site-9/pid.fl ]
		touch site-9/shutdown.fl
		kill -TERM "$(cat site-9/pid.fl)"
		wait "$script"
	done
}

@test "the whole start script starts the role, announces it, restarts and stops it" {
	make_kit
	local shell pid
	for shell in dash bash; do
		: >record
		PATH=$PWD/bin:$PATH $shell site-9/startup/sub_start.sh >log 2>&1 3>&- </dev/null &
		local script=$!
		VICTIMS+=("$script")
		wait_until 60 test -s record
		wait_until 60 test -s site-9/pid.fl
		pid=$(cat site-9/pid.fl)
		VICTIMS+=("$pid")
		[ "$(cat site-9/daemon_pid.fl)" = "$script" ]
		[ "$(cat record)" = "$pid 2 -u -m nvflare.private.fed.app.client.client_train -m $PWD/site-9 -s fed_client.json --set secure_train=true uid=site-9 org=o config_folder=config" ]
		run_command $shell site-9/startup/sub_start.sh
		assert_status 1
		assert_stderr 'supervises'
		kill -KILL "$pid"
		wait_until 60 eval '[ "$(wc -l <record)" = 2 ]'
		wait_until 60 eval '[ "$(cat site-9/pid.fl)" != '"$pid"' ]'
		pid=$(cat site-9/pid.fl)
		VICTIMS+=("$pid")
		touch site-9/shutdown.fl
		kill -TERM "$pid"
		wait "$script"
		[ -z "$(find site-9 -name '*.fl')" ]
	done
}

# Waits for the child; the file may still hold the number of an earlier one.
child_started() {
	CHILD=$(cat site-9/pid.fl 2>/dev/null) && [ -n "$CHILD" ] && alive "$CHILD"
}

# start_script [SHELL]: runs the kit's script in the background; SCRIPT is its pid, CHILD the
# command's.
start_script() {
	: >record
	PATH=$PWD/bin:$PATH "${1:-dash}" site-9/startup/sub_start.sh >log 2>&1 3>&- </dev/null &
	SCRIPT=$!
	VICTIMS+=("$SCRIPT")
	wait_until 60 test -s record
	wait_until 60 child_started
	VICTIMS+=("$CHILD")
}

end_script() {
	touch site-9/shutdown.fl
	# The command may have ended already because of that file.
	kill -TERM "$CHILD" 2>/dev/null || ! alive "$CHILD"
	wait "$SCRIPT"
}

@test "a directory is not a request to the start script" {
	make_kit
	mkdir site-9/shutdown.fl site-9/restart.fl
	start_script
	rmdir site-9/shutdown.fl site-9/restart.fl
	end_script
	[ "$(wc -l <record)" = 1 ]
}

@test "a number of another process does not keep the start script from starting" {
	make_kit
	sleep 600 3>&- &
	VICTIMS+=("$!")
	local shell number
	for shell in dash bash; do
		for number in "$!" 2 4194303 '' garbage; do
			echo "$number" >site-9/daemon_pid.fl
			start_script $shell
			[ "$(cat site-9/daemon_pid.fl)" = "$SCRIPT" ]
			end_script
		done
	done
}

@test "the start script, NVFlare's own and flmem start exclude each other" {
	make_kit
	printf '#!/usr/bin/env bash\nwhile :; do sleep 0.2; done\n' >theirs.sh
	chmod +x theirs.sh
	./theirs.sh 3>&- </dev/null &
	local theirs=$!
	VICTIMS+=("$theirs")
	wait_until 60 grep -qz bash "/proc/$theirs/cmdline"
	echo "$theirs" >site-9/daemon_pid.fl
	run_command sh site-9/startup/sub_start.sh
	assert_status 1
	assert_stderr "process $theirs supervises"
	kill "$theirs"
	rm site-9/daemon_pid.fl
	start_script
	rm site-9/daemon_pid.fl
	flmem start --role client --supervise --workspace site-9 -- touch started
	assert_error 7 'another process supervises'
	run_command sh site-9/startup/sub_start.sh
	assert_status 1
	assert_stderr 'supervises .* already'
	end_script
	"$FLMEM" start --role client --supervise --workspace site-9 -- sleep 600 2>log 3>&- </dev/null &
	SCRIPT=$!
	VICTIMS+=("$SCRIPT")
	wait_until 60 child_started
	VICTIMS+=("$CHILD")
	run_command sh site-9/startup/sub_start.sh
	assert_status 1
	assert_stderr "process $SCRIPT supervises"
	end_script
	[ ! -e started ]
}

@test "a killed start script leaves no lock, and what it left running is not started twice" {
	make_kit
	start_script
	kill -KILL "$SCRIPT"
	wait "$SCRIPT" || true
	# The process has the words of the real command; sleep does not accept them.
	bash -c 'exec -a "$1" sleep 600' bash "$PWD/site-9" 3>&- </dev/null &
	VICTIMS+=("$!")
	wait_until 60 grep -qz "site-9$" "/proc/$!/cmdline"
	echo "$!" >site-9/pid.fl
	run_command sh site-9/startup/sub_start.sh
	assert_status 1
	assert_stderr "process $! of an earlier script still runs"
	alive "$!"
	kill "$!"
	wait "$!" || true
	start_script
	end_script
}

@test "the start script verifies the kit as NVFlare's does, and makes its environment" {
	make_kit
	printf '#!/bin/sh\necho "$PYTHONPATH: $*" >>"$RECORD"\n' >bin/python3
	PATH=$PWD/bin:$PATH PYTHONPATH=/mine run_command sh site-9/startup/sub_start.sh --verify --once
	assert_status 0
	grep -qx "/mine: -m nvflare.tool.verify_startup_kits -f $PWD/site-9 -c $PWD/site-9/startup/rootCA.pem" record
	grep -q '^/local/custom:/mine: -u -m nvflare.private' record
	[ -d site-9/transfer ]
	PATH=$PWD/bin:$PATH NVFL_WORKSPACE=$PWD/w run_command sh site-9/startup/sub_start.sh --verify --once
	grep -q -e "-f $PWD/w/kit -c $PWD/w/kit/startup/rootCA.pem" record
	printf '#!/bin/sh\ncase $* in *verify*) exit 1 ;; esac\necho ran >>"$RECORD"\n' >bin/python3
	: >record
	PATH=$PWD/bin:$PATH run_command sh site-9/startup/sub_start.sh --verify
	assert_status 1
	assert_stderr "verification of $PWD/site-9 failed"
	[ ! -s record ]
	[ ! -e site-9/daemon_pid.fl ]
}

@test "the start script may be outside of the kit, and a container's volume is one only as the kit" {
	make_kit
	mkdir user_config vault
	mv site-9/startup/sub_start.sh run.sh
	cp -a site-9 user_config/
	printf '#!/bin/sh\necho "$*"\n' >bin/python3
	sed -i "s#/user_config#$PWD/user_config#; s#/vault#$PWD/vault#" run.sh
	PATH=$PWD/bin:$PATH run_command sh run.sh --once --kit site-9
	assert_output "client_train -m $PWD/site-9 .*uid=site-9"
	PATH=$PWD/bin:$PATH run_command sh run.sh --once --kit user_config/site-9
	assert_output "client_train -m $PWD/vault/workspace/site-9 .*uid=site-9"
	[ "$(readlink vault/workspace/site-9/startup)" = "$PWD/vault/workspace/site-9/kit/startup" ]
	# Once more with a changed kit: nothing of the old one stays.
	touch vault/workspace/site-9/kit/startup/old
	PATH=$PWD/bin:$PATH run_command sh run.sh --once --kit user_config/site-9
	assert_status 0
	[ ! -e vault/workspace/site-9/startup/old ]
	PATH=$PWD/bin:$PATH run_command sh run.sh --once --kit user_config
	assert_output "client_train -m $PWD/vault/workspace "
	mkdir -p w/local
	PATH=$PWD/bin:$PATH NVFL_WORKSPACE=$PWD/w run_command sh run.sh --once --kit site-9
	assert_status 1
	assert_stderr "$PWD/w/local is in the way"
	PATH=$PWD/bin:$PATH NVFL_WORKSPACE=/ run_command sh run.sh --once --kit site-9
	assert_status 1
	PATH=$PWD/bin:$PATH run_command sh run.sh --once --kit
	assert_status 2
}

@test "the start script runs once, and in another workspace" {
	make_kit
	printf '#!/bin/sh\necho "$*"\n' >bin/python3
	PATH=$PWD/bin:$PATH run_command sh site-9/startup/sub_start.sh --once
	assert_output "client_train -m $PWD/site-9 "
	PATH=$PWD/bin:$PATH NVFL_WORKSPACE=$PWD/elsewhere run_command sh site-9/startup/sub_start.sh --once
	assert_output "client_train -m $PWD/elsewhere "
	[ -e elsewhere/startup/sub_start.sh ]
	PATH=$PWD/bin:$PATH run_command sh site-9/startup/sub_start.sh --wrong
	assert_status 2
}

@test "batch scripts run the command with the settings" {
	local kind
	for kind in slurm pbs; do
		emit --role client --emit $kind -- sh -c 'echo "$MALLOC_ARENA_MAX|$1"' x "it's" >job.sh
		run_command bash job.sh
		assert_status 0
		[ "$output" = "2|it's" ]
	done
}

@test "batch scripts of flmem aggregate, in one process or several" {
	local kind launcher
	mkdir -p bin
	for launcher in srun mpirun; do
		printf '#!/bin/sh\necho %s "$@"\n' "$launcher" >bin/"$launcher"
	done
	printf '#!/bin/sh\necho alone "$@"\n' >bin/flmem
	chmod +x bin/*
	for kind in slurm pbs; do
		emit --role server --emit $kind --command aggregate --tasks 4 -- -o "a b" x >job.sh
		shellcheck job.sh
		run_command env "PATH=$PWD/bin:$PATH" bash job.sh
		assert_status 0
		case $kind in
		slurm) [ "$output" = "srun --mpi=pmix flmem aggregate --mpi -o a b x" ] ;;
		pbs) [ "$output" = "mpirun -n 4 flmem aggregate --mpi -o a b x" ] ;;
		esac
		grep -q "^#SBATCH --ntasks=4$\|^#PBS -l select=4:mpiprocs=1$" job.sh
		emit --role server --emit $kind --command aggregate -- -o out x >job.sh
		run_command env "PATH=$PWD/bin:$PATH" bash job.sh
		[ "$output" = "alone aggregate -o out x" ]
		grep -q "^#SBATCH --ntasks=1$\|^#PBS -l select=1$" job.sh
	done
	flmem start --role server --emit systemd --tasks 2 -- true
	assert_error 2 '--tasks needs --emit=slurm or pbs'
	flmem start --role server --emit slurm --tasks 100001 -- true
	assert_error 2 '--tasks accepts at most 100000'
	flmem start --role server --tasks 2 -- true
	assert_error 2 'need --emit'
	flmem start --role server --emit slurm --command aggregate --tasks 2
	assert_error 2 "name the arguments of 'flmem aggregate' after --"
}

@test "batch scripts find a relative workspace from where they were submitted" {
	local kind
	mkdir -p submitted/-w elsewhere
	for kind in slurm pbs; do
		(cd submitted && emit --role client --emit $kind --workspace -w -- ./there '$x') >job.sh
		printf '#!/bin/sh\necho "$PWD|$1"\n' >submitted/-w/there
		chmod +x submitted/-w/there
		run_command env -C elsewhere SLURM_SUBMIT_DIR="$PWD/submitted" PBS_O_WORKDIR="$PWD/submitted" bash "$PWD/job.sh"
		assert_status 0
		[ "$output" = "$PWD/submitted/-w|\$x" ]
		emit --role client --emit $kind --workspace "$PWD/submitted/-w" -- ./there >job.sh
		run_command env -C elsewhere bash "$PWD/job.sh"
		[ "$output" = "$PWD/submitted/-w|" ]
		# The standard command names the workspace that the script has changed to.
		emit --role client --emit $kind --workspace rel >job.sh
		grep -q 'client_train -m \. ' job.sh
	done
}

@test "a compose service and a pod are valid and hold command and settings" {
	emit --role server --emit docker --image 'a/b:1' -- python3 '$x "y"' >compose.yaml
	assert_yaml compose.yaml 'assert d["services"]["fl-server"]["environment"] == {"MALLOC_ARENA_MAX": "4"}
assert d["services"]["fl-server"]["command"] == ["python3", "$$x \"y\""]
assert d["services"]["fl-server"]["image"] == "a/b:1"'
	emit --role client --emit k8s --jemalloc --jemalloc-library /in/the/image.so >pod.yaml
	assert_yaml pod.yaml 'c = d["spec"]["containers"][0]
env = {e["name"]: e["value"] for e in c["env"]}
assert env["LD_PRELOAD"] == "/in/the/image.so" and "MALLOC_ARENA_MAX" not in env
assert "nvflare.private.fed.app.client.client_train" in c["command"]'
	command -v yamllint >/dev/null || return 0
	yamllint -d '{extends: default, rules: {line-length: disable, document-start: disable}}' compose.yaml pod.yaml
}

@test "systemd accepts the unit" {
	requires systemd-analyze
	emit --role server --emit systemd --workspace /tmp -- /bin/sh -c 'echo "$HOME" 100%' >fl-server.service
	grep -qx 'Environment="MALLOC_ARENA_MAX=4"' fl-server.service
	grep -qxF 'ExecStart=/bin/sh -c "echo \"$$HOME\" 100%%"' fl-server.service
	run_command systemd-analyze verify --man=no "$PWD/fl-server.service"
	assert_status 0
	[[ $stderr != *fl-server* ]]
}

# verify_unit DIRECTORY OPTIONS...: emits there, and checks that systemd has no complaints.
verify_unit() {
	(cd "$1" && shift && emit --role server --emit systemd "$@") >fl-server.service
	run_command systemd-analyze verify --man=no "$PWD/fl-server.service"
	assert_status 0
	[[ $stderr != *fl-server* ]] || fail "systemd says: $stderr"
}

@test "systemd accepts relative workspaces and commands, and every path that it can hold" {
	requires systemd-analyze
	local odd='a %i$HOME b' program
	mkdir -p "$odd/bin" plain
	for program in "$odd/bin/run" 'plain/run me' 'plain/a$b%i;c'; do
		printf '#!/bin/sh\n' >"$program"
		chmod +x "$program"
	done
	verify_unit . --workspace . -- ./plain/'run me' '$x' ';' '' '%i'
	grep -qxF "WorkingDirectory=$PWD" fl-server.service
	grep -qF "ExecStart=\"$PWD/plain/run me\" \"\$\$x\" \";\" \"\" \"%%i\"" fl-server.service
	verify_unit plain --workspace .. -- "./$odd/bin/run"
	verify_unit . --workspace "$odd" -- bin/run
	grep -qxF "WorkingDirectory=$PWD/a %%i\$HOME b" fl-server.service
	verify_unit . --workspace "$PWD/plain/../plain/." -- './a$b%i;c'
	grep -qxF "WorkingDirectory=$PWD/plain" fl-server.service
	verify_unit . -- /bin/sh -c 'exit 0'
	verify_unit . -- true
	verify_unit . --workspace plain -- "$PWD/plain/run me"
	if command -v python3 >/dev/null; then verify_unit . --workspace /tmp; fi
}

@test "what no unit can hold is refused" {
	local directory program
	for directory in $'a\nExecStart=/bin/false' $'/a\tb'; do
		flmem start --role server --emit systemd --workspace "$directory" -- true
		assert_error 5 'has control characters'
		flmem start --role server --emit docker --workspace "$directory" -- true
		assert_error 5 'has control characters'
	done
	flmem start --role server --emit systemd --workspace /a\\ -- true
	assert_error 5 'ends in a backslash'
	flmem start --role server --emit systemd --workspace none -- true
	assert_error 2 "'none' cannot be resolved: No such file or directory; name an absolute path"
	flmem start --role server --emit systemd --workspace '' -- true
	assert_error 2 'is empty'
	flmem start --role server --emit systemd -- ./run
	assert_error 2 "'./run' is relative; name its directory with --workspace"
	for program in "/a'b" '/a"b' /a\\b; do
		flmem start --role server --emit systemd -- "$program"
		assert_error 5 'which systemd refuses'
	done
	for program in -true @true +x '!x' :x '|x'; do
		flmem start --role server --emit systemd -- "$program"
		assert_error 2 'begins like a flag of systemd'
	done
	flmem start --role server --emit systemd -- /bin/
	assert_error 2 'is a directory'
	for program in . .. ';'; do
		flmem start --role server --emit systemd -- "$program"
		assert_error 2 'is not a program name for systemd'
	done
	for directory in $'/a\xef\xbf\xbe' $'/a\xf0\x9f\xbf\xbe' $'/a\xef\xb7\x90'; do
		flmem start --role server --emit systemd --workspace "$directory" -- true
		assert_error 5 'it is not UTF-8, or has noncharacters'
		flmem start --role server --emit systemd -- "$directory"
		assert_error 5 'it has noncharacters of Unicode'
	done
	flmem start --role server --emit systemd --workspace '/a ' -- true
	assert_error 5 'ends in a space, which systemd removes'
	for program in "$(printf '%0256d' 0)" "/$(printf '%0256d/x' 0)" "$(printf '/%0199d%.0s' {1..42})"; do
		flmem start --role server --emit systemd -- "$program"
		assert_error 5 'is longer than a path may be'
		flmem start --role server --emit systemd --workspace "/w/$program" -- true
		assert_error 5 'is longer than a path may be'
	done
	for directory in . rel/x; do
		for kind in docker k8s; do
			flmem start --role server --emit $kind --workspace "$directory" -- true
			assert_error 2 'is relative; name the absolute path inside the container'
		done
	done
}

@test "what no batch script can hold is refused" {
	local kind library
	for kind in slurm pbs; do
		flmem start --role client --emit $kind -- sh $'a\r\nb'
		assert_error 5 'it has a carriage return before a line break'
		flmem start --role client --emit $kind -- sh $'a\n\rb'
		assert_status 0
	done
	# An LD_PRELOAD set by a script would have two entries.
	for kind in snippet sub_start slurm pbs systemd; do
		for library in '/a b.so' /a:b.so; do
			flmem start --role client --emit $kind --jemalloc --jemalloc-library "$library"
			assert_error 2 'cannot be used in LD_PRELOAD'
		done
		flmem start --role client --emit $kind --jemalloc --jemalloc-library a.so
		assert_error 2 'is not an absolute path to a library'
	done
}

@test "a file is written whole, and never replaced without --force" {
	flmem start --role client --emit sub_start --output script.sh
	assert_status 0
	[ -z "$output" ]
	[ -x script.sh ]
	echo mine >script.sh
	flmem start --role client --emit sub_start --output script.sh
	assert_error 2 "'script.sh' exists; use --force"
	[ "$(cat script.sh)" = mine ]
	flmem start --role client --emit sub_start --output script.sh --force
	assert_status 0
	head -1 script.sh | grep -qx '#!/bin/sh'
	[ "$(find . -name 'script.sh*')" = ./script.sh ]
	flmem start --role client --emit snippet --output none/file
	assert_error 2 "cannot write 'none/file'"
	mkfifo pipe
	flmem start --role client --emit sub_start --output pipe --force
	assert_error 2 "'pipe' is not a regular file"
	[ -p pipe ]
}

@test "bad input is refused" {
	flmem start --role client --emit sub-start
	assert_error 2 "choose from snippet, sub_start, systemd, slurm, pbs, docker, k8s"
	flmem start --emit snippet
	assert_error 2 '--role is required'
	flmem start --role trainer --emit systemd
	assert_error 2 'a trainer of nvflare has no standard command'
	flmem start --role server --framework flower --emit k8s
	assert_error 2 'a server of flower has no standard command'
	flmem start --role client --emit systemd -- $'a\x01'
	assert_error 5 'control characters'
	flmem start --role client --output x -- true
	assert_error 2 'need --emit'
	flmem start --role client --emit snippet --supervise --workspace .
	assert_error 2 '--emit cannot be combined with --supervise'
}

@test "names that no command could hold, and options that a kind leaves out, are refused" {
	flmem start --role client --emit systemd --site ''
	assert_error 2 '--site needs a name'
	flmem start --role client --emit docker --image ''
	assert_error 2 '--image needs a name'
	flmem start --role client --emit slurm --site "$(printf '%0300d' 0)"
	assert_error 2 '--site accepts at most 255 bytes'
	flmem start --role client --emit systemd --image a/b:1
	assert_error 2 '--image needs --emit=docker or k8s'
	flmem start --role client --emit k8s --site a -- python3 x.py
	assert_error 2 'names into the command'
	flmem start --role client --emit snippet -- python3 x.py
	assert_error 2 'snippet has no command'
	flmem start --role client --emit snippet --workspace /w
	assert_error 2 'snippet has no command'
	local kind image
	for kind in sub_start systemd slurm pbs docker k8s; do
		flmem start --role client --emit $kind -- ''
		assert_error 2 'the command after -- is empty'
	done
	for kind in docker k8s; do
		for image in UPPER/Case:1 Nginx $'a\nb' 'a b' a//b /a a/ a: a:-x a@sha256:12 -a a:b:c '$IMG' a/.b; do
			flmem start --role client --emit $kind --image "$image" -- x
			assert_error 2 "invalid image '"
		done
	done
	for image in a registry.example.org:5000/fl/nvflare:2.9.0-cu12 localhost/a_b/c--d.e HOST/x:V_1 \
		"a@sha256:$(printf '%064d' 0)"; do
		flmem start --role client --emit docker --image "$image" -- x
		assert_status 0
		assert_output "image: \"?$image"
	done
}
