#!/bin/bash
# run.sh [WEIR]: what `weir init` promises, on real packets; see measure.py. WEIR is a built command;
# without it, it is built. Needs root. Exits 0 if the goals are met, 1 if not.
set -euo pipefail
cd "$(dirname "$0")/../.."

weir=${1:-}
if [ -z "$weir" ]; then
    cargo build --quiet --release --bin weir
    weir=${CARGO_TARGET_DIR:-target}/release/weir
fi
exec python3 -B bench/home/measure.py "$(realpath "$weir")"
