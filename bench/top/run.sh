#!/bin/bash
# run.sh [WEIR]: how long a key takes in `weir top` on a link of 2 x 5000 classes; see measure.py. WEIR is
# a built command; without it, it is built. Needs root. Exits 0 if the goals are met, 1 if not.
set -euo pipefail
cd "$(dirname "$0")/../.."

weir=${1:-}
if [ -z "$weir" ]; then
    cargo build --quiet --release --bin weir
    weir=${CARGO_TARGET_DIR:-target}/release/weir
fi
exec python3 -B bench/top/measure.py "$(realpath "$weir")"
