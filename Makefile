# Everything that people and CI do with this repository: `make help` lists it.
#
#   make quick       what is typed often: the packages that changed
#   make test        before a commit: everything that finds most faults; cold half an hour
#   make ci          before a merge: `make test` and the rest; .ci/run and .github run it
#   make test-slow   before a release, or after a change of what it tests
#
# Their steps are targets of their own, so that each can be run alone. They run one after the other,
# never side by side, since they share one target folder.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# A fresh rustup is not in the PATH of the shell that installed it.
ifeq (,$(shell command -v cargo))
export PATH := $(HOME)/.cargo/bin:$(PATH)
endif

TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(abspath $(CARGO_TARGET_DIR)),$(CURDIR)/target)
VENV := .venv

# Where `make test` finds the built program; the README harness and tests/clients read it.
export WHERED_BIN_DIR := $(TARGET_DIR)/debug

# Crates with code paths chosen by the processor: their tests run once more with each path forced.
SIMD_CRATES := whered-ip whered-geo
# Only x86-64 has paths beside the scalar one.
MACHINE := $(shell uname -m)
SIMD_PATHS := scalar $(if $(filter x86_64,$(MACHINE)),avx2 avx512)

# How long `make fuzz` stays with each target. (The name is what people type.)
SECONDS := 60

comma := ,
step = @printf '\n== %s\n' '$(1)'

.PHONY: help
help: ## this list
	@printf 'make TARGET, where TARGET is one of\n'
	@awk -F ':.*## ' '/^# ---- / { gsub(/^# ---- | ----$$/, ""); printf "\n%s\n", $$0 } \
		/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---- running ----

.PHONY: run
run: ## build the release program and start the demo server; cold ten minutes, 2 GB
	@scripts/install-tools.sh run
	cargo build --release --package whered --locked
	@exec '$(TARGET_DIR)/release/whered' serve --demo --data-dir ./data

# ---- installing ----

# The profile of what is built: release, or dev for a quick look.
PROFILE := release
PREFIX := /usr/local
DESTDIR :=

.PHONY: install
install: ## the release program with pages, completions and unit into PREFIX=/usr/local, below DESTDIR=
	@scripts/packages.sh install '$(PROFILE)' '$(PREFIX)' '$(DESTDIR)'

.PHONY: packages
packages: ## Debian package, tarballs and container images in target/packages; cold half an hour
	@scripts/install-tools.sh packages
	@scripts/packages.sh all '$(PROFILE)'

# ---- testing ----

.PHONY: quick
quick: ## format, clippy and tests of the packages changed since main; seconds to minutes
	@scripts/quick.sh

.PHONY: test
test: tools fmt-check clippy tidy unit clients examples story ## format, clippy, tidy, unit tests, clients, examples, story; 20 GB of disk, cold half an hour
	$(call step,make test: all steps passed)

.PHONY: ci
ci: test ci-rest ## make test, then ci-rest: all that CI runs; cold under an hour, best as root

.PHONY: ci-rest
ci-rest: deny advisories scripts-check simd fuzz-check versus-check bench-tests faults-check fresh-clone bindings python console-check debian-check arm64-check bench-check ## what make ci adds to make test
	$(call step,make ci: all steps passed)

.PHONY: test-slow
test-slow: slow-faults fuzz ## every fault and every fuzz target for MINUTES=5 and SECONDS=60; an hour, root, nightly, cargo-fuzz
	$(call step,make test-slow: all steps passed)

# ---- steps of make test ----

.PHONY: tools
tools: ## programs by apt-get, dnf, apk or brew, Python packages into .venv, crates
	$(call step,tools: programs$(comma) Python packages$(comma) crates)
	@scripts/install-tools.sh test
	@scripts/install-tools.sh venv
	cargo fetch --locked

.PHONY: fmt-check
fmt-check: ## rustfmt would change nothing
	$(call step,fmt: rustfmt would change nothing)
	cargo fmt --all -- --check

.PHONY: clippy
clippy: ## no warning in any target of the workspace
	$(call step,clippy: no warning in any target)
	cargo clippy --workspace --all-targets --locked -- -D warnings

.PHONY: tidy
tidy: ## the project's own rules: arrows, layers, words, headers (cargo xtask tidy)
	$(call step,tidy: arrows$(comma) layers$(comma) words$(comma) headers)
	cargo xtask tidy

.PHONY: unit
unit: ## cargo test: unit, property, wire and documentation tests
	$(call step,cargo test: unit$(comma) property$(comma) wire and documentation tests)
	cargo test --workspace --locked

.PHONY: build
build: ## build the debug program
	$(call step,build: the debug program)
	cargo build --package whered --locked

.PHONY: venv
venv:
	@scripts/install-tools.sh venv

.PHONY: clients
clients: build venv ## tests by real foreign clients (tests/clients)
	$(call step,clients: redis-py$(comma) redis-cli$(comma) dig$(comma) dnspython$(comma) maxminddb)
	$(VENV)/bin/python -m pytest -q tests/clients

.PHONY: examples
examples: build ## run the marked examples of README.md and docs/ (cargo xtask readme)
	$(call step,examples: README.md and docs/ keep their word)
	cargo xtask readme

.PHONY: story
story: build venv ## the tests that tell a user's story (tests/story)
	$(call step,story: what a user does from the first minute on)
	$(VENV)/bin/python -m pytest -q tests/story

.PHONY: lint
lint: fmt-check clippy tidy scripts-check ## format, clippy, tidy, shellcheck; needs no test program

# ---- steps of make ci ----

.PHONY: deny
deny: ## licences, banned versions and sources of all dependencies (cargo deny)
	$(call step,deny: licences$(comma) bans$(comma) sources)
	@scripts/install-tools.sh deny
	cargo deny --offline --log-level error check licenses bans sources

.PHONY: advisories
advisories: ## no dependency with a known one; needs a copy of the database
	$(call step,advisories: no dependency with a known one)
	@scripts/advisories.sh

.PHONY: scripts-check
scripts-check: ## shellcheck, where it is installed
	$(call step,scripts: shellcheck)
	@if command -v shellcheck > /dev/null; then \
		shellcheck scripts/*.sh .ci/run bindings/c/*/install.sh tests/packages/*.sh \
			packaging/debian/p*; \
	else \
		echo 'shellcheck is not installed: skipped'; \
	fi

.PHONY: simd
simd: ## the tests of SIMD crates with each code path forced
	$(call step,SIMD: the same tests with each code path forced)
	@if [ -z '$(strip $(SIMD_CRATES))' ]; then \
		echo 'no crate has code paths chosen by the processor'; \
	fi
	@for path in $(SIMD_PATHS); do \
		for crate in $(SIMD_CRATES); do \
			echo "WHERED_SIMD=$$path cargo test --locked --package $$crate"; \
			WHERED_SIMD=$$path cargo test --locked --package "$$crate"; \
		done; \
	done

.PHONY: fuzz-check
fuzz-check: ## the fuzz targets compile
	$(call step,fuzz targets: they compile)
	@scripts/fuzz.sh check

.PHONY: build-bench
build-bench: build
	cargo build --package whered-bench --locked

.PHONY: bench-tests
bench-tests: build-bench venv ## tests of the program whered-bench (tests/bench)
	$(call step,whered-bench: its data$(comma) its reports$(comma) sets of the kernel)
	$(VENV)/bin/python -m pytest -q tests/bench

.PHONY: versus-check
versus-check: ## the comparisons with rivals compile (bench/versus)
	$(call step,bench/versus: it compiles)
	cargo check --manifest-path bench/versus/Cargo.toml --target-dir bench/versus/target --bins --locked

.PHONY: faults-check
faults-check: build-bench ## 12 faults of each kind on the real system; root, strace
	$(call step,faults: a few on the real system)
	'$(TARGET_DIR)/debug/whered-bench' faults --rounds 12 --minutes 1 \
		--kinds kill,feeds,power,full,failing

.PHONY: fresh-clone
fresh-clone: venv ## tests are collected in a clone without the shared data
	$(call step,fresh clone: tests are collected where the shared data is absent)
	@scripts/fresh-clone.sh $(VENV)/bin/python

.PHONY: bindings
bindings: build venv ## tests of the C libraries by real programs (tests/bindings)
	$(call step,bindings: programs on our libmaxminddb and libGeoIP)
	@scripts/install-tools.sh test
	cargo build --package whered-maxminddb --package whered-geoip --package whered-c --locked
	$(VENV)/bin/python -m pytest -q tests/bindings

.PHONY: python
python: build ## the Python package: lints, all tests, and other Pythons that are here (bindings/python)
	$(call step,python: the package whered on this Python and others)
	@scripts/python.sh check
	@scripts/python.sh test

.PHONY: python-spark
python-spark: ## the Python package in Spark, on a cluster of processes; needs Java 17
	$(call step,python-spark: whered.spark on two workers)
	@scripts/python.sh spark

.PHONY: bench-check
bench-check: ## instructions per operation against bench/results (cargo xtask instructions)
	$(call step,bench-check: instructions per operation)
	@if [ '$(MACHINE)' = x86_64 ]; then \
		cargo xtask instructions; \
	else \
		echo 'the recorded counts are those of x86-64: skipped'; \
	fi

.PHONY: packages-check
packages-check: venv ## packages of the debug program: installed, started, asked, removed (tests/packages)
	$(call step,packages: Debian$(comma) static$(comma) image)
	@scripts/install-tools.sh packages
	@scripts/packages.sh check dev
	$(VENV)/bin/python -m pytest -q tests/packages

.PHONY: debian-check
debian-check: build venv ## the Debian package of the debug program: lintian, installed, started, asked, purged
	$(call step,Debian package: lintian$(comma) installed$(comma) asked$(comma) purged$(comma) make install)
	@scripts/install-tools.sh debian
	@scripts/packages.sh deb dev
	$(VENV)/bin/python -m pytest -q tests/packages -k 'debian or make_install or documents'

.PHONY: arm64-check
arm64-check: ## unit tests of the code that differs by processor, for aarch64 under QEMU
	$(call step,aarch64: unit tests under QEMU)
	@scripts/install-tools.sh arm64
	@scripts/arm64.sh

.PHONY: console-check
console-check: build venv ## the console in Chromium (tests/console), with times printed; skipped where chromium is absent
	$(call step,console: what a reader does$(comma) what goes wrong$(comma) times)
	@scripts/install-tools.sh console
	$(VENV)/bin/python -m pytest -q -s tests/console

.PHONY: console-bundle
console-bundle: ## make the console's vendor.js, world.json and NOTICE.txt anew from npm packages; node 20, npm
	@scripts/console.sh

# ---- slow suites ----

# How long `make slow-faults` and `make faults` stay with each kind of fault.
MINUTES := 5

.PHONY: slow-faults
slow-faults: build-bench ## each kind of fault for MINUTES=5 each, the debug program
	$(call step,faults: each kind for $(MINUTES) minutes)
	'$(TARGET_DIR)/debug/whered-bench' faults --minutes '$(MINUTES)'

.PHONY: fuzz
fuzz: ## run each fuzz target for SECONDS=60 seconds (needs nightly and cargo-fuzz)
	@scripts/fuzz.sh run '$(SECONDS)'

.PHONY: python-wheels
python-wheels: ## release wheels and source package of the Python package, in bindings/python/dist
	@scripts/python.sh wheels

# ---- benchmarks: they need rivals (installed), a quiet machine, and minutes to hours ----

BENCH_DATA := $(TARGET_DIR)/bench-data
# The last core is the one that least else runs on.
BENCH_CORE := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) - 1)))
# Our libmaxminddb.so.0, where this tree has it.
DROP_IN_FOLDER := $(wildcard bindings/c/maxminddb)
DROP_IN_PACKAGE := $(if $(DROP_IN_FOLDER),--package whered-maxminddb)
DROP_IN := $(if $(DROP_IN_FOLDER),--drop-in '$(TARGET_DIR)/release/libmaxminddb.so')

$(BENCH_DATA)/city.mmdb:
	'$(TARGET_DIR)/release/whered-bench' data --out '$(BENCH_DATA)'

.PHONY: bench-lookup
bench-lookup: ## lookups beside libmaxminddb, libGeoIP and the maxminddb crate; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --package whered --package whered-bench $(DROP_IN_PACKAGE) --locked
	cargo build --release --manifest-path bench/versus/Cargo.toml \
		--target-dir '$(TARGET_DIR)'
	@$(MAKE) --no-print-directory '$(BENCH_DATA)/city.mmdb'
	'$(TARGET_DIR)/release/whered-versus' --db '$(BENCH_DATA)/city.mmdb' \
		$(DROP_IN) --core '$(BENCH_CORE)' --record bench/results --date "$$(date -u +%F)"

LEGACY := /usr/share/GeoIP/GeoIP.dat
# Where the loader finds the original.
LIBGEOIP = $(shell PATH=$$PATH:/sbin:/usr/sbin ldconfig -p | sed -n 's/.*libGeoIP\.so\.1 .* => //p' | head -1)

.PHONY: bench-geoip
bench-geoip: ## libGeoIP's calls on our libGeoIP.so.1 beside the original: the first issue's addresses, all flags; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --package whered-geoip --locked
	@mkdir -p '$(BENCH_DATA)'
	cc -O2 -Wall -Wextra -Werror -Ibindings/c/geoip/include bench/versus/c/geoip_drop_in.c \
		-ldl -o '$(TARGET_DIR)/release/geoip-drop-in'
	python3 bench/versus/python/geoip.py --record bench/results --date "$$(date -u +%F)" \
		taskset -c '$(BENCH_CORE)' '$(TARGET_DIR)/release/geoip-drop-in' '$(TARGET_DIR)/release/libGeoIP.so' \
		'$(LIBGEOIP)' '$(LEGACY)' '$(BENCH_DATA)'

# As many points as the public benchmark has: make bench-geo POINTS=60841557
POINTS := 1000000

# Runs of one day add up to one record: make bench-dns DNS='--parts answers --zones small'
DNS :=

.PHONY: bench-dns
bench-dns: ## DNS over UDP beside NSD, Knot, gdnsd, BIND and PowerDNS; DNS='--parts ...' does a part; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --package whered --package whered-bench --locked
	cargo build --release --manifest-path bench/versus/Cargo.toml --bin whered-versus-dns \
		--target-dir '$(TARGET_DIR)'
	'$(TARGET_DIR)/release/whered-versus-dns' --whered '$(TARGET_DIR)/release/whered' \
		--whered-bench '$(TARGET_DIR)/release/whered-bench' $(DNS) --record bench/results --date "$$(date -u +%F)"

.PHONY: bench-geo
bench-geo: ## searches and moves beside redis-server with POINTS=1000000; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --package whered --locked
	cargo build --release --manifest-path bench/versus/Cargo.toml --bin whered-versus-geo \
		--target-dir '$(TARGET_DIR)'
	'$(TARGET_DIR)/release/whered-versus-geo' --whered '$(TARGET_DIR)/release/whered' \
		--points '$(POINTS)' --redis-dump '$(BENCH_DATA)/redis-mapped-1-$(POINTS).rdb' \
		--record bench/results --date "$$(date -u +%F)"

.PHONY: bench-journal
bench-journal: ## durable moves beside redis-server; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --package whered --locked
	cargo build --release --manifest-path bench/versus/Cargo.toml --bin whered-versus-journal \
		--target-dir '$(TARGET_DIR)'
	@mkdir -p '$(BENCH_DATA)'
	'$(TARGET_DIR)/release/whered-versus-journal' --whered '$(TARGET_DIR)/release/whered' \
		--scratch '$(BENCH_DATA)' --record bench/results --date "$$(date -u +%F)"

.PHONY: faults
faults: ## kill servers and fail their disks for MINUTES=5 each, the release program; writes bench/results
	@scripts/install-tools.sh test
	cargo build --release --package whered --package whered-bench --locked
	'$(TARGET_DIR)/release/whered-bench' faults --minutes '$(MINUTES)' \
		--record bench/results --date "$$(date -u +%F)"

.PHONY: bench-sets
bench-sets: ## prefix sets beside DPDK, the tree of 2007 and two crates; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --manifest-path bench/versus/Cargo.toml --bin whered-versus-sets \
		--features dpdk --target-dir '$(TARGET_DIR)'
	'$(TARGET_DIR)/release/whered-versus-sets' --core '$(BENCH_CORE)' \
		--record bench/results --date "$$(date -u +%F)"

# Parts of the comparison: make bench-feed-versus FEED='--groups mariadb-disk --workloads plain'
FEED :=

.PHONY: bench-feed
bench-feed: ## uploads with and without loot beside a bare receiver, then bench-feed-versus; writes bench/results
	cargo build --release --package whered --package whered-bench --locked
	@mkdir -p '$(BENCH_DATA)'
	'$(TARGET_DIR)/release/whered-bench' feed --folder '$(BENCH_DATA)/feed' \
		--record bench/results --date "$$(date -u +%F)"
	@$(MAKE) --no-print-directory bench-feed-versus

.PHONY: bench-feed-versus
bench-feed-versus: ## the same sightings through MariaDB, PostgreSQL, SQLite and Redis, and a sink; FEED='--groups ...' does a part; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --package whered --locked
	cargo build --release --manifest-path bench/versus/Cargo.toml --bin whered-versus-feed \
		--features feed --target-dir '$(TARGET_DIR)'
	@mkdir -p '$(BENCH_DATA)/feed'
	'$(TARGET_DIR)/release/whered-versus-feed' --whered '$(TARGET_DIR)/release/whered' \
		--disk '$(BENCH_DATA)/feed' $(FEED) --record bench/results --date "$$(date -u +%F)"

# Parts of the comparison, without a result: make bench-python PYTHON_BENCH='--parts columns,calls'
PYTHON_BENCH :=

.PHONY: bench-python
bench-python: ## the Python package beside maxminddb, maxminddb-rust, polars plugins, DuckDB functions and Spark; needs Java 17; writes bench/results
	cargo build --release --package whered-bench --locked
	@$(MAKE) --no-print-directory '$(BENCH_DATA)/city.mmdb'
	@scripts/python.sh bench
	bench/versus/python/.venv/bin/python bench/versus/python/versus.py \
		--db '$(BENCH_DATA)/city.mmdb' --asn '$(BENCH_DATA)/asn.mmdb' --core '$(BENCH_CORE)' \
		$(PYTHON_BENCH) --record bench/results --date "$$(date -u +%F)"

.PHONY: bench-sync
bench-sync: ## 500,000 members into this kernel, a thousand changes a second, probes (root)
	@scripts/install-tools.sh test
	cargo build --release --package whered --package whered-bench --locked
	@for kind in nft ipset; do '$(TARGET_DIR)/release/whered-bench' sync --kind "$$kind"; done

# ClassBench's own rulesets, NAME.rules.gz; measured where the folder is.
CLASSBENCH := ../shared/data/classbench

.PHONY: bench-rules
bench-rules: ## rules and sets as they grow beside DPDK, the tree of 2007 and the kernel; writes bench/results
	@scripts/install-tools.sh bench
	cargo build --release --package whered --package whered-bench --locked
	cargo build --release --manifest-path bench/versus/Cargo.toml --bin whered-versus-rules \
		--features dpdk --target-dir '$(TARGET_DIR)'
	@$(MAKE) --no-print-directory '$(BENCH_DATA)/city.mmdb'
	'$(TARGET_DIR)/release/whered-versus-rules' --core '$(BENCH_CORE)' \
		--data '$(BENCH_DATA)' --classbench '$(CLASSBENCH)' \
		--record bench/results --date "$$(date -u +%F)"

# ---- housekeeping ----

.PHONY: fmt
fmt: ## format the Rust sources
	cargo fmt --all

.PHONY: clean
clean: ## remove what was built, and .venv; ./data stays
	cargo clean
	rm -rf $(VENV) fuzz/target bench/versus/target bench/versus/python/.venv bindings/python/target bindings/python/.venv
