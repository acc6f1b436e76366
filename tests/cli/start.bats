#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem start`: the command gets its environment and is otherwise untouched; jemalloc is preloaded
# only where a probe has shown that it serves malloc.

# shellcheck disable=SC2016 # what stands in single quotes is for another shell
load helpers

PYTHON=/usr/bin/python3
JEMALLOC=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2

setup() {
	unset MALLOC_ARENA_MAX MALLOC_CONF LD_PRELOAD GLIBC_TUNABLES
	# The sanitizers of a dev build must be loaded first, also where a test preloads something.
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	stop_victims
	[ -z "${OPEN_DIRECTORY:-}" ] || rm -rf "$OPEN_DIRECTORY"
}

# Runs flmem with the expected status 127, which bats requires to be declared.
flmem_not_found() {
	run -127 --separate-stderr "$FLMEM" "$@"
	show_run "flmem $*"
}

# Prints whether the running program has jemalloc mapped, and what its children would inherit.
WHOAMI='import os
maps = open("/proc/self/maps").read()
print("jemalloc" in maps, os.environ.get("LD_PRELOAD"))'

# compile NAME [CC...]: builds an empty program.
compile() {
	local name=$1
	shift
	echo 'int main(void) { return 0; }' >"$name.c"
	"${@:-cc}" -o "$name" "$name.c"
}

@test "the command gets the environment of its role" {
	flmem start --role client -- sh -c 'echo $MALLOC_ARENA_MAX'
	assert_status 0
	[ "$output" = 2 ]
	flmem start --role server --parallelism high sh -c 'echo $MALLOC_ARENA_MAX'
	[ "$output" = 8 ]
	MALLOC_ARENA_MAX=7 flmem start --role server -- sh -c 'echo $MALLOC_ARENA_MAX'
	[ "$output" = 7 ]
	MALLOC_ARENA_MAX=7 flmem start --role server --force -- sh -c 'echo $MALLOC_ARENA_MAX'
	[ "$output" = 4 ]
	MALLOC_ARENA_MAX=abc flmem start --role server -- sh -c 'echo $MALLOC_ARENA_MAX'
	[ "$output" = 4 ]
	assert_stderr '^flmem start: your value of MALLOC_ARENA_MAX is replaced: '
}

@test "arguments, other variables and descriptors reach the command unchanged" {
	# shellcheck disable=SC2016
	OTHER=$'a\nb' flmem start --role client -- sh -c 'printf "%s|" "$@" "$OTHER"' x '' '-- --role' "it's" $'\xff'
	[ "$output" = "|-- --role|it's|"$'\xff'"|"$'a\nb|' ]
	run_command bash -c '"$FLMEM" start --role client --jemalloc -- "$0" -c "import os; print(os.read(7, 9), os.listdir(\"/proc/self/fd\"))" 7<<<hello' "$PYTHON"
	assert_output 'hello'
}

@test "--help belongs to the command behind its name" {
	flmem start --role client -- printf '%s ' --help -h
	[ "$output" = '--help -h ' ]
	flmem start --role client printf '%s ' --help -h
	[ "$output" = '--help -h ' ]
	flmem start --role client --help
	assert_output '^usage: flmem start'
}

@test "the process id is flmem's own" {
	# shellcheck disable=SC2016
	for how in '' --jemalloc; do
		# shellcheck disable=SC2086
		"$FLMEM" start --role client $how -- "$PYTHON" -c 'import os; print(os.getpid(), os.getppid())' \
			>out 3>&- &
		local pid=$!
		wait "$pid"
		[ "$(cat out)" = "$pid $BASHPID" ]
	done
}

@test "the exit status is the command's" {
	local status_wanted
	for status_wanted in 0 1 2 5 42 255; do
		flmem start --role client -- sh -c "exit $status_wanted"
		assert_status "$status_wanted"
	done
	flmem start --role client -- sh -c 'kill -TERM $$'
	assert_status 143
}

@test "signals reach the command" {
	cat >sleeper.py <<-'END'
		import signal, sys, time
		def caught(number, frame):
		    print("caught", number, flush=True)
		    sys.exit(9)
		signal.signal(signal.SIGUSR1, caught)
		print("ready", flush=True)
		while True:
		    time.sleep(0.05)  # short: a signal that arrives just before it does not end it
	END
	start_victim "$FLMEM" start --role client --jemalloc -- "$PYTHON" sleeper.py
	kill -USR1 "$VICTIM"
	local ended=0
	wait "$VICTIM" || ended=$?
	[ "$ended" = 9 ]
	grep -q 'caught 10' "$VICTIM_LOG"
}

@test "signal dispositions and masks are what flmem found" {
	cat >dispositions.py <<-'END'
		import re
		status = open("/proc/self/status").read()
		print({k: re.search(k + r":\s+(\w+)", status).group(1) for k in ("SigIgn", "SigBlk")})
	END
	# This Python ignores no further signals: -I -S do not matter, SIGPIPE and SIGXFSZ are its
	# own.
	run_command env --default-signal "$PYTHON" dispositions.py
	local bare=$output
	for how in '' --jemalloc; do
		# shellcheck disable=SC2086
		run_command env --default-signal "$FLMEM" start --role client $how -- "$PYTHON" dispositions.py
		[ "$output" = "$bare" ]
	done
	run_command env --default-signal --ignore-signal=CHLD,USR1 --block-signal=ALRM "$PYTHON" dispositions.py
	local changed=$output
	[ "$changed" != "$bare" ]
	run_command env --default-signal --ignore-signal=CHLD,USR1 --block-signal=ALRM \
		"$FLMEM" start --role client --jemalloc -- "$PYTHON" dispositions.py
	[ "$output" = "$changed" ]
	run_command env --default-signal "$FLMEM" start --role client -- sh -c 'kill -PIPE $$'
	assert_status 141
	run_command env --ignore-signal=PIPE "$FLMEM" start --role client -- sh -c 'kill -PIPE $$; echo lives'
	[ "$output" = lives ]
}

@test "no child is left behind" {
	requires "$JEMALLOC"
	flmem start --role client --jemalloc -- "$PYTHON" -c 'import os
try:
    os.waitpid(-1, os.WNOHANG)
    print("child")
except ChildProcessError:
    print("none")'
	[ "$output" = none ]
}

@test "jemalloc is preloaded, with its decay, and children inherit it" {
	requires "$JEMALLOC"
	flmem start --role client --jemalloc -- "$PYTHON" -c "$WHOAMI"
	assert_status 0
	[ "$output" = "True $JEMALLOC" ]
	flmem start --role client --jemalloc -- "$PYTHON" -c "import os, subprocess
print(os.environ['MALLOC_CONF'], flush=True)
subprocess.run(['$PYTHON', '-c', '''$WHOAMI'''])"
	assert_output 'dirty_decay_ms:5000,muzzy_decay_ms:5000'
	assert_output 'True /usr'
}

# bats test_tags=unsanitised
@test "without inheriting, only the command has it" {
	requires "$JEMALLOC"
	local parent_and_child="$WHOAMI
import subprocess, sys
sys.stdout.flush()
subprocess.run(['$PYTHON', '-c', '''$WHOAMI'''])"
	flmem start --role client --jemalloc --no-inherit-preload -- "$PYTHON" -c "$parent_and_child"
	assert_status 0
	[ "$output" = $'True None\nFalse None' ]
	LD_PRELOAD=libm.so.6 flmem start --role client --jemalloc --no-inherit-preload -- "$PYTHON" -c "$parent_and_child"
	[ "$output" = $'True libm.so.6\nFalse libm.so.6' ]
	sanitized || LD_PRELOAD=$JEMALLOC:libm.so.6 flmem start --role client --jemalloc --no-inherit-preload -- "$PYTHON" -c "$parent_and_child"
	[ "$output" = $'True libm.so.6\nFalse libm.so.6' ]
	flmem start --role client --jemalloc --no-inherit-preload -- nice env A=1 "$PYTHON" -c "$parent_and_child"
	[ "$output" = $'True None\nFalse None' ]
}

# bats test_tags=unsanitised
@test "a preload that the user has already is kept, proven and not doubled" {
	requires "$JEMALLOC"
	! sanitized || skip "flmem is built with AddressSanitizer; unit.test_launch has the same"
	LD_PRELOAD=$JEMALLOC flmem start --role client --jemalloc -- "$PYTHON" -c "$WHOAMI"
	[ "$output" = "True $JEMALLOC" ]
	LD_PRELOAD=libjemalloc.so.2 flmem start --role client --jemalloc -- "$PYTHON" -c "$WHOAMI"
	[ "$output" = "True libjemalloc.so.2" ]
}

@test "the proof speaks of the interpreter of a script" {
	requires "$JEMALLOC"
	printf '#!%s\n%s\n' "$PYTHON" "$WHOAMI" >script.py
	printf '#!/usr/bin/env -S PATH=/usr/bin python3 -u\n%s\n' "$WHOAMI" >env-script.py
	chmod +x script.py env-script.py
	local script
	for script in ./script.py ./env-script.py; do
		flmem start --role client --jemalloc --dry-run --json -- "$script"
		assert_output '"program":	"/usr/bin/python3'
		assert_output '"library":	"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"'
		flmem start --role client --jemalloc --no-inherit-preload -- "$script"
		[ "$output" = 'True None' ]
	done
	[ -z "$stderr" ]
}

@test "a shell script is proven for its shell, says so, and must pass the preload on" {
	requires "$JEMALLOC"
	printf '#!/bin/bash\nexec %s "$@"\n' "$PYTHON" >shim
	chmod +x shim
	flmem start --role client --jemalloc -- ./shim -c "$WHOAMI"
	[ "$output" = "True $JEMALLOC" ]
	assert_stderr 'the command is a script; jemalloc is verified for its shell, /usr/bin/bash'
	flmem start --role client --jemalloc --no-inherit-preload -- ./shim -c "$WHOAMI"
	assert_error 5 "runs in the shell '/usr/bin/bash'.*name the program itself"
}

@test "the probe runs nothing of the command" {
	requires "$JEMALLOC"
	printf '#include <stdio.h>\nint main(void) { fclose(fopen("ran", "a")); return 0; }\n' >toucher.c
	cc -o toucher toucher.c
	flmem start --role client --jemalloc --dry-run -- ./toucher
	assert_status 0
	[ ! -e ran ]
	flmem start --role client --jemalloc --dry-run -- env ./toucher
	assert_status 0
	[ ! -e ran ]
	flmem start --role client --jemalloc -- ./toucher
	[ -e ran ]
}

@test "a static, a musl, a set-user-ID and a 32-bit program are refused with the reason" {
	requires "$JEMALLOC" root
	compile static cc -static
	flmem start --role client --jemalloc -- ./static
	assert_error 5 "into '.*/static': it is statically linked and ignores LD_PRELOAD"
	flmem start --role client --jemalloc -- env ./static
	assert_error 5 "statically linked"
	compile pie cc -static-pie
	flmem start --role client --jemalloc -- ./pie
	assert_error 5 "statically linked"
	if command -v musl-gcc >/dev/null; then
		compile musl musl-gcc
		flmem start --role client --jemalloc -- ./musl
		assert_error 5 "'.*/musl' ended before its program started, with status 127: Error loading shared library"
		assert_error 5 "is built for glibc, but '.*/musl' runs with musl; name a library that is built for musl"
		compile other.so musl-gcc -shared -fPIC
		flmem start --role client --jemalloc --jemalloc-library "$PWD/other.so" -- "$PYTHON" -c pass
		assert_error 5 "other.so is built for musl, but '.*python3.*' runs with glibc"
	fi
	compile setuid
	chown 65534 setuid
	chmod 4755 setuid
	flmem start --role client --jemalloc -- ./setuid
	assert_error 5 'gains privileges when it starts'
	if cc -m32 -nostdlib -static -o narrow -x c - 2>/dev/null <<<'void _start(void) { for (;;); }'; then
		flmem start --role client --jemalloc -- ./narrow
		assert_error 5 '32-bit program'
	fi
}

@test "a program with file capabilities is refused for an ordinary user" {
	requires "$JEMALLOC" root setcap setpriv
	OPEN_DIRECTORY=$(mktemp -d)
	chmod 755 "$OPEN_DIRECTORY"
	cd "$OPEN_DIRECTORY"
	compile capable
	setcap cap_net_raw+ep capable || skip "this file system holds no capabilities"
	setpriv --reuid 65534 --clear-groups "$FLMEM" --version >/dev/null || skip "flmem is out of the user's reach"
	run_command setpriv --reuid 65534 --clear-groups "$FLMEM" start --role client --jemalloc -- "$PWD/capable"
	assert_error 5 'gains privileges'
}

@test "a library that does not load is refused with the loader's words" {
	flmem start --role client --jemalloc --jemalloc-library /etc/passwd -- "$PYTHON" -c pass
	assert_error 5 "/etc/passwd does not load into '/usr/bin/python3.*invalid ELF header"
}

@test "a library that serves malloc and is not jemalloc is refused" {
	local libraries=/usr/lib/x86_64-linux-gnu name file tried=0
	local -A files=([glibc]=$libraries/libc.so.6 [tcmalloc]=$libraries/libtcmalloc_minimal.so.4
		[mimalloc]=$libraries/libmimalloc.so.2)
	for name in "${!files[@]}"; do
		if [ ! -e "${files[$name]}" ]; then
			skip_part "$BATS_TEST_DESCRIPTION: needs ${files[$name]}"
			continue
		fi
		tried=$((tried + 1))
		flmem start --role client --jemalloc --jemalloc-library "${files[$name]}" --dry-run -- "$PYTHON" -c pass
		assert_error 5 "serves malloc in '/usr/bin/python3.*', but it is $name, not jemalloc"
		# The name does not make a file jemalloc: neither a copy's, nor a link's, nor one in
		# the user's list.
		for file in copy link; do
			mkdir -p "$file"
			[ "$file" = copy ] && cp -L "${files[$name]}" copy/libjemalloc.so.2
			[ "$file" = link ] && ln -sf "${files[$name]}" link/libjemalloc.so.2
			flmem start --role client --jemalloc --jemalloc-library "$PWD/$file/libjemalloc.so.2" -- touch ran
			assert_error 5 "it is $name, not jemalloc"
		done
		flmem start --role client --allocator auto --jemalloc-library "${files[$name]}" -- "$PYTHON" -c "$WHOAMI"
		assert_status 0
		assert_stderr "using glibc instead of jemalloc: .*it is $name"
		[ "$output" = 'False None' ]
	done
	[ ! -e ran ]
	[ "$tried" -gt 0 ]
}

@test "a library that defines no malloc is refused, and a jemalloc of another name is not" {
	local libm=/usr/lib/x86_64-linux-gnu/libm.so.6
	requires "$JEMALLOC" "$libm"
	flmem start --role client --jemalloc --jemalloc-library "$libm" -- "$PYTHON" -c pass
	assert_error 5 "$libm loads into '/usr/bin/python3.*', but defines no malloc"
	cp -L "$JEMALLOC" other.so
	flmem start --role client --jemalloc --jemalloc-library "$PWD/other.so" -- "$PYTHON" -c 'print("ran")'
	assert_status 0
	[ "$output" = ran ]
}

@test "an unknown malloc is not jemalloc" {
	printf '%s\n' '#include <stddef.h>' 'static char pool[1 << 26];' 'static size_t used;' \
		'void *malloc(size_t n) { used = (used + 31) & ~15UL; used += n; return pool + used - n; }' \
		'void free(void *p) { (void)p; }' \
		'void *calloc(size_t a, size_t b) { return malloc(a * b); }' \
		'void *realloc(void *p, size_t n) { char *q = malloc(n), *o = p;' \
		'	for (size_t i = 0; o && i < n; i++) q[i] = o[i]; return q; }' >own.c
	cc -O1 -fno-builtin -shared -fPIC -o libjemalloc.so.2 own.c
	flmem start --role client --jemalloc --jemalloc-library "$PWD/libjemalloc.so.2" -- /bin/true
	assert_error 5 "but it is an unknown allocator, not jemalloc"
}

@test "an allocator in front of jemalloc is named" {
	requires "$JEMALLOC"
	printf '#include <stdlib.h>\nstatic char pool[1 << 20];\nstatic size_t used;\n%s\n' \
		'void *malloc(size_t n) { used = (used + 15) & ~15UL; used += n; return pool + used - n; }
		void free(void *p) { (void)p; }
		void *calloc(size_t a, size_t b) { return malloc(a * b); }
		void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
		int main(void) { return malloc(1) == NULL; }' >own.c
	cc -rdynamic -o own own.c
	flmem start --role client --jemalloc -- ./own
	assert_error 5 "malloc is served by .*/own, which comes first"
}

@test "auto takes glibc where jemalloc does not load, and says why" {
	compile static cc -static
	flmem start --role client --allocator auto -- ./static
	assert_status 0
	assert_stderr 'using glibc instead of jemalloc: .*statically linked'
	flmem start --role client --allocator auto --dry-run -- ./static
	assert_output 'MALLOC_ARENA_MAX=2'
	refute_output 'LD_PRELOAD'
}

@test "a library that blocks all signals and never returns does not hold the proof up" {
	requires "$JEMALLOC"
	cat >stays.c <<-'END'
		#include <signal.h>
		#include <unistd.h>
		__attribute__((constructor)) static void stay(void)
		{
			sigset_t all;

			sigfillset(&all);
			sigprocmask(SIG_BLOCK, &all, NULL);
			for (;;)
				pause();
		}
	END
	cc -shared -fPIC -o libstays.so stays.c
	compile stuck cc -Wl,--no-as-needed,-rpath,"$PWD" "$PWD/libstays.so"
	run_command timeout 90 "$FLMEM" start --role client --jemalloc -- ./stuck
	assert_error 5 "stuck' did not reach its entry point within 10 seconds"
	run ps --no-headers -C stuck
	[ -z "$output" ]
}

@test "a command that cannot be run gives 127 or 126, with and without a probe" {
	mkdir directory
	echo text >text
	printf '#!/nowhere/interpreter\n' >orphan
	chmod +x orphan
	local how
	for how in '' --jemalloc; do
		# shellcheck disable=SC2086
		{
			flmem_not_found start --role client $how -- no-such-command
			assert_error 127 "cannot run 'no-such-command': no such command in PATH"
			flmem_not_found start --role client $how -- ./no-such-file
			assert_error 127 "cannot run './no-such-file': No such file"
			flmem_not_found start --role client $how -- ./orphan
			assert_error 127 'the interpreter or loader that it names is missing'
			flmem start --role client $how -- ./text
			assert_error 126 "cannot run './text': Permission denied"
			flmem start --role client $how -- ./directory
			assert_error 126 'Is a directory'
		}
	done
	flmem_not_found start --role client --jemalloc -- env no-such-command
	assert_error 127 'no-such-command'
}

@test "a script without #! runs in sh, as env has it" {
	echo 'echo from $0' >plain
	chmod +x plain
	flmem start --role client -- ./plain
	[ "$output" = 'from ./plain' ]
}

@test "a second tracer in the way is named" {
	requires "$JEMALLOC" strace
	run_command env ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" strace -f -o trace "$FLMEM" start --role client --jemalloc -- "$PYTHON" -c pass
	assert_status 4
	assert_stderr 'cannot trace a child process \(another tracer'
}

@test "a dry run prints a script that does the same" {
	flmem start --role client --dry-run -- sh -c 'echo "$MALLOC_ARENA_MAX $1"' x "it's"
	assert_status 0
	run_command sh -c "$output"
	[ "$output" = "2 it's" ]
}

@test "json is as its schema says" {
	requires "$JEMALLOC"
	flmem start --role client --dry-run --json -- "$PYTHON" $'\xff'
	assert_schema start
	flmem start --role server --jemalloc --dry-run --json -- "$PYTHON"
	assert_schema start
	flmem_not_found start --role server --jemalloc --dry-run --json -- no-such-command
	assert_schema start
}

@test "bad input is refused and nothing is started" {
	flmem start --role client
	assert_error 2 'no command to start; give it after --'
	flmem start -- touch started
	assert_error 2 '--role is required'
	flmem start --role clint -- touch started
	assert_error 2 "invalid value 'clint' for --role; choose from server, client, trainer"
	flmem start --role client --jemalloc --allocator glibc -- touch started
	assert_error 2 '--jemalloc and --allocator=glibc exclude each other'
	flmem start --role client --no-inherit-preload -- touch started
	assert_error 2 '--no-inherit-preload needs --jemalloc'
	flmem start --role client --jemalloc-library /lib/any.so -- true
	assert_error 2 '--jemalloc-library needs --allocator=jemalloc or auto'
	flmem env --role client -a glibc --jemalloc-library /lib/any.so
	assert_error 2 '--jemalloc-library needs --allocator=jemalloc or auto'
	flmem start --role client --json -- touch started
	assert_status 2
	assert_stderr '--json needs --dry-run'
	flmem start --role client --jemalloc --jemalloc-library relative -- touch started
	assert_error 2 'not an absolute path'
	[ ! -e started ]
}

@test "--profile-ready: processes of the same user may trace the command, unless filters might forbid to ask for it" {
	requires victim:sampled/prepared
	local prepared=$FLMEM_VICTIMS/sampled/prepared
	flmem start --role client --profile-ready -- "$prepared"
	assert_status 0
	[ "$output" = "allowed 1, others 0" ] || fail "$output"
	flmem start --role client --profile-ready -- "$prepared" filtered
	assert_status 0
	[ "$output" = "allowed 0, others 0" ] || fail "$output"
	flmem start --role client -- "$prepared"
	[ "$output" = "allowed 0, others 0" ] || fail "$output"
}
