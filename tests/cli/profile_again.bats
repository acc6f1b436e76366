#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile attach and detach: a process that was attached to before, or that another tool changes.

# Every test has its own status.
# shellcheck disable=SC2030,SC2031,SC2153
load helpers
load profile_attach

# flmem_samples FILE: true if the process of the profile is sampled.
flmem_samples() {
	"$FLMEM" profile stats "$1" >/dev/null 2>&1
}

# The thread is a terabyte away from the next sample of the first profile.
@test "a second profile has the samples of its own distance, whatever the first one had" {
	start_attachable
	attach --interval 1TiB
	order round
	detach
	attach --interval 64KiB
	order round
	order round
	detach
	assert_sound
	flmem profile stats --limit 100 "$PROFILE"
	assert_output 'keep_update \(.*/attached\.py:[0-9]+\)'
}

@test "entries are put back also where another tool has made them writable meanwhile" {
	start_attachable
	attach
	order unseal
	[ "$ANSWER" -gt 5 ] || fail "$ANSWER objects"
	detach
	[[ $(got redirected "$VICTIM") = 0* ]] || fail "$(got redirected "$VICTIM")"
	assert_sound
}

@test "a program that its process executes after an attach has a whole profile" {
	start_attachable "$FLMEM" profile run -o "$PROFILE" --
	flmem profile stats "$PROFILE"
	refute_output 'began after'
	detach
	attach
	flmem profile stats "$PROFILE"
	assert_output 'began after its process'
	order exec
	[ "$ANSWER" = ready ]
	flmem profile stats "$PROFILE"
	refute_output 'began after'
	assert_sound
}

@test "a library that only has the names of the sampler gets no order" {
	local library=$BATS_TEST_TMPDIR/libflmem-impostor.so
	requires victim:allocators/impostor.so
	cp "$FLMEM_VICTIMS/allocators/impostor.so" "$library"
	start_attachable
	order load "$library"
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 5 'a sampler of another version'
	[ ! -e "$PROFILE" ]
	assert_sound
}

# loaded_by LOADED_BY PRELOADED [COMMAND]: checks a process that COMMAND starts, attached to and
# detached twice.
loaded_by() {
	local _
	start_attachable "${@:3}"
	[ "$1" != profile-run ] || detach
	for _ in 1 2; do
		attach --json
		assert_schema profile-attach
		[ "$(field '[r["loaded_by"], r["preloaded"]]')" = "['$1', $2]" ] || fail "$output"
		detach --json
		assert_schema profile-detach
		[ "$(field 'r["loaded_by"]')" = "$1" ] || fail "$output"
	done
	flmem profile attach --pid "$VICTIM" --dry-run --json
	[ "$(field 'r["loaded_by"]')" = "$1" ] || fail "$output"
	assert_sound
}

@test "attach and detach report what has loaded the sampler" {
	loaded_by profile-run True "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/run.prof" --
	loaded_by profile-ready False "$FLMEM" start --profile-ready --role client --
	attach
	assert_output 'its sampler was there from the start: flmem start --profile-ready'
	loaded_by attach False
	start_attachable
	flmem profile attach --pid "$VICTIM" --dry-run --json
	[ "$(field 'r["loaded_by"]')" = None ]
}

@test "a program without Python under profile run is sampled until it ends, as detach and attach say" {
	"$FLMEM" profile run -o "$PROFILE" -- sleep 1000 3>&- &
	VICTIMS+=($!)
	wait_until 60 flmem_samples "$PROFILE"
	flmem profile detach --pid "${VICTIMS[-1]}"
	assert_error 5 'has no CPython, .*: it is sampled until it ends; its profile can be read'
	flmem profile attach --pid "${VICTIMS[-1]}" -o "$BATS_TEST_TMPDIR/other.prof"
	assert_error 6 'is already sampled, into .*; it ends with the program'
	flmem profile stats "$PROFILE"
	assert_output ': running'
}

@test "a detach from a profile whose file is gone does not call it complete" {
	# A program whose sampling is cut within a sample would end (docs/limitations.md).
	export ATTACHED_PAUSE_S=0.2
	start_attachable
	local lost
	for lost in deleted replaced renamed exchanged cut; do
		attach
		case $lost in
		deleted) rm "$PROFILE" ;;
		replaced) rm "$PROFILE" && echo another >"$PROFILE" ;;
		renamed) mv "$PROFILE" "$PROFILE.1" && rm "$PROFILE.1" ;;
		exchanged) mv "$PROFILE" "$PROFILE.1" && echo another >"$PROFILE" ;;
		cut) truncate -s 8192 "$PROFILE" ;;
		esac
		detach
		assert_output "p.prof was deleted, renamed, replaced or truncated meanwhile: it lacks the samples"
		refute_output complete
	done
	attach
	rm "$PROFILE"
	detach --json
	[ "$(field 'r["deleted"]')" = True ]
	attach
	detach --json
	[ "$(field 'r["deleted"]')" = False ]
	assert_sound
}

# Reading /proc/kmsg takes lines away from other readers; /proc/version is a file of that kind.
@test "the file that a process calls its profile is not read where it is the kernel's" {
	requires victim:sampled/flmem_pretended
	start_victim "$FLMEM_VICTIMS/sampled/flmem_pretended" /proc/version
	flmem profile detach --pid "$VICTIM" --json
	assert_status 5
	[ "$(field 'r["profile"]')" = /proc/version ]
	[ "$(field 'r["deleted"]')" = False ]
	start_victim "$FLMEM_VICTIMS/sampled/flmem_pretended" /etc/passwd
	flmem profile detach --pid "$VICTIM" --json
	[ "$(field 'r["deleted"]')" = True ]
}

is_sleeping() {
	[ "$(cat "/proc/$VICTIM/comm")" = sleep ]
}

@test "a process that has executed a program without the sampler is not shown as running" {
	start_victim "$FLMEM" profile run -o "$PROFILE" --limit 1MiB -- /usr/bin/python3 -I -c '
import os
print("ready", flush=True)
os.execve("/bin/sleep", ["sleep", "1000"], {})'
	wait_until 60 is_sleeping
	flmem profile stats "$PROFILE"
	assert_output 'p\.prof: killed'
	assert_stderr 'executed another program'
	flmem profile round "$PROFILE" 3
	assert_error 3 'has executed another program'
}

@test "a program of another C library is refused, which the sampler would keep from starting" {
	local option
	requires victim:allocators/musl
	PATH=$FLMEM_VICTIMS/allocators:$PATH flmem profile run -o "$PROFILE" -- musl
	assert_error 5 "built for glibc, but '.*/musl' runs with musl"
	[ ! -e "$PROFILE" ]
	for option in --profile-ready --profile-socket; do
		flmem start --role client "$option" -- "$FLMEM_VICTIMS/allocators/musl"
		assert_error 5 "built for glibc, but '.*/musl' runs with musl"
	done
}

@test "a program with a sanitizer is refused, which the sampler would keep from starting" {
	local option program=$FLMEM_VICTIMS/sampled/sanitized
	"$program"
	flmem profile run -o "$PROFILE" -- "$program"
	assert_error 5 "/sanitized' runs with a sanitizer \(libasan.so\)"
	ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$FLMEM_VICTIMS/sampled/libasan.so \
		flmem profile run -o "$PROFILE" -- true
	assert_error 5 "/true' runs with a sanitizer \(LD_PRELOAD\)"
	[ ! -e "$PROFILE" ]
	for option in --profile-ready --profile-socket; do
		flmem start --role client "$option" -- "$program"
		assert_error 5 "/sanitized' runs with a sanitizer \(libasan.so\)"
	done
}

@test "attach to a shell names the child that has the memory" {
	local child
	start_victim /bin/sh -c '/usr/bin/python3 -I -c "
import time
kept = bytearray(64 << 20)
print(\"ready\", flush=True)
time.sleep(1000)"; true'
	child=$(pgrep -P "$VICTIM")
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	kill "$child"
	assert_error 5 "has no CPython, .*; start the program with flmem profile run; process $child, below process $VICTIM, has more memory \([0-9.]+ MiB resident\): to sample that one"
}

@test "profile round refuses a copy, from which nobody reads it" {
	start_victim "$FLMEM" profile run -o "$PROFILE" --limit 1MiB -- /bin/sh -c 'echo ready; exec sleep 1000'
	wait_until 60 is_sleeping
	cp "$PROFILE" "$BATS_TEST_TMPDIR/copy"
	ln "$PROFILE" "$BATS_TEST_TMPDIR/same"
	flmem profile round "$BATS_TEST_TMPDIR/copy" 3
	assert_error 2 "copy' is a copy, .*process $VICTIM is sampled: '$PROFILE'"
	flmem profile round "$BATS_TEST_TMPDIR/same" 3
	assert_status 0
}

has_profile() {
	[ -e "$PROFILE" ]
}

assert_not_sampled() {
	flmem profile detach --pid "$VICTIM"
	assert_error 5 "is not sampled"
}

@test "SIGTERM in the middle of an attach leaves no profile that nobody fills, and no other files" {
	local attaching status
	start_attachable
	for _ in 1 2 3 4 5; do
		"$FLMEM" profile attach --pid "$VICTIM" -o "$PROFILE" >/dev/null 2>&1 3>&- &
		attaching=$!
		until has_profile || ! alive "$attaching"; do :; done
		kill -TERM "$attaching" || true
		status=0
		wait "$attaching" || status=$?
		[ "$status" = 143 ] || [ "$status" = 0 ] || fail "status $status"
		# On a busy machine the command may have been too late, and ended without its
		# profile.
		if has_profile; then
			detach
			rm "$PROFILE"
		else
			assert_not_sampled
		fi
		run -1 compgen -G "$BATS_TEST_TMPDIR/.flmem-*"
	done
	assert_sound
}

@test "a child that was forked before the sampler of its parent was relocated is refused" {
	start_attachable "$FLMEM" start --role client --profile-ready --
	order clear flmem_sampler_socket
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 5 'not loaded completely'
	[ ! -e "$PROFILE" ]
	assert_sound
}

# stop_at_exec ARGUMENTS: runs a flmem that is held from the moment when it has opened the process's
# memory until the process has executed another program.
stop_at_exec() {
	run --separate-stderr python -c '
import os, signal, subprocess, sys, time
pid, orders, *command = sys.argv[1:]
flmem = subprocess.Popen(command)
def has_memory():
    own = f"/proc/{flmem.pid}/fd"
    for name in os.listdir(own):
        try:
            if os.readlink(f"{own}/{name}") == f"/proc/{pid}/mem":
                return True
        except FileNotFoundError:
            pass
    return False
def address():
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[25]
before = address()
while not has_memory():
    assert flmem.poll() is None, "it has ended"
os.kill(flmem.pid, signal.SIGSTOP)
with open(orders, "w") as pipe:
    pipe.write("exec\n")
while address() == before:
    time.sleep(0.01)
os.kill(flmem.pid, signal.SIGCONT)
sys.exit(flmem.wait())' "$VICTIM" "/proc/$$/fd/$ORDERS" "$FLMEM" "$@"
}

@test "a process that executes another program meanwhile: that is the reason, not what it looked like" {
	start_attachable
	stop_at_exec profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 3 'has executed another program'
	stop_at_exec trim --pid "$VICTIM"
	assert_error 3 'has executed another program'
	alive "$VICTIM"
}
