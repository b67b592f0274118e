# The few commands that a newcomer needs. `make test` is what CI runs; everything in it is one step
# of `cargo xtask ci`, so `cargo xtask ci STEP` repeats one of them alone.

SHELL := /bin/bash
CARGO ?= cargo

# A command that the build or the tests call, and the Debian package that brings it:
#   cc        links every Rust program
#   git       names the files that `cargo xtask tidy` checks
#   ip        shows and sets up interfaces beside a live link
#   objdump   says which library a package needs
#   tmux      is the terminal in which `weir top` is tested
#   setpriv   takes privileges away in the test of the package
#   prometheus  scrapes a live link
NEEDED := cc:build-essential git:git ip:iproute2 objdump:binutils \
    setpriv:util-linux prometheus:prometheus tmux:tmux strace:strace radclient:freeradius-utils
# `weir bench --instructions` counts with valgrind.
figures: NEEDED += valgrind:valgrind
# Subcommands of cargo that the checks call.
TOOLS := fmt clippy
# What only builds and runs Weir needs neither.
demo bench: NEEDED := cc:build-essential
demo bench: TOOLS :=
# A package is made where dpkg is.
deb release: NEEDED := cc:build-essential objdump:binutils dpkg-deb:dpkg
deb release: TOOLS :=
release: NEEDED += git:git python3:python3-venv

.PHONY: help test demo bench figures deb release setup

help:
	@echo 'make test    set up what is missing, then every check: style, laws, fuzzing, docs (15 minutes), or STEPS="tidy test"'
	@echo 'make demo    build Weir (4 minutes) and show it: live traffic through a link, simulated beside it, then changed and explained'
	@echo 'make bench   cost per packet of every scheduler on this machine'
	@echo 'make figures every figure of README and docs with its goal and verdict (hours), or PARTS="bench live"'
	@echo 'make deb     a Debian package with the service and the lab, in target/deb (tested by make test)'
	@echo 'make release what a user downloads, with sums, in target/release-files: programs, package, Python module, source'
	@echo 'make setup   only install what is missing; says what it installs'

# `cargo xtask ci --list` names the steps.
test: setup
	$(CARGO) xtask ci $(STEPS)

demo: setup
	@echo 'demo: building the command weir without what the demo does not need: 4 minutes on two cores'
	$(CARGO) build --locked --profile demo --package weir
	"$${CARGO_TARGET_DIR:-target}/demo/weir" demo

bench: setup
	$(CARGO) build --locked --release --package weir
	"$${CARGO_TARGET_DIR:-target}/release/weir" bench

deb: setup
	$(CARGO) build --locked --release --package weir --package weir-lab --features weir/full
	@mkdir -p "$${CARGO_TARGET_DIR:-target}/deb"
	@built="$${CARGO_TARGET_DIR:-target}/release"; \
	    dist/deb.sh "$$built/weir" "$${CARGO_TARGET_DIR:-target}/deb" "$$built/weir-lab"

release: setup
	$(CARGO) build --locked --release --package weir --package weir-lab --features weir/full
	@built="$${CARGO_TARGET_DIR:-target}/release"; \
	    dist/release.sh "$$built/weir" "$$built/weir-lab" "$${CARGO_TARGET_DIR:-target}/release-files"

# `cargo xtask figures --list` names the parts.
figures: setup
	$(CARGO) xtask figures $(PARTS)

# Installs only what is missing, and only as root; otherwise it says which command would.
setup:
	@missing=''; \
	for pair in $(NEEDED); do \
	    command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair##*:}"; \
	done; \
	if [ -n "$$missing" ]; then \
	    if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	        echo "setup: missing packages:$$missing" >&2; \
	        echo "setup: install them: sudo apt-get install$$missing" >&2; \
	        exit 1; \
	    fi; \
	    echo "setup: installing with apt-get:$$missing"; \
	    apt-get update -q && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing || \
	        { echo "setup: apt-get could not install:$$missing" >&2; exit 1; }; \
	fi
	@command -v $(CARGO) >/dev/null || \
	    { echo 'setup: no cargo; install Rust 1.91 or newer, for instance with rustup' >&2; exit 1; }
	@for tool in $(TOOLS); do \
	    $(CARGO) $$tool --version >/dev/null 2>&1 || \
	        { echo "setup: no cargo $$tool; run: rustup component add rustfmt clippy" >&2; exit 1; }; \
	done
