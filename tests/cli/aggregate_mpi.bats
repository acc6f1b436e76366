#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate --mpi; harness/mpi_checks.py has the checks.
# bats file_tags=unsanitised

load helpers

# MPI_LACKS: why these tests cannot run.
setup_file() {
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MPI_LACKS=
	local said
	if ! command -v mpirun >/dev/null; then
		MPI_LACKS="needs mpirun (Debian: openmpi-bin)"
	elif sanitized; then
		MPI_LACKS="Open MPI does not release all of its memory"
	elif ! said=$(TMPDIR=/tmp timeout 120 mpirun --oversubscribe -n 2 true 2>&1); then
		MPI_LACKS="mpirun starts no processes here: $(tr -s '\n -' ' ' <<<"$said")"
	else
		said=$(cd "$BATS_FILE_TMPDIR" && TMPDIR=/tmp mpirun -n 1 "$FLMEM" aggregate --mpi -o out none 2>&1) || true
		case $said in
		*"without Open MPI"* | *"needs Open MPI"*) MPI_LACKS=$said ;;
		esac
	fi
}

setup() {
	requires numpy
	[ -z "$MPI_LACKS" ] || skip "$MPI_LACKS"
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/mpi_checks.py" "$FLMEM" "$@"
	assert_status 0
}

@test "two, three and four processes write the bytes of one" {
	check same
}

@test "one that fails makes all fail, and the old output stays" {
	check failures
}

@test "what one process has to do alone is refused" {
	check refusals
}

@test "one that is killed ends all, and the old output stays" {
	check killed
}

@test "shards have the bytes that one process writes, whatever the number of processes" {
	check folders
}

@test "norms and distances are those of all processes" {
	check measured
}

@test "one that fails makes all fail, and leaves no shard" {
	check folder_failures
}

@test "one that is killed ends all that write shards, and the next run has whole ones" {
	check folder_killed
}

@test "a folder that another program makes meanwhile stays" {
	check folder_taken
}

@test "one that is stopped stops all" {
	check stopped
}

@test "no other job takes an output that a process may still write to" {
	check outlived
}

@test "leftovers in a directory that the first process does not see" {
	check left
}

@test "shards on a full disk" {
	requires root
	mkdir disk
	# shellcheck disable=SC2016 # for the inner shell
	run_command unshare -m sh -c 'mount -t tmpfs -o size=2M tmpfs disk || exit 77
		exec "$@"' - /usr/bin/python3 -B "$FLMEM_TESTS/harness/mpi_checks.py" "$FLMEM" full
	[ "$status" != 77 ] || skip "needs to mount a tmpfs"
	assert_status 0
}

@test "processes in two network namespaces" {
	command -v ip >/dev/null || skip "needs ip (iproute2)"
	unshare --net true 2>/dev/null || skip "may not make a network namespace"
	run_command unshare --net /usr/bin/python3 -B "$FLMEM_TESTS/harness/mpi_checks.py" "$FLMEM" namespaces
	[[ $stderr != *"RTNETLINK answers: Operation not supported"* ]] || skip "this kernel has no veth"
	assert_status 0
}
