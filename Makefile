# Everything that people and CI do with this repository: `make help` lists it.
#
# `make test` is all that CI runs. Its steps are targets of their own, so that each can be run
# alone; they run one after the other, never side by side, since they share one target folder.

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
SIMD_PATHS := scalar avx2 avx512

# How long `make fuzz` stays with each target. (The name is what people type.)
SECONDS := 60

comma := ,
step = @printf '\n== %s\n' '$(1)'

.PHONY: help
help: ## list the targets
	@printf 'make TARGET, where TARGET is one of\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---- running ----

.PHONY: run
run: ## build the release program and start the demo server
	@scripts/install-tools.sh run
	cargo build --release --package whered --locked
	@exec '$(TARGET_DIR)/release/whered' serve --demo --data-dir ./data

# ---- testing: the steps of `make test`, in its order ----

.PHONY: test
test: install fmt-check clippy tidy advisories unit simd build fuzz-check faults-check fresh-clone clients bindings story examples bench-check ## everything that CI runs
	$(call step,all steps passed)

.PHONY: install
install: ## install what the tests need (apt-get, dnf, apk or brew; Python packages into .venv)
	$(call step,install: programs$(comma) Python packages$(comma) crates)
	@scripts/install-tools.sh test
	@scripts/install-tools.sh venv
	cargo fetch --locked

.PHONY: lint
lint: fmt-check clippy tidy scripts-check ## formatting, clippy, tidy, shellcheck

.PHONY: fmt-check
fmt-check:
	$(call step,fmt: rustfmt would change nothing)
	cargo fmt --all -- --check

.PHONY: clippy
clippy:
	$(call step,clippy: no warning in any target)
	cargo clippy --workspace --all-targets --locked -- -D warnings

.PHONY: tidy
tidy: ## the project's own rules: arrows, sizes, headers, licences (cargo xtask tidy)
	$(call step,tidy: arrows$(comma) sizes$(comma) headers$(comma) licences)
	cargo xtask tidy

.PHONY: advisories
advisories:
	$(call step,advisories: no dependency with a known one)
	@scripts/advisories.sh

.PHONY: scripts-check
scripts-check:
	$(call step,scripts: shellcheck)
	@if command -v shellcheck > /dev/null; then \
		shellcheck scripts/*.sh .ci/run bindings/c/whered/install.sh; \
	else \
		echo 'shellcheck is not installed: skipped'; \
	fi

.PHONY: unit
unit: ## cargo test: unit, property, wire and documentation tests
	$(call step,cargo test: unit$(comma) property$(comma) wire and documentation tests)
	cargo test --workspace --locked

.PHONY: simd
simd:
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

.PHONY: build
build: ## build the debug programs
	$(call step,build: the debug programs)
	cargo build --package whered --package whered-bench --locked

.PHONY: fuzz-check
fuzz-check:
	$(call step,fuzz targets: they compile)
	@scripts/fuzz.sh check

.PHONY: faults-check
faults-check: build
	$(call step,faults: a few on the real system)
	'$(TARGET_DIR)/debug/whered-bench' faults --rounds 12 --minutes 1 \
		--kinds kill,feeds,power,full,failing

.PHONY: fresh-clone
fresh-clone: venv
	$(call step,fresh clone: tests are collected where the shared data is absent)
	@scripts/fresh-clone.sh $(VENV)/bin/python

.PHONY: clients
clients: build venv ## tests by real foreign clients (tests/clients)
	$(call step,clients: redis-py$(comma) redis-cli$(comma) dig$(comma) dnspython$(comma) maxminddb)
	$(VENV)/bin/python -m pytest -q tests/clients

.PHONY: bindings
bindings: build venv ## tests of the C libraries by real programs (tests/bindings)
	$(call step,bindings: mmdblookup$(comma) Python$(comma) nginx and BIND on our libmaxminddb)
	cargo build --package whered-maxminddb --package whered-c --locked
	$(VENV)/bin/python -m pytest -q tests/bindings

.PHONY: story
story: build venv ## the tests that tell a user's story (tests/story)
	$(call step,story: what a user does from the first minute on)
	$(VENV)/bin/python -m pytest -q tests/story

.PHONY: venv
venv:
	@scripts/install-tools.sh venv

.PHONY: examples
examples: build ## run the marked examples of README.md and docs/ (cargo xtask readme)
	$(call step,examples: README.md and docs/ keep their word)
	cargo xtask readme

.PHONY: bench-check
bench-check: ## instructions per operation against bench/results (cargo xtask instructions)
	$(call step,bench-check: instructions per operation)
	cargo xtask instructions

# ---- beside the tests ----

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

# How long `make faults` stays with each kind of fault.
MINUTES := 5

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

.PHONY: fuzz
fuzz: ## run each fuzz target for SECONDS=60 seconds (needs nightly and cargo-fuzz)
	@scripts/fuzz.sh run '$(SECONDS)'

.PHONY: fmt
fmt: ## format the Rust sources
	cargo fmt --all

.PHONY: clean
clean: ## remove what was built, and .venv; ./data stays
	cargo clean
	rm -rf $(VENV) fuzz/target
