# SPDX-License-Identifier: Apache-2.0
# A thin front for CMake; everything real is in CMakeLists.txt and its presets.
.POSIX:
.PHONY: all setup check clean install

all:
	cmake --preset release
	cmake --build --preset release

setup:
	scripts/setup build test

check: setup
	cmake --preset dev
	cmake --build --preset dev
	ctest --preset dev --output-on-failure

install: all
	cmake --install build/release

clean:
	rm -rf build
