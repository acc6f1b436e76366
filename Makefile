# SPDX-License-Identifier: Apache-2.0
# Short names for CMake's presets and the programs in scripts/, which do the work.
.POSIX:
.PHONY: all demo check bench experiment soak fuzz generate format install deb deb-arm64 rpm image wheels clean

# make soak LONG=1: 100,000 trims instead of 10,000, in several hours.
LONG =
# make experiment MODEL=resnet18 CLIENTS=4 RATE=100mbit; docs/experiments.md has the models.
MODEL = mnist-cnn
CLIENTS = 2
ROUNDS = 3
RATE =
# PROFILE=1: also heap profiles of all processes, and pages that compare them.
PROFILE =
PREFIX = /usr/local
DESTDIR =

all:
	scripts/setup build
	cmake --preset release -DFLMEM_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	cmake --build --preset release

demo:
	scripts/setup build demo
	cmake --preset release -DFLMEM_TESTS=OFF
	cmake --build --preset release
	demo/run build/release/cli/flmem

# Builds twice: `ci` as it is packaged, for tests that AddressSanitizer would disturb, among them the safety tests,
# which test the build that users have; and `dev` with sanitizers, for all other tests and for clang's warnings in
# clang-tidy. Programs that load the library without sanitizers use that of `ci`. One run of ctest has the tests of
# both builds, because some wait while others compute. The fuzz targets, built with clang, use the processor time
# that is left, briefly and with a fixed seed (`make fuzz` finds new inputs).
# The tests' packages are installed while flmem is built, other Pythons are unpacked while the tests are built.
# `make soak` builds everything with clang, and also tests other Debian releases.
check:
	scripts/setup build mpi
	scripts/setup test-packages & \
	cmake --preset ci -DFLMEM_TESTS=OFF && cmake --build --preset ci && \
	cmake --preset dev -DFLMEM_TESTS=OFF && cmake --build --preset dev; built=$$?; wait $$! || scripts/setup test-packages && exit $$built
	scripts/setup test & \
	cmake --preset ci -DFLMEM_TESTS=ON && cmake --build --preset ci && \
	cmake --preset dev -DFLMEM_TESTS=ON -DFLMEM_PLAIN_BUILD=build/ci && cmake --build --preset dev; built=$$?; wait; exit $$built
	scripts/fuzz-beside scripts/test ci dev

bench:
	scripts/setup build bench
	cmake --preset release -DFLMEM_TESTS=OFF
	cmake --build --preset release
	tests/bench/run build/release

experiment:
	scripts/setup build demo
	cmake --preset release -DFLMEM_TESTS=OFF
	cmake --build --preset release
	tests/experiments/run build/release $(MODEL) --clients $(CLIENTS) --rounds $(ROUNDS) --rate '$(RATE)' $(if $(PROFILE),--profile) --output build/experiments

soak:
	scripts/setup build soak
	cmake --preset clang
	cmake --build --preset clang
	cmake --preset release -DFLMEM_TESTS=ON
	cmake --build --preset release
	LONG=$(LONG) tests/soak/run build/release

fuzz:
	scripts/setup build test
	cmake --preset fuzz -DFLMEM_FUZZ_SECONDS=60 -DFLMEM_FUZZ_SECONDS_OTHERS=60 -DFLMEM_FUZZ_SEED=0
	cmake --build --preset fuzz --target fuzzers
	tests/fuzz/run build/fuzz

generate:
	scripts/setup build
	cmake --preset release -DFLMEM_TESTS=OFF
	cmake --build --preset release --target generate

format:
	git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs clang-format -i

install: all
	cmake --install build/release

deb:
	scripts/setup build deb
	cmake --preset release -DFLMEM_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr
	cmake --build --preset release
	umask 022 && export SOURCE_DATE_EPOCH=$$(scripts/source-date) && cd build/release && cpack -G DEB

# build/deb-arm64/flmem_VERSION_arm64.deb, on amd64.
deb-arm64:
	scripts/setup build deb-arm64
	scripts/deb/make-arm64

# build/rpm/RPMS and SRPMS, of packaging/rpm/flmem.spec.
rpm:
	scripts/setup build rpm
	scripts/rpm/make

# build/image/flmem-VERSION-ARCHITECTURE.tar, for `podman load` and `docker load`.
image:
	scripts/setup build
	cmake --preset release -DFLMEM_TESTS=OFF
	cmake --build --preset release
	python3 -B scripts/image/make.py build/release build/image

# Builds wheels for other systems, uses them in each of these that is available, and prints a table.
wheels:
	scripts/setup build wheels
	python3 -B scripts/wheels/make.py
	python3 -B tests/wheels/run.py build/wheels

clean:
	rm -rf build
