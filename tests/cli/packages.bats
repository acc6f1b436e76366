#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# packaging/ and docs/slurm: what can be read or run without building a package.
# tests/soak/packages.py builds them.

load helpers

ROOT=$FLMEM_TESTS/..

# Prints flmem-slurm with this test's directory and command in place of its own.
make_slurm_script() {
	sed "s|^base=.*|base=$BATS_TEST_TMPDIR/jobs|; s|^flmem=.*|flmem=$1|" \
		"$ROOT/docs/slurm/flmem-slurm" >"$BATS_TEST_TMPDIR/flmem-slurm"
	chmod +x "$BATS_TEST_TMPDIR/flmem-slurm"
}

slurm() {
	run_command env SLURM_JOB_ID=17 SLURM_JOB_UID="$(id -u)" SLURM_JOB_GID="$(id -g)" SLURM_PROCID=0 \
		SLURM_SUBMIT_DIR="$BATS_TEST_TMPDIR" "SLURM_SCRIPT_CONTEXT=$1" "${@:2}" \
		"$BATS_TEST_TMPDIR/flmem-slurm"
}

@test "the task prolog of Slurm exports the role's settings, unquoted" {
	make_slurm_script "$FLMEM"
	slurm prolog_task FLMEM_WATCH=no
	assert_status 0
	[ "$output" = "export MALLOC_ARENA_MAX=2" ]
	slurm prolog_task FLMEM_WATCH=no FLMEM_ROLE=server
	[ "$output" = "export MALLOC_ARENA_MAX=4" ]
}

@test "a task of Slurm is watched and reported, and its directory is removed" {
	make_slurm_script "$FLMEM"
	slurm prolog_slurmd
	[ -d "$BATS_TEST_TMPDIR/jobs/17" ]
	[ "$(stat -c %a "$BATS_TEST_TMPDIR/jobs/17")" = 700 ]
	sleep 60 3>&- &
	local task=$!
	slurm prolog_task "SLURM_TASK_PID=$task" "FLMEM_WATCH=--interval 50ms"
	assert_output '^export '
	until [ -s "$BATS_TEST_TMPDIR/jobs/17/batch.0.rec" ]; do sleep 0.1; done
	kill "$task"
	wait "$task" || true
	slurm epilog_task
	assert_status 0
	for kind in html rec txt; do
		[ -s "$BATS_TEST_TMPDIR/flmem-17.batch.0.$kind" ] || fail "no $kind"
	done
	slurm epilog_slurmd
	[ ! -e "$BATS_TEST_TMPDIR/jobs/17" ]
	[ -e "$BATS_TEST_TMPDIR/jobs" ]
}

@test "the prologs of Slurm succeed without flmem, without rights and in no known place" {
	make_slurm_script /nowhere/flmem
	slurm prolog_task FLMEM_WATCH=no
	assert_status 0
	[ -z "$output" ]
	slurm prolog_slurmd SLURM_JOB_UID=nobody-of-that-name
	assert_status 0
	slurm epilog_task
	assert_status 0
	slurm another
	assert_status 0
	[[ $stderr == *"Slurm starts this as Prolog"* ]]
}

@test "the module file finds its prefix, also through a link" {
	local modulecmd
	modulecmd=$(find /usr/lib/*/modulecmd.tcl /usr/share/modules/libexec/modulecmd.tcl 2>/dev/null | head -n 1)
	[ -n "$modulecmd" ] || skip "needs environment-modules"
	local prefix=$BATS_TEST_TMPDIR/opt
	mkdir -p "$prefix/share/flmem/modulefiles" "$prefix/lib/pkgconfig" \
		"$prefix/lib/python3.11/site-packages" "$BATS_TEST_TMPDIR/modules/flmem"
	cp "$ROOT/packaging/modulefiles/flmem" "$prefix/share/flmem/modulefiles/flmem"
	ln -s "$prefix/share/flmem/modulefiles/flmem" "$BATS_TEST_TMPDIR/modules/flmem/0.2.0"
	for place in "$prefix/share/flmem/modulefiles" "$BATS_TEST_TMPDIR/modules"; do
		run_command env -u PYTHONPATH -u MANPATH "MODULEPATH=$place" "$modulecmd" sh load flmem
		assert_status 0
		assert_output "[^A-Z]PATH=$prefix/bin:"
		assert_output "MANPATH=$prefix/share/man:;"
		assert_output "PKG_CONFIG_PATH=$prefix/lib/pkgconfig"
		assert_output "PYTHONPATH=$prefix/lib/python3.11/site-packages"
	done
}

@test "the specification is read by rpm" {
	requires rpmspec
	run_command rpmspec -q --qf '%{NAME} %{VERSION} %{LICENSE}\n' "$ROOT/packaging/rpm/flmem.spec"
	assert_status 0
	assert_output '^flmem [0-9.]+ Apache-2.0'
	assert_output "flmem-devel "
	assert_output "python3-flmem "
}

@test "the recipe for Spack is a package by Spack's names" {
	run_command python - "$ROOT/packaging/spack/package.py" <<-'END'
		import sys, types
		said = []
		module = types.ModuleType("spack.package")
		for name in ("license", "version", "variant", "depends_on", "conflicts", "generator", "extends"):
		    setattr(module, name, lambda *words, _name=name, **more: said.append((_name, words, more)))
		for name in ("run_after", "on_package_attributes"):
		    setattr(module, name, lambda *words, **more: lambda function: function)
		module.CMakePackage = type("CMakePackage", (), {})
		sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": module})
		space = {}
		exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), space)
		assert issubclass(space["Flmem"], module.CMakePackage) and space["Flmem"].__doc__
		print(sorted({name for name, _, _ in said}))
	END
	assert_status 0
	[ "$output" = "['conflicts', 'depends_on', 'extends', 'generator', 'license', 'variant', 'version']" ]
}

@test "the recipe for conda has its parts" {
	/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"
	run_command python -c '
import sys, yaml
recipe = yaml.safe_load(open(sys.argv[1]))
print(sorted(recipe), recipe["about"]["license"])' "$ROOT/packaging/conda/recipe.yaml"
	assert_status 0
	[ "$output" = "['about', 'build', 'context', 'package', 'requirements', 'source', 'tests'] Apache-2.0" ]
}
