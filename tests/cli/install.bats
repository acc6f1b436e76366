#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What `make install` and `make deb` put where, from the build that `make check` makes for it.

load helpers

setup_file() {
	export BUILD=$FLMEM_TESTS/../build/ci
	[ -x "$BUILD/cli/flmem" ] || skip "needs the build of the preset ci, which 'make check' makes"
	export ROOT=$BATS_FILE_TMPDIR/root
	DESTDIR=$ROOT cmake --install "$BUILD" >"$BATS_FILE_TMPDIR/log" 2>&1
	export LIBRARIES
	LIBRARIES=$(dirname "$(find "$ROOT" -name 'libflmem.so.0')")
}

@test "the installed command finds its library and runs" {
	run_command env "LD_LIBRARY_PATH=$LIBRARIES" "$ROOT/usr/bin/flmem" --version
	assert_status 0
	assert_output '^flmem [0-9]'
}

@test "the installed command finds what it preloads into other programs" {
	local ready=$LIBRARIES/flmem/libflmem-sampler-ready.so
	run_command env "LD_LIBRARY_PATH=$LIBRARIES" "$ROOT/usr/bin/flmem" start --profile-ready --role client -- \
		printenv LD_PRELOAD
	assert_status 0
	[ "$(realpath "$output")" = "$(realpath "$ready")" ]
	run_command env "LD_LIBRARY_PATH=$LIBRARIES" "$ROOT/usr/bin/flmem" profile run \
		-o "$BATS_TEST_TMPDIR/p.prof" -- printenv LD_PRELOAD
	assert_status 0
	assert_output "/flmem/libflmem-sampler.so"
}

@test "every man page and completion is there" {
	local page
	for page in "$FLMEM_TESTS"/../docs/man/*.1; do
		[ -s "$ROOT/usr/share/man/man1/$(basename "$page")" ]
	done
	[ -s "$ROOT/usr/share/bash-completion/completions/flmem" ]
	[ -s "$ROOT/usr/share/zsh/vendor-completions/_flmem" ]
	[ -s "$ROOT/usr/share/fish/vendor_completions.d/flmem.fish" ]
}

@test "a program builds and runs against the library through pkg-config" {
	local source=$BATS_TEST_TMPDIR/use.c flags
	cat >"$source" <<-'END'
		#include <stdio.h>
		#include <flmem/error.h>
		#include <flmem/version.h>
		int main(void)
		{
			printf("%s %d\n", flmem_version(), flmem_code_exit_status(FLMEM_EPERM));
			return 0;
		}
	END
	flags=$(PKG_CONFIG_PATH=$LIBRARIES/pkgconfig PKG_CONFIG_SYSROOT_DIR=$ROOT \
		pkg-config --cflags --libs flmem)
	# shellcheck disable=SC2086
	cc -o "$BATS_TEST_TMPDIR/use" "$source" $flags
	run_command env "LD_LIBRARY_PATH=$LIBRARIES" "$BATS_TEST_TMPDIR/use"
	assert_status 0
	assert_output '^[0-9.]+ 4$'
}

@test "the Python module in a virtual environment uses the library of the installed command" {
	local venv=$BATS_TEST_TMPDIR/venv
	/usr/bin/python3 -m venv "$venv" || skip "needs python3-venv"
	cp -r "$FLMEM_TESTS/../libcore/bindings/python" "$BATS_TEST_TMPDIR/source"
	echo "$BATS_TEST_TMPDIR/source" >"$(echo "$venv"/lib/python3*/site-packages)/flmem.pth"
	cd "$BATS_TEST_TMPDIR" || return
	run_command env -u FLMEM_LIBRARY -u LD_LIBRARY_PATH -u PYTHONPATH \
		"PATH=$(dirname "$(find "$ROOT" -path '*/bin/flmem')"):/usr/bin:/bin" "$venv/bin/python3" -B -c 'import flmem, flmem._library as l
print(flmem.allocator_name(), l.load()._name)'
	assert_status 0
	[ "$output" = "glibc $(realpath "$LIBRARIES")/libflmem.so.0" ] || [ "$output" = 'glibc libflmem.so.0' ]
}

@test "the Python module finds the installed library by itself" {
	requires /usr/bin/python3
	local module
	module=$(find "$ROOT" -path '*/flmem/__init__.py')
	[ -n "$module" ]
	run_command env -u FLMEM_LIBRARY -u LD_LIBRARY_PATH \
		"PYTHONPATH=$(dirname "$(dirname "$module")")" /usr/bin/python3 -B -c '
import flmem
print(flmem.__file__, flmem.get_allocator_type())
flmem.cleanup_memory()'
	assert_status 0
	assert_output "^$module glibc\$"
	[ -z "$stderr" ]
}

@test "the library shows only its public names" {
	run_command bash -c "nm -D --defined-only '$LIBRARIES/libflmem.so.0' | awk '{ print \$3 }'"
	assert_status 0
	! grep -v '^flmem_' <<<"$output" || fail "foreign names"
}

@test "every public function is in the library" {
	local name names
	names=$(cat "$ROOT"/usr/include/flmem/*.h | tr '\n' ' ' | grep -oE 'FLMEM_API [^;(]*\(' |
		grep -oE 'flmem_[a-z0-9_]+\(' | tr -d '(' | sort -u)
	[ -n "$names" ]
	run_command nm -D --defined-only "$LIBRARIES/libflmem.so.0"
	for name in $names; do
		grep -q " $name\$" <<<"$output" || fail "$name is declared and missing"
	done
}

@test "every file that the installed README links to is installed" {
	local link links
	links=$(grep -oE '\]\([A-Za-z][^):#]*' "$ROOT/usr/share/doc/flmem/README.md" | cut -c3- | sort -u)
	[ "$(wc -l <<<"$links")" -gt 20 ]
	for link in $links; do
		[ -e "$ROOT/usr/share/doc/flmem/$link" ] || fail "$link is not there"
	done
}

@test "in a build folder that had another prefix, the Python module goes where that of this one does" {
	requires cmake /usr/bin/python3
	local folder=$BATS_TEST_TMPDIR/build prefix
	for prefix in /usr/local /usr; do
		run_command cmake -S "$FLMEM_TESTS/.." -B "$folder" -DFLMEM_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$prefix"
		assert_status 0
	done
	grep -q '/lib/python3/dist-packages' "$folder/libcore/bindings/python/cmake_install.cmake" ||
		fail "$(grep DESTINATION "$folder/libcore/bindings/python/cmake_install.cmake")"
}

@test "a .deb is made, complete and well-formed" {
	requires dpkg-deb dpkg-shlibdeps
	local deb
	run_command cpack -G DEB --config "$BUILD/CPackConfig.cmake" -B "$BATS_TEST_TMPDIR"
	assert_status 0
	deb=$(find "$BATS_TEST_TMPDIR" -maxdepth 1 -name 'flmem_*.deb')
	run_command dpkg-deb -c "$deb"
	assert_output 'usr/bin/flmem'
	assert_output 'usr/share/man/man1/flmem.1.gz'
	assert_output 'libflmem.so.0'
	assert_output 'usr/include/flmem/error.h'
	assert_output 'pkgconfig/flmem.pc'
	assert_output 'usr/lib/python3/dist-packages/flmem/__init__.py'
	assert_output 'usr/share/doc/flmem/docs/guides/trim.md'
	run_command dpkg-deb -f "$deb" Depends
	assert_output 'libc6'
	assert_output 'libcjson1'
	# The loader finds the library in its standard directories; a search path would only be a
	# risk.
	run_command readelf -d "$BATS_TEST_TMPDIR"/_CPack_Packages/*/DEB/*/usr/bin/flmem
	refute_output 'RUNPATH'
}
