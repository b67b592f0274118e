#!/bin/bash
# run.sh [RUNS]: how much of two cores sweeps use, by threads of `weir sweep` and by Ray, beside
# plain processes that do the same runs. Exits 0 if both goals are met, 1 if not, 2 if it cannot
# measure. It installs maturin, Ray and the module in an environment of its own.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
cargo build --locked --release --quiet --package weir || exit 2
weir="${CARGO_TARGET_DIR:-target}/release/weir"
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet 'maturin>=1.7,<2' 'ray>=2.9' || {
    echo 'sweep: cannot install maturin and ray from PyPI; is python3-venv there?' >&2
    exit 2
}
"$work/venv/bin/maturin" build --quiet --release --locked --manifest-path weir-python/Cargo.toml \
    --interpreter "$work/venv/bin/python" --out "$work/wheel" || exit 2
"$work/venv/bin/pip" install --quiet "$work"/wheel/*.whl || exit 2
"$work/venv/bin/python" -B bench/sweep/measure.py "$weir" examples/walk/evening.toml "${1:-10000}"
