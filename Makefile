# SPDX-License-Identifier: BSD-2-Clause
# A thin front over meson and ninja, for people who want two commands.  `make help` lists the
# targets.
#
#	make            optimised, without assertions or tests, into build/; then
#	                LD_LIBRARY_PATH=$PWD/build/lib COMMAND runs any RDMA program on it
#	make demo       set-up, build, and two stock programs talking through it
#	make install    the same build, to PREFIX
#	make deb        a Debian package, verbena_VERSION_ARCH.deb, in build-deb/
#	make dist       a source release, verbena-VERSION.tar.gz, in build-dist/; builds without git
#	make test       set-up, build with assertions into build-test/, all tests
#	make test-system SUITE=trixie   the same tests in a fresh system of that release; as root
#	make test-package   the packages: built, checked, installed, used and removed; as root
#	make bench      ratios to the alternatives to Verbena; GROUP=latency for a part
#
# Variables: BUILD (folder), MESON_ARGS (for `meson setup`), TEST_ARGS (for `meson test`), PREFIX
# and DESTDIR (for install).

SHELL := /bin/bash
BUILD ?= build
TEST_BUILD ?= build-test
export MESON ?= meson
PREFIX ?= /usr/local
MESON_ARGS ?=
TEST_ARGS ?=

# As a distribution builds it: the engine does not check itself, and the layers are optimised as
# one.
RELEASE_ARGS := -Doptimization=2 -Ddebug=false -Db_ndebug=true -Db_lto=true

# Sanitizer reports must end the process that made them, or a test would not see them.
export ASAN_OPTIONS ?= abort_on_error=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS ?= abort_on_error=1:halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS ?= halt_on_error=1:second_deadlock_stack=1

.PHONY: all setup demo test test-asan test-tsan test-musl test-load test-frozen test-rxe \
	test-mpich test-ucx test-ceph test-system test-package fuzz soak coverage bench bench-rxe \
	install deb dist clean format help

all:
	@scripts/setup --check build
	@scripts/build.py "$(BUILD)" --prefix "$(PREFIX)" $(RELEASE_ARGS) -Dtests=false \
		$(MESON_ARGS)

# The targets that people type first bring the machine up to date before they build.
setup:
	@scripts/setup

demo:
	@scripts/setup build demo
	@$(MAKE) --no-print-directory all
	@python3 scripts/demo.py "$(BUILD)"

test: setup
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@python3 scripts/run_tests.py "$(TEST_BUILD)" $(TEST_ARGS)

# -Wl,-z,defs cannot hold in a sanitized shared library, hence b_lundef.
test-asan: setup
	@scripts/build.py build-asan -Db_sanitize=address,undefined -Db_lundef=false $(MESON_ARGS)
	@python3 scripts/run_tests.py build-asan --timeout-multiplier 3 $(TEST_ARGS)

# The tests of several processes, while other processes want the CPUs as well.  LOAD_ARGS: which
# tests; BUSY: how many others.
LOAD_ARGS ?= --suite proc --suite stock
BUSY ?= 20

test-load: setup
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@python3 scripts/load.py --busy "$(BUSY)" "$(TEST_BUILD)" $(LOAD_ARGS)

# Each test once with all of its processes stopped for FREEZE_SECONDS, as on a machine that is
# paused.  They sleep meanwhile, so many may run.
FROZEN_ARGS ?= --suite verbs --suite rdmacm --suite proc --suite stock --suite tools \
	--suite libverbena

test-frozen: setup
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@python3 scripts/run_tests.py "$(TEST_BUILD)" --timeout-multiplier 3 --num-processes 24 \
		--wrapper "$(CURDIR)/scripts/freeze.py" $(FROZEN_ARGS)

# Only our own programs: a stock one is not built for TSan.
test-tsan: setup
	@scripts/build.py build-tsan -Db_sanitize=thread -Db_lundef=false $(MESON_ARGS)
	@python3 scripts/run_tests.py build-tsan --timeout-multiplier 5 \
		--suite unit --suite sim --suite verbs --suite rdmacm --suite proc $(TEST_ARGS)

# The unit and sim tests with another C library.
test-musl: setup
	@scripts/setup musl
	@scripts/check-musl $(TEST_ARGS)

# Every fuzz target for FUZZ_SECONDS: with clang as libFuzzer programs under ASan and UBSan, else
# the drivers with random inputs.
FUZZ_SECONDS ?= 600
FUZZ_CC := $(shell command -v clang)
FUZZ_ARGS := -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false

fuzz: setup
	@[ -e build-fuzz/build.ninja ] || \
		$(if $(FUZZ_CC),CC=clang CFLAGS=-fsanitize=fuzzer-no-link) \
		$(MESON) setup build-fuzz $(if $(FUZZ_CC),$(FUZZ_ARGS)) $(MESON_ARGS)
	@ninja -C build-fuzz fuzz-programs
	@python3 scripts/fuzz.py build-fuzz --seconds "$(FUZZ_SECONDS)" $(FUZZ_TARGETS)

# Which lines of core, roce and local the tests run.  The processes of an ordinary user write their
# counts, too.
COVERAGE_TESTS ?= --suite unit --suite sim --suite verbs --suite proc --suite tools \
	--suite libverbena
COVERAGE_CFLAGS := -fprofile-update=atomic

coverage: setup
	@command -v gcovr >/dev/null || \
		{ echo "coverage: gcovr is not installed (apt-get install gcovr)" >&2; exit 1; }
	@[ -e build-cov/build.ninja ] || CFLAGS="$(COVERAGE_CFLAGS)" \
		$(MESON) setup build-cov -Db_coverage=true $(MESON_ARGS)
	@ninja -C build-cov
	@find build-cov -name '*.gcda' -delete; find build-cov -type d -exec chmod a+rwx {} +
	-@umask 0; python3 scripts/run_tests.py build-cov --timeout-multiplier 3 $(COVERAGE_TESTS)
	@python3 scripts/coverage.py "$(CURDIR)" build-cov

# Threads and processes for SOAK_SECONDS, some of them killed or stopped, and what must hold at the
# end.
SOAK_SECONDS ?= 600

soak: setup
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@python3 tests/stock/soak.py "$(TEST_BUILD)" "$(SOAK_SECONDS)"

# Soft RoCE against Verbena in one guest: a table for docs/PERFORMANCE.md.
bench-rxe: setup
	@scripts/build.py "$(BUILD)" $(RELEASE_ARGS) -Dtests=false $(MESON_ARGS)
	@tests/rxe/guest.py $(RXE_ARGS) build-rxe -- bench/rxe.py "$(BUILD)"

# A kernel's soft RoCE as the other end, in a guest (docs/TESTING.md).
RXE_ARGS ?=
RXE_GROUPS ?= all

test-rxe: setup
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@tests/rxe/guest.py $(RXE_ARGS) build-rxe -- \
		tests/rxe/peer.py "$(TEST_BUILD)" "$(RXE_GROUPS)"

# MPICH over libfabric, which no package has, is built first.
test-mpich: setup
	@scripts/build-mpich build-mpich
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@python3 tests/tools/mpi.py "$(TEST_BUILD)" "MPICH, libfabric"

# UCX's own tests, which no package has, are built first.
test-ucx: setup
	@scripts/build-ucx build-ucx
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@python3 tests/tools/ucx_own.py "$(TEST_BUILD)" build-ucx/source

# A Ceph cluster over its RDMA messenger.
test-ceph: setup
	@scripts/setup ceph
	@scripts/build.py "$(TEST_BUILD)" $(MESON_ARGS)
	@python3 tests/stock/ceph.py "$(TEST_BUILD)" one_host
	@python3 tests/stock/ceph.py "$(TEST_BUILD)" hosts

# GROUP: see bench/bench.py; or packets, scaling.
bench: setup
	@[ -e build-bench/build.ninja ] || $(MESON) setup build-bench $(RELEASE_ARGS) $(MESON_ARGS)
	@ninja -C build-bench bench-programs
	@[ "$(GROUP)" = packets ] || [ "$(GROUP)" = scaling ] || \
		python3 bench/bench.py build-bench $(GROUP)
	@[ -n "$(GROUP)" ] || python3 bench/lossy.py build-bench
	@[ -n "$(GROUP)" ] || python3 bench/fairness.py build-bench
	@[ -n "$(GROUP:packets=)" ] || python3 bench/packets.py build-bench
	@[ -n "$(GROUP:scaling=)" ] || python3 bench/scaling.py build-bench

# The folder may have been configured for another prefix.
install: all
	@$(MESON) configure "$(BUILD)" --prefix "$(PREFIX)"
	@scripts/build.py "$(BUILD)"
	@$(MESON) install -C "$(BUILD)" --no-rebuild

deb:
	@scripts/setup build package
	@packaging/make-deb

dist:
	@packaging/make-dist

# In a system of another release of Debian, which is made first: SUITE=trixie.
test-system:
	@scripts/setup package-test
	@scripts/test-system "$(SUITE)" TEST_ARGS="$(TEST_ARGS)" MESON_ARGS="$(MESON_ARGS)"

test-package:
	@scripts/setup build package package-test
	@python3 tests/package/package.py $(TEST_ARGS)

clean:
	rm -rf "$(BUILD)" "$(TEST_BUILD)" build-asan build-tsan build-bench build-cov build-fuzz \
		build-deb build-dist build-rpm build-rxe build-mpich build-ucx \
		build-musl build-system

format:
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

help:
	@sed -n '2,/^$$/s/^#[ ]\{0,1\}//p' Makefile
	@echo "Targets: all setup demo install deb dist test test-asan test-tsan test-musl" \
		"test-load test-frozen test-rxe test-mpich test-ucx test-ceph test-system" \
		"test-package bench-rxe fuzz soak coverage bench clean format"
