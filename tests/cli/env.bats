#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem env`: the values of every role, what the user has set, and every format read back by the
# program that it is for.

load helpers

setup() {
	unset MALLOC_ARENA_MAX MALLOC_CONF LD_PRELOAD GLIBC_TUNABLES
	unset NVFLARE_CLIENT_MEMORY_GC_ROUNDS NVFLARE_CUDA_EMPTY_CACHE
	# The sanitizers of a dev build must be loaded first, also where a test preloads something.
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
}

# Finds a preload that does nothing: a second libm.
JEMALLOC=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2

harmless_library() {
	ldd /bin/bash | awk '$1 == "libc.so.6" { print $3 }' | xargs dirname | xargs -I{} echo {}/libm.so.6
}

# Values that break careless quoting, one per element; set as MALLOC_CONF, which any text may be.
# shellcheck disable=SC1003,SC2016 # nothing in here is to be expanded
HOSTILE=(
	"it's"
	"''"
	"'"
	'"double" and \back\slash\'
	'$HOME ${HOME} $(id) `id`'
	'a!b !! !$ \!'
	' leading and trailing '
	'#not a comment'
	'percent %s %% %i %n'
	'a;b&c|d<e>f(g)h{i}j[k]*?~^=,'
	'-n'
	'grün 日本 🧠'
	$'tab\there'
	$'two\nlines'
	$'ends in a newline\n'
	$'carriage\rreturn'
	'\n \t \x41 \u0041'
	'}'
	'$$(HOME) $(HOME)'
	"all of '\"\\\$\`! at once"
)

# Writes the file `text`, in the folder $3, with the output of `flmem env --format $1` when
# MALLOC_CONF is the hostile value $2.
hostile_text() {
	local folder=${3:-$BATS_TEST_TMPDIR}
	MALLOC_CONF=$2 "$FLMEM" env --role client --allocator jemalloc --format "$1" \
		>"$folder/text" 2>"$folder/error"
}

# assert_reads_back FORMAT [REFUSABLE] -- COMMAND...: runs COMMAND for every hostile value and
# compares what it prints with the value; values that FORMAT must refuse match REFUSABLE.
assert_reads_back() {
	local format=$1 refusable=${2:-} number folder value
	shift 2
	for number in "${!HOSTILE[@]}"; do
		value=${HOSTILE[number]}
		folder=$BATS_TEST_TMPDIR/$format.$number # made once for all readers of the format
		if [ ! -e "$folder" ]; then
			mkdir "$folder"
			if hostile_text "$format" "$value" "$folder"; then
				[ -s "$folder/text" ]
			else
				[[ -n $refusable && $value =~ $refusable ]] ||
					fail "refused without need: $value: $(cat "$folder/error")"
				grep -q "MALLOC_CONF cannot be written as $format" "$folder/error"
				[ ! -s "$folder/text" ]
			fi
			printf '%s' "$value" >"$folder/expected"
		fi
		[ -s "$folder/text" ] || continue # refused
		(cd "$folder" && env -u MALLOC_CONF "$@") >"$folder/read" ||
			fail "could not be read: $(cat "$folder/text")"
		cmp "$folder/expected" "$folder/read" || fail "$format: $(cat "$folder/text")"
	done
}

# Prints MALLOC_CONF as a program started from the shell sees it, byte for byte.
# shellcheck disable=SC2016
SHOW="sh -c 'printf %s \"\$MALLOC_CONF\"'"
# Runs a fork of one interpreter, as the function of helpers.bash does.
READER=$FLMEM_VICTIMS/../harness/python

@test "every role has its arenas" {
	flmem env --role server
	assert_status 0
	[ "$output" = 'export MALLOC_ARENA_MAX=4' ]
	flmem env --role server --parallelism high
	[ "$output" = 'export MALLOC_ARENA_MAX=8' ]
	flmem env --role client --framework flower
	[ "$output" = 'export MALLOC_ARENA_MAX=2' ]
	flmem env --role trainer --framework appfl
	[ "$output" = 'export MALLOC_ARENA_MAX=2' ]
}

# write_job CLASS ARGS: writes a job whose clients have this executor.
write_job() {
	mkdir -p "$BATS_TEST_TMPDIR/job/app/config"
	echo '{"deploy_map": {"app": ["site-1"]}}' >"$BATS_TEST_TMPDIR/job/meta.json"
	echo "{\"executors\": [{\"tasks\": [\"train\"], \"executor\": {\"path\":
		\"nvflare.app_common.executors.$1\", \"args\": {$2}}}]}" \
		>"$BATS_TEST_TMPDIR/job/app/config/config_fed_client.json"
	JOB=$BATS_TEST_TMPDIR/job
}

EXTERNAL=client_api_launcher_executor.ClientAPILauncherExecutor

@test "the CUDA settings that were left out are named with the reason" {
	flmem env --role client --no-gpu --explain
	assert_status 0
	assert_output '# NVFLARE_CUDA_EMPTY_CACHE is left out: --no-gpu: this client uses no GPU'
	assert_output '# cuda_empty_cache is left out: --no-gpu'
	flmem env --role client --no-gpu --json
	assert_output '"cuda_empty_cache"'
	flmem env --role server --no-gpu --explain
	refute_output cuda
	flmem env --role client --gpu --explain
	refute_output 'cuda_empty_cache is left out'
}

@test "any number of an NVIDIA device counts as a GPU" {
	requires root unshare
	local node
	for node in nvidia3 dxg kfd nvidiactl; do
		# shellcheck disable=SC2016
		run_command unshare --mount bash -c '
			mount -t tmpfs flmem /dev 2>/dev/null || exit 77
			mknod -m 666 /dev/null c 1 3
			: >"/dev/$2"
			"$1" env --role client --explain' _ "$FLMEM" "$node"
		[ "$status" -ne 77 ] || skip "cannot mount a file system"
		assert_status 0
		if [ "$node" = nvidiactl ]; then
			assert_output 'cuda_empty_cache is left out: no GPU is visible here .*--gpu'
		else
			assert_output 'set it in the job: cuda_empty_cache=true'
		fi
	done
}

@test "what overrides a job is left out unless that job leaves it open" {
	flmem env --role client --gpu --explain
	refute_output 'export NVFLARE'
	assert_output 'NVFLARE_CLIENT_MEMORY_GC_ROUNDS is left out: external trainers take it instead of the job.*--job'
	assert_output 'NVFLARE_CUDA_EMPTY_CACHE is left out'
	write_job $EXTERNAL '"memory_gc_rounds": 5'
	flmem env --role client --gpu --job "$JOB" --explain
	refute_output 'export NVFLARE'
	assert_output 'GC_ROUNDS is left out: the job sets its own interval'
	write_job $EXTERNAL '"memory_gc_rounds": "{rounds}"'
	flmem env --role client --gpu --job "$JOB"
	refute_output 'export NVFLARE'
	write_job client_api_executor.ClientAPIExecutor ''
	flmem env --role client --gpu --job "$JOB" --explain
	assert_output 'left out: the job has no external trainer'
	NVFLARE_CLIENT_MEMORY_GC_ROUNDS=3 flmem env --role client
	assert_output 'GC_ROUNDS=3'
	assert_stderr "GC_ROUNDS is kept: external trainers take it instead of the job's own value"
	for kind in snippet sub_start systemd k8s; do
		flmem start --role client --gpu --emit $kind
		assert_status 0
		refute_output 'NVFLARE_(CLIENT_MEMORY|CUDA)'
	done
}

@test "code of a job behind a link does not hide its settings" {
	write_job client_api_launcher_executor.ClientAPILauncherExecutor '"memory_gc_rounds": 5'
	mkdir "$BATS_TEST_TMPDIR/code"
	ln -s ../../code "$JOB/app/custom"
	flmem env --role client --gpu --framework-version 2.8.1 --job "$JOB" --explain
	assert_status 0
	assert_output 'GC_ROUNDS is left out: the job sets its own interval'
	flmem env --role client --job "$JOB/app"
	assert_error 2 "part of the job '$JOB'"
}

@test "a job that cannot be read is an error" {
	mkdir "$BATS_TEST_TMPDIR/empty"
	flmem env --role client --job "$BATS_TEST_TMPDIR/empty"
	assert_error 2 'cannot read the job: .*/empty: nothing to check'
	flmem env --role client --job "$BATS_TEST_TMPDIR/none"
	assert_error 2 "cannot read the job: .*/none"
	write_job $EXTERNAL '"memory_gc_rounds": '
	flmem start --role client --job "$JOB" -- true
	assert_error 2 "cannot read the job: .*config_fed_client.json: "
}

@test "a client's cleanup interval and its CUDA cache, up to NVFlare 2.8" {
	write_job $EXTERNAL ''
	for version in 2.7.2 2.8 2.8.1 2.8.0rc3; do
		flmem env --role client --gpu --framework nvflare --framework-version "$version" --job "$JOB"
		assert_output 'NVFLARE_CLIENT_MEMORY_GC_ROUNDS=1'
		assert_output 'NVFLARE_CUDA_EMPTY_CACHE=true'
	done
	for version in 2.7.1 2.9 2.9.0 2.10 3.0; do
		flmem env --role client --gpu --framework-version "$version" --job "$JOB"
		[ "$output" = 'export MALLOC_ARENA_MAX=2' ]
	done
	flmem env --role trainer --no-gpu --job "$JOB"
	assert_output 'GC_ROUNDS=1'
	refute_output 'CUDA'
}

@test "jemalloc is preloaded instead, without arenas" {
	requires "$JEMALLOC"
	flmem env --role server --allocator jemalloc --jemalloc-library "$JEMALLOC"
	assert_output "export LD_PRELOAD=$JEMALLOC"
	assert_output 'export MALLOC_CONF=dirty_decay_ms:5000,muzzy_decay_ms:5000'
	refute_output 'ARENA'
}

@test "auto is jemalloc where it is installed" {
	requires /usr/lib/x86_64-linux-gnu/libjemalloc.so.2
	flmem env --role server --allocator auto
	assert_output 'LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2'
}

@test "what the user has set stands unless forced" {
	export MALLOC_ARENA_MAX=3
	flmem env --role server
	[ "$output" = 'export MALLOC_ARENA_MAX=3' ]
	flmem env --role server --force
	[ "$output" = 'export MALLOC_ARENA_MAX=4' ]
	export MALLOC_ARENA_MAX=
	flmem env --role server
	[ "$output" = 'export MALLOC_ARENA_MAX=4' ]
}

@test "a value that its reader ignores is replaced, and that is reported" {
	local value
	for value in 0 abc -1 4x; do
		MALLOC_ARENA_MAX=$value flmem env --role server
		assert_status 0
		assert_output 'export MALLOC_ARENA_MAX=4'
		[ "$stderr" = "flmem env: your value of MALLOC_ARENA_MAX is replaced: not a whole number above 0, so glibc from 2.39 on sets no limit with it" ]
	done
	MALLOC_ARENA_MAX=0x2 flmem env --role server
	[ "$output" = 'export MALLOC_ARENA_MAX=0x2' ]
	[ -z "$stderr" ]
	GLIBC_TUNABLES=glibc.malloc.arena_max=0 flmem env --role server
	[ "$output" = 'export MALLOC_ARENA_MAX=4' ]
	for value in -1 99999999999999999999; do
		GLIBC_TUNABLES=glibc.malloc.arena_max=$value flmem env --role server
		[ "$output" = "export GLIBC_TUNABLES='glibc.malloc.arena_max=4'" ]
		assert_stderr 'your value of GLIBC_TUNABLES is replaced: glibc.malloc.arena_max'
	done
	MALLOC_ARENA_MAX=3 GLIBC_TUNABLES=glibc.malloc.arena_max=-1 flmem env --role server
	[ "$output" = "export GLIBC_TUNABLES='glibc.malloc.arena_max=3'" ]
}

@test "a value that NVFlare fails on is kept, and that is reported" {
	NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two flmem env --role client --framework-version 2.8
	assert_status 0
	assert_output 'GC_ROUNDS=two'
	assert_stderr 'your value of NVFLARE_CLIENT_MEMORY_GC_ROUNDS is kept: not a whole number, so flare\.init\(\)'
	NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two flmem env --role client --framework-version 2.9
	[ -z "$stderr" ]
	NVFLARE_CLIENT_MEMORY_GC_ROUNDS=' 2 ' flmem env --role client
	assert_output "GC_ROUNDS=' 2 '"
	[[ ! $stderr =~ number ]]
}

@test "a tunable of the user's wins over the variable" {
	export GLIBC_TUNABLES=glibc.malloc.arena_max=1
	flmem env --role server --explain
	refute_output 'export'
	assert_output 'MALLOC_ARENA_MAX is left out: .*GLIBC_TUNABLES'
	flmem env --role server --force
	[ "$output" = "export GLIBC_TUNABLES='glibc.malloc.arena_max=4'" ]
}

# bats test_tags=unsanitised
@test "the user's own preloads stay in front and are never doubled" {
	requires "$JEMALLOC"
	local mine
	mine=$(harmless_library)
	export LD_PRELOAD=$mine
	flmem env --role client --allocator jemalloc --jemalloc-library "$JEMALLOC"
	assert_output "export LD_PRELOAD=$mine:$JEMALLOC"
	flmem env --role client --allocator jemalloc --jemalloc-library "$JEMALLOC" --force
	assert_output "export LD_PRELOAD=$mine:$JEMALLOC"
	! sanitized || skip "jemalloc cannot be preloaded into AddressSanitizer"
	export LD_PRELOAD=$JEMALLOC
	flmem env --role client --allocator jemalloc --jemalloc-library "$JEMALLOC"
	assert_output "export LD_PRELOAD=$JEMALLOC"
	refute_output "$JEMALLOC:"
}

@test "a named library is tried, as start tries it" {
	flmem env --role client --allocator jemalloc --jemalloc-library "$(harmless_library)"
	assert_error 5 "defines no malloc"
	# The name may lead to another file on another machine.
	flmem env --role client --allocator jemalloc --jemalloc-library "$(harmless_library)" --format docker
	assert_status 0
}

@test "reasons and sources are comments, and sh ignores them" {
	local shell tried=0
	flmem env --role client --gpu --explain
	assert_output '# a client has little memory.*Memory Management'
	assert_output 'set it in the job: client_memory_gc_rounds=1'
	MALLOC_ARENA_MAX=x flmem env --role client --explain
	assert_output 'a client has little memory.*; your value is replaced: not a whole number above 0, so glibc'
	for shell in dash bash zsh ksh 'busybox sh'; do
		if ! command -v "${shell%% *}" >/dev/null; then
			skip_part "$BATS_TEST_DESCRIPTION: needs $shell"
			continue
		fi
		tried=$((tried + 1))
		# shellcheck disable=SC2086,SC2016
		run_command $shell -c 'eval "$("$FLMEM" env --role client --explain)" && echo "$MALLOC_ARENA_MAX"'
		assert_status 0
		[ "$output" = 2 ]
	done
	[ "$tried" -gt 0 ]
}

@test "dash, bash, zsh, ksh and busybox sh get every value byte for byte" {
	local shell tried=0
	# shellcheck disable=SC2016
	for shell in dash bash 'bash --posix' zsh 'zsh -o rcquotes' ksh 'busybox sh'; do
		if ! command -v "${shell%% *}" >/dev/null; then
			skip_part "$BATS_TEST_DESCRIPTION: needs $shell"
			continue
		fi
		tried=$((tried + 1))
		# shellcheck disable=SC2086
		assert_reads_back sh '' $shell -c 'eval "$(cat text)"; unset LD_PRELOAD; '"$SHOW"
	done
	[ "$tried" -gt 0 ]
}

@test "fish gets every value byte for byte" {
	requires fish
	assert_reads_back fish '' fish -c "cat text | source; set -e LD_PRELOAD; $SHOW"
}

@test "csh and tcsh get every value byte for byte, or are refused line breaks" {
	requires tcsh
	local breaks=$'[\n\r]'
	# shellcheck disable=SC2016
	assert_reads_back csh "$breaks" tcsh -f -c 'eval "`cat text`"; unsetenv LD_PRELOAD; '"$SHOW"
	# shellcheck disable=SC2016
	assert_reads_back csh "$breaks" csh -f -c 'eval "`cat text`"; unsetenv LD_PRELOAD; '"$SHOW"
}

@test "an interactive csh does not replace history references" {
	requires tcsh
	hostile_text csh 'a!b !! !$'
	# shellcheck disable=SC2016
	run_command env -C "$BATS_TEST_TMPDIR" tcsh -f -i <<-'END'
		echo before
		eval "`cat text`"
		unsetenv LD_PRELOAD
		printenv MALLOC_CONF
	END
	assert_output 'a!b !! !\$'
	run_command env -C "$BATS_TEST_TMPDIR" tcsh -f -i <<-'END'
		echo before
		source text
		unsetenv LD_PRELOAD
		printenv MALLOC_CONF
	END
	assert_output 'a!b !! !\$'
}

@test "reasons do not break csh" {
	requires tcsh
	# shellcheck disable=SC2016
	run_command tcsh -f -c 'eval "`$FLMEM env --role client --format csh --explain`"; printenv MALLOC_ARENA_MAX'
	assert_status 0
	[ "$output" = 2 ]
}

@test "python-dotenv gets every value, or is refused what dialects read differently" {
	python -c 'import dotenv' 2>/dev/null || skip "needs python3-dotenv"
	local refusable=$'[\r]|[$][{]|[$`].*[\'\\\\]|[\'\\\\].*[$`]'
	assert_reads_back dotenv "$refusable" "$READER" -c '
import dotenv, sys
sys.stdout.write(dotenv.dotenv_values("text")["MALLOC_CONF"])' 
}

@test "docker's file holds every value as it stands, or refuses line breaks" {
	assert_reads_back docker $'[\n\r]' "$READER" -c '
import sys
for line in open("text", "rb").read().split(b"\n"):
    name, _, value = line.partition(b"=")
    if name == b"MALLOC_CONF":
        sys.stdout.buffer.write(value)'
}

@test "kubernetes gets every value" {
	python -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"
	# Kubernetes replaces $(NAME) and turns $$ into $.
	assert_reads_back k8s '' "$READER" -c '
import re, sys, yaml
env = {e["name"]: e["value"] for e in yaml.safe_load(open("text", encoding="utf-8"))["env"]}
def expand(m):
    return "$" if m.group() == "$$" else "EXPANDED"
value = re.sub(r"\$\$|\$\([^)]*\)", expand, env["MALLOC_CONF"])
sys.stdout.buffer.write(value.encode())'
	if command -v yamllint >/dev/null; then
		"$FLMEM" env --role client --format k8s --explain >"$BATS_TEST_TMPDIR/text"
		yamllint -d '{extends: default, rules: {line-length: disable, document-start: disable}}' \
			"$BATS_TEST_TMPDIR/text"
	else
		skip_part "$BATS_TEST_DESCRIPTION: needs yamllint"
	fi
}

@test "NVFlare's launchers get every value" {
	python -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"
	assert_reads_back nvflare-docker '' "$READER" -c '
import sys, yaml
env = yaml.safe_load(open("text", encoding="utf-8"))["default_job_env"]
sys.stdout.buffer.write(env["MALLOC_CONF"].encode())'
	# shellcheck disable=SC2016
	assert_reads_back nvflare-slurm $'[[:cntrl:]\u0085\u2028\u2029\ufeff]' "$READER" -c '
import subprocess, sys, yaml
args = yaml.safe_load(open("text", encoding="utf-8"))
assert "MALLOC_CONF" in args["forward_env"]
show = "unset LD_PRELOAD; printf %s \"$MALLOC_CONF\""
sys.stdout.buffer.write(subprocess.check_output(["bash", "-c", args["setup"] + show]))'
	flmem env --role client --format nvflare-slurm --explain
	assert_status 0
	[ "$(grep -vc '^  # ' <<<"$output")" = 4 ]
}

# systemd's own reader needs a running systemd, so its documented rules (systemd.syntax(7), quoting;
# systemd.unit(5), specifiers) are implemented here once more.
@test "systemd gets every value, or is refused control characters" {
	assert_reads_back systemd $'[\r]' "$READER" -c '
import re, sys
escapes = {"n": "\n", "t": "\t", "\\": "\\", "\"": "\""}
for line in open("text", encoding="utf-8").read().split("\n"):
    if not line.startswith("Environment=\"MALLOC_CONF="):
        continue
    text = line[len("Environment=\""):]
    assert text.endswith("\"")
    text = re.sub("%%", "%", text[:-1])
    text = re.sub(r"\\(.)", lambda m: escapes[m.group(1)], text)
    sys.stdout.buffer.write(text.partition("=")[2].encode())'
}

@test "systemd accepts the lines" {
	requires systemd-analyze
	local unit=$BATS_TEST_TMPDIR/flmem-test.service value count=0
	for value in "${HOSTILE[@]}"; do
		hostile_text systemd "$value" || continue
		{
			printf '[Service]\nType=oneshot\nExecStart=/bin/true\n'
			cat "$BATS_TEST_TMPDIR/text"
		} >"$unit"
		run_command systemd-analyze verify --man=no "$unit"
		assert_status 0
		[[ $stderr != *flmem-test* ]] || fail "systemd complains"
		count=$((count + 1))
	done
	[ "$count" -gt 0 ]
}

@test "a value that is not UTF-8 is refused where the format is text" {
	local bad=$'\xff\xfe' format
	for format in dotenv docker k8s systemd nvflare-docker nvflare-slurm; do
		MALLOC_CONF=$bad flmem env --role client --allocator jemalloc --format "$format"
		assert_error 5 'not UTF-8'
	done
	MALLOC_CONF=$bad flmem env --role client --allocator jemalloc --format sh
	assert_status 0
}

@test "json holds every value exactly" {
	local value
	for value in "${HOSTILE[@]}"; do
		printf '%s' "$value" >"$BATS_TEST_TMPDIR/expected"
		hostile_text json "$value"
		python -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["schema"] == "flmem.env/1"
setting, = [s for s in report["settings"] if s["name"] == "MALLOC_CONF"]
assert setting["origin"] == "user" and setting["value"] == report["environment"]["MALLOC_CONF"]
sys.stdout.buffer.write(setting["value"].encode())' "$BATS_TEST_TMPDIR/text" |
			cmp - "$BATS_TEST_TMPDIR/expected"
	done
}

@test "json gives the settings of the job as well" {
	flmem env --role server --json
	python -c '
import json, sys
report = json.loads(sys.argv[1])
job, = report["job_settings"]
assert (job["name"], job["value"]) == ("server_memory_gc_rounds", "5")
assert report["environment"] == {"MALLOC_ARENA_MAX": "4"}' "$output"
	flmem env --role client --gpu --format json
	python -c '
import json, sys
report = json.loads(sys.argv[1])
job = {s["name"]: s["value"] for s in report["job_settings"]}
assert job == {"client_memory_gc_rounds": "1", "cuda_empty_cache": "true"}, job' "$output"
}

@test "json is as its schema says" {
	flmem env --role server --json
	assert_schema env
	MALLOC_ARENA_MAX=x flmem env --role client --gpu --framework-version 2.9 --json
	assert_schema env
	flmem env --role trainer --json --allocator jemalloc --jemalloc-library /nowhere.so
	assert_status 5
	assert_schema env
}

@test "bad input is refused with what is allowed" {
	flmem env
	assert_error 2 '--role is required; choose from server, client, trainer'
	flmem env --role clint
	assert_error 2 "invalid value 'clint' for --role; choose from server, client, trainer"
	flmem env --role client --format tcl
	assert_error 2 "invalid value 'tcl' for --format; choose from sh, fish, csh, dotenv, systemd, docker, k8s, nvflare-docker, nvflare-slurm, json"
	flmem env --role client --allocator tcmalloc
	assert_error 2 "choose from glibc, jemalloc, auto"
	flmem env --role client --framework fate
	assert_error 2 "choose from nvflare, appfl, flower"
	flmem env --role client --framework-version new
	assert_error 2 "invalid version 'new'"
	flmem env --role client --parallelism high
	assert_error 2 'high parallelism applies to a server only'
	flmem env --role client --gpu --no-gpu
	assert_error 2 'exclude each other'
	flmem env --role server --gpu
	assert_error 2 '--gpu has no effect for a server; choose from client, trainer'
	flmem start --role server --job . -- true
	assert_error 2 '--job has no effect for a server'
	flmem env --role trainer --framework appfl --gpu
	assert_error 2 '--gpu needs --framework=nvflare'
	flmem env --role client extra
	assert_error 2 "unexpected argument 'extra'"
	flmem env --role client --allocator jemalloc --jemalloc-library relative.so
	assert_error 2 'not an absolute path'
	flmem env --role client --allocator jemalloc --jemalloc-library '/a b.so'
	assert_error 2 'cannot be used in LD_PRELOAD'
	flmem env --role client --allocator jemalloc --jemalloc-library /nowhere.so
	assert_error 5 "cannot read the library '/nowhere.so'"
}

@test "a library for elsewhere needs not be here" {
	flmem env --role client --allocator jemalloc --jemalloc-library /nowhere.so --format docker
	assert_status 0
	assert_output 'LD_PRELOAD=/nowhere.so'
}

@test "a closed stdout is an error" {
	# shellcheck disable=SC2016
	run_command bash -c '"$FLMEM" env --role client >&-'
	assert_error 7 'cannot write the result'
}

@test "what would override a forced value, or has another malloc, is replaced or reported" {
	local tunables=glibc.malloc.arena_max=7:glibc.malloc.tcache_count=0:glibc.malloc.arena_max=9
	GLIBC_TUNABLES=$tunables flmem env --role client --no-gpu --force
	assert_status 0
	assert_output "export GLIBC_TUNABLES='glibc.malloc.tcache_count=0:glibc.malloc.arena_max=2'$"
	refute_output 'MALLOC_ARENA_MAX'
	GLIBC_TUNABLES=$tunables flmem start --role client --no-gpu --force -- printenv GLIBC_TUNABLES
	assert_output '^glibc.malloc.tcache_count=0:glibc.malloc.arena_max=2$'
	LD_PRELOAD=/nonexistent/libtcmalloc_minimal.so.4 flmem env --role client --no-gpu --explain
	assert_status 0
	assert_output 'export MALLOC_ARENA_MAX=2'
	assert_output '# LD_PRELOAD is left out: your value stays as it is; but it holds another'
	refute_output 'export LD_PRELOAD'
	assert_stderr 'your value of LD_PRELOAD is kept: it holds another allocator, which serves'
	flmem env --role client --framework appfl --job "$FLMEM_TESTS/fixtures/jobs/fedavg-tuned"
	assert_error 2 '--job needs --framework=nvflare'
}
