# Sourced by programs here that need the command and the module `weir`, both as released:
#
#     module PACKAGE...
#
# builds them, and installs the module with these packages from PyPI in an environment of its own. It
# sets `root`, `work` (a folder that vanishes), `weir` (the command) and `python`. It exits with 2 where
# it cannot.
set -eu

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

module() {
    cd "$root"
    cargo build --locked --release --quiet --package weir || exit 2
    weir=$(realpath "${CARGO_TARGET_DIR:-target}/release/weir")
    python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet 'maturin>=1.7,<2' "$@" || {
        echo "cannot install maturin, $* from PyPI; is python3-venv there?" >&2
        exit 2
    }
    python="$work/venv/bin/python"
    "$work/venv/bin/maturin" build --quiet --release --locked --manifest-path weir-python/Cargo.toml \
        --interpreter "$python" --out "$work/wheel" || exit 2
    "$work/venv/bin/pip" install --quiet "$work"/wheel/*.whl || exit 2
    export WEIR_PYTHON="$python"
}
